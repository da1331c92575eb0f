// How the engine opens the CUDA module: what is missing or does not fit is said, and auto goes on without it. The modules are tests/fakes/cuda_module.cpp.
#include <catch2/catch.hpp>

#include <string>

#include "engine/compute/cuda_module.hpp"

using namespace vigil;
using namespace vigil::compute;
using Catch::Matchers::Contains;

namespace {

const std::string modules = VIGIL_FAKE_MODULES_DIR;

std::string refusal(const std::vector<std::string>& folders) {
  const auto backend = make_backend({"cuda", 1, folders});
  return backend ? std::string() : backend.error();
}

}  // namespace

TEST_CASE("a module is looked for in each folder, and the reason names what does not fit") {
  CHECK_THAT(refusal({"/nowhere", modules}), Contains("no CUDA module: libvigil-cuda.so is not in /nowhere, ") && Contains("-DVIGIL_CUDA=ON"));
  CHECK_THAT(refusal({modules + "/no_device"}), Contains("--backend cuda: no usable device: none today") && Contains("--backend auto or cpu"));
  CHECK_THAT(refusal({"/nowhere", modules + "/no_device"}), Contains("none today"));
  CHECK_THAT(refusal({modules + "/other_interface"}), Contains("is of another build (interface 4711") && Contains("install both from one build"));
  CHECK_THAT(refusal({modules + "/other_version"}), Contains("is of another build") && Contains("version 0.0.0-other"));
  CHECK_THAT(refusal({modules + "/no_symbol"}), Contains("is no CUDA module of Vigil's"));
  CHECK_THAT(refusal({modules + "/no_library"}), Contains("the CUDA module cannot be opened"));
  CHECK_THAT(refusal({modules + "/other_interface", modules + "/no_device"}), Contains("interface 4711"));  // the first is the one
}

TEST_CASE("auto computes on the CPU where the module gives no backend, and notes why") {
  const auto backend = make_backend({"auto", 1, {modules + "/no_device"}});
  REQUIRE(backend);
  CHECK_THAT(std::string((*backend)->name()), !Contains("cuda"));
  REQUIRE((*backend)->notes().size() == 1);
  CHECK_THAT((*backend)->notes()[0], Contains("computing on the CPU: no usable device: none today"));
  const auto silent = make_backend({"auto", 1});  // nobody said where modules are
  REQUIRE(silent);
  CHECK((*silent)->notes().empty());
}

TEST_CASE("the module's folders are those beside the program") {
  const std::vector<std::string> folders = cuda::module_folders();
  REQUIRE(folders.size() == 3);
  CHECK(folders[0] == std::string(VIGIL_BIN_DIR));
}
