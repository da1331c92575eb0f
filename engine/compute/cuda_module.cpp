// dlopen(3) on the module beside the engine.
#include "engine/compute/cuda_module.hpp"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <string_view>

namespace vigil::compute::cuda {

std::vector<std::string> module_folders() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return {};
  const std::string program(path, static_cast<size_t>(length));
  const std::string folder = program.substr(0, program.rfind('/'));
  return {folder, folder + "/../libexec/vigil", folder + "/../lib/vigil"};
}

Result<GpuSource> open_module(const std::vector<std::string>& folders) {
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + module_file;
    if (::access(path.c_str(), F_OK) != 0) {
      looked += (looked.empty() ? "" : ", ") + folder;
      continue;
    }
    void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its code may run until the process ends
    if (handle == nullptr) {
      const char* const why = ::dlerror();
      return Error{std::string("the CUDA module cannot be opened: ") + (why != nullptr ? why : path.c_str())};
    }
    using Entry = const Module* ();
    Entry* const entry = reinterpret_cast<Entry*>(::dlsym(handle, module_symbol));
    const Module* const module = entry != nullptr ? entry() : nullptr;
    if (module == nullptr) return Error{path + " is no CUDA module of Vigil's"};
    if (module->interface_number != module_interface || std::string_view(module->version) != VIGIL_VERSION) {
      return Error{path + " is of another build (interface " + std::to_string(module->interface_number) + ", version " + module->version +
                   "; this engine has interface " + std::to_string(module_interface) + ", version " VIGIL_VERSION "): install both from one build"};
    }
    const Result<int> count = module->device_count();
    if (!count) return Error{count.error()};
    return GpuSource{*count, module->make};
  }
  return Error{std::string("no CUDA module: ") + module_file + " is not in " + (looked.empty() ? "any folder" : looked) + " (built with -DVIGIL_CUDA=ON)"};
}

}  // namespace vigil::compute::cuda
