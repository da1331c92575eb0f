// Header and vocabulary of a model file for the daemon.
#include "server/model_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <sys/stat.h>

#include "engine/gguf/file.hpp"
#include "server/text/chat_template.hpp"
#include "server/text/image_markers.hpp"
#include "server/vision.hpp"

namespace vigil {

namespace {

constexpr size_t max_template_bytes = 4u << 20;

std::string file_stem(const std::string& path) {
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name;
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{"chat_template_file: cannot read " + path + ": " + std::strerror(errno)};
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > max_template_bytes) return Error{"chat_template_file: " + path + " is larger than 4 MiB"};
  return text;
}

}  // namespace

Result<std::string> find_bundled_model(const std::string& program_dir) {
  const std::string name = "models/vigil-tiny.gguf";
  const std::string places[] = {program_dir + "/../" + name, program_dir + "/../share/vigil/" + name, name};
  std::string tried;
  for (const auto& place : places) {
    struct stat info {};
    if (::stat(place.c_str(), &info) == 0) return place;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Error{"the bundled model is at none of " + tried + "; name a model with --model FILE.gguf"};
}

std::string bundled_projector(const std::string& bundled_model) {
  const std::string path = bundled_model.substr(0, bundled_model.size() - std::string_view(".gguf").size()) + "-mmproj.gguf";
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? path : "";
}

Result<std::shared_ptr<api::Model>> read_model(const std::string& path, const config::Config& config) {
  const auto source = gguf::open_pread(path);
  if (!source) return Error{"model: " + source.error()};
  const auto in_file = [&path](const std::string& what) { return Error{"model " + path + ": " + what}; };
  const auto file = gguf::File::parse(**source);
  if (!file) return in_file(file.error());
  auto vocabulary = gguf::Vocabulary::from(*file);
  if (!vocabulary) return in_file(vocabulary.error());

  auto model = std::make_shared<api::Model>();
  model->vocabulary = std::make_shared<const gguf::Vocabulary>(std::move(*vocabulary));
  auto tokenizer = gguf::make_tokenizer(*model->vocabulary);
  if (!tokenizer) return in_file(tokenizer.error());
  model->tokenizer = std::move(*tokenizer);
  constexpr size_t character_bytes = 4;  // what a token for an unknown character may stand for
  model->longest_token_bytes = character_bytes;
  for (gguf::TokenId id = 0; id < model->vocabulary->size(); ++id)
    model->longest_token_bytes = std::max(model->longest_token_bytes, model->vocabulary->piece(id).size());

  const auto name = file->string_or("general.name", "");
  if (!name) return in_file(name.error());
  model->id = !config.model_name.empty() ? config.model_name : !name->empty() ? *name : file_stem(path);
  model->aliases = config.aliases;
  const auto architecture = file->string_or("general.architecture", "");
  if (!architecture) return in_file(architecture.error());
  const auto context = file->integer_or(*architecture + ".context_length", 0);
  if (!context) return in_file(context.error());
  model->trained_context = *context;
  if (config.chat_template_file.empty()) {
    const auto text = file->string_or("tokenizer.chat_template", "");
    if (!text) return in_file(text.error());
    model->chat_template = *text;
  } else {
    auto text = read_text(config.chat_template_file);
    if (!text) return Error{text.error()};
    model->chat_template = std::move(*text);
  }
  if (!model->chat_template.empty()) {
    auto chat = text::ChatTemplate::compile(model->chat_template, *model->vocabulary);
    if (!chat) return config.chat_template_file.empty() ? in_file(chat.error()) : Error{"chat_template_file " + config.chat_template_file + ": " + chat.error()};
    model->chat = std::move(*chat);
  }
  model->output = text::output_format(model->chat_template, *model->vocabulary);
  auto image = text::find_image_markers(*model->vocabulary, config.vision.image_token);
  if (!image) return in_file(image.error());
  model->image = *image;
  if (vision_wanted(config.vision) && !model->image) {
    return in_file("vision.image_token: its vocabulary has no image token that is known; name one, or leave vision.mmproj and vision.exe out");
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) model->created = info.st_mtime;
  return model;
}

}  // namespace vigil
