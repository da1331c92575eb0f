// Half precision against its definition, over every bit pattern.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/compute/cpu/half.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/sample/random.hpp"

using namespace vigil;
using compute::cpu::bfloat_to_float;
using compute::cpu::float_to_half;
using compute::cpu::half_to_float;

TEST_CASE("every half becomes its value and comes back") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const int exponent = (half >> 10) & 31;
    const double mantissa = half & 1023;
    const float value = half_to_float(half);
    if (exponent == 31 && mantissa != 0) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    double expected = exponent == 31 ? std::numeric_limits<double>::infinity()
                      : exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    if ((half & 0x8000) != 0) expected = -expected;
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(float_to_half(value) == half);
  }
}

TEST_CASE("floats between two halves go to the nearer, and to the even one from the middle") {
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const double low = half_to_float(half), high = half_to_float(static_cast<uint16_t>(half + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: one bit more than a half has
    REQUIRE(float_to_half(middle) == ((half & 1) == 0 ? half : half + 1));
    REQUIRE(float_to_half(std::nextafter(middle, 0.0f)) == half);
    REQUIRE(float_to_half(std::nextafter(middle, 1e9f)) == half + 1);
  }
  CHECK(float_to_half(65519.0f) == 0x7bff);
  CHECK(float_to_half(65520.0f) == 0x7c00);
  CHECK(float_to_half(-1e30f) == 0xfc00);
  CHECK(float_to_half(1e-30f) == 0);
}

TEST_CASE("the model writer rounds to half as the cache does") {
  sample::Random random(5);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = static_cast<uint32_t>(random.next());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isnan(value)) continue;
    REQUIRE(gguf::half_bits(value) == float_to_half(value));
  }
}

TEST_CASE("bfloat16 is the upper half of a float") {
  CHECK(bfloat_to_float(0x3f80) == 1.0f);
  CHECK(bfloat_to_float(0xc020) == -2.5f);
  CHECK(std::isinf(bfloat_to_float(0x7f80)));
}
