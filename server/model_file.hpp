// Reads what the daemon needs of a model file: its name, vocabulary and chat template. By pread, never mapped: the file may change under us.
#pragma once

#include <memory>
#include <string>

#include "protocol/result.hpp"
#include "server/api/api.hpp"
#include "server/config/config.hpp"

namespace vigil {

// The bundled model: beside the program (bin/../models, bin/../share/vigil/models) or in ./models. An error lists the places.
Result<std::string> find_bundled_model(const std::string& program_dir);
// Its projector, which lies beside it; empty when it does not.
std::string bundled_projector(const std::string& bundled_model);

// `path` is what engine and vocabulary use. Errors name the file and the field.
Result<std::shared_ptr<api::Model>> read_model(const std::string& path, const config::Config& config);

}  // namespace vigil
