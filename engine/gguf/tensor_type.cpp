// The table of tensor types. Block sizes follow the layouts in ggml-common.h (fp16 or fp32 scales, then packed weights).
#include "engine/gguf/tensor_type.hpp"

#include <algorithm>
#include <array>

namespace vigil::gguf {

namespace {

using T = TensorType;

constexpr auto types = std::to_array<TypeInfo>({
    {T::f32, "F32", 1, 4},           {T::f16, "F16", 1, 2},           {T::q4_0, "Q4_0", 32, 18},       {T::q4_1, "Q4_1", 32, 20},
    {T::q5_0, "Q5_0", 32, 22},       {T::q5_1, "Q5_1", 32, 24},       {T::q8_0, "Q8_0", 32, 34},       {T::q8_1, "Q8_1", 32, 36},
    {T::q2_k, "Q2_K", 256, 84},      {T::q3_k, "Q3_K", 256, 110},     {T::q4_k, "Q4_K", 256, 144},     {T::q5_k, "Q5_K", 256, 176},
    {T::q6_k, "Q6_K", 256, 210},     {T::q8_k, "Q8_K", 256, 292},     {T::iq2_xxs, "IQ2_XXS", 256, 66}, {T::iq2_xs, "IQ2_XS", 256, 74},
    {T::iq3_xxs, "IQ3_XXS", 256, 98}, {T::iq1_s, "IQ1_S", 256, 50},   {T::iq4_nl, "IQ4_NL", 32, 18},   {T::iq3_s, "IQ3_S", 256, 110},
    {T::iq2_s, "IQ2_S", 256, 82},    {T::iq4_xs, "IQ4_XS", 256, 136}, {T::i8, "I8", 1, 1},             {T::i16, "I16", 1, 2},
    {T::i32, "I32", 1, 4},           {T::i64, "I64", 1, 8},           {T::f64, "F64", 1, 8},           {T::iq1_m, "IQ1_M", 256, 56},
    {T::bf16, "BF16", 1, 2},         {T::tq1_0, "TQ1_0", 256, 54},    {T::tq2_0, "TQ2_0", 256, 66},    {T::mxfp4, "MXFP4", 32, 17},
    {T::nvfp4, "NVFP4", 64, 36},     {T::q1_0, "Q1_0", 128, 18},      {T::q2_0, "Q2_0", 64, 18},
});

}  // namespace

std::optional<TypeInfo> type_info(uint32_t number) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const TypeInfo& info) { return static_cast<uint32_t>(info.type) == number; });
  if (found == types.end()) return std::nullopt;
  return *found;
}

}  // namespace vigil::gguf
