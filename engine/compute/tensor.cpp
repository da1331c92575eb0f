// Names of the KV cache's types.
#include "engine/compute/tensor.hpp"

namespace vigil::compute {

std::string_view name_of(KvType type) {
  switch (type) {
    case KvType::f16: return "f16";
    case KvType::f32: return "f32";
    case KvType::q8_0: return "q8_0";
    case KvType::q4_0: return "q4_0";
  }
  return "";
}

std::optional<KvType> kv_type_named(std::string_view name) {
  for (const KvType type : {KvType::f16, KvType::f32, KvType::q8_0, KvType::q4_0}) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace vigil::compute
