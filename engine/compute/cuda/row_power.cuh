// The power of two under which a row of floats becomes halves: its largest value comes to lie between 2^14 and 2^15, so that what is 2^28 times smaller
// still keeps a half's eleven bits.
#pragma once

#include <cuda_runtime.h>

namespace vigil::compute::cuda {

// A value that is no number would vanish in a maximum; as an infinity it makes the scale infinite and so the result no number.
__device__ __forceinline__ float magnitude(float value) {
  const float size = fabsf(value);
  return size <= 3.402823466e38f ? size : __uint_as_float(0x7f800000u);
}

struct RowPower {
  float inverse;  // values times it, and then rounded; 0 is to stand for them in a row that is not finite
  float factor;   // what undoes it; not a number for such a row
  bool finite;
};

__device__ __forceinline__ RowPower row_power(float largest) {
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23);  // of a float that is not negative, with its bias of 127
  const bool finite = exponent < 255;
  const int power = max(exponent - 14, 1);
  return {__uint_as_float(static_cast<unsigned>(254 - power) << 23), __uint_as_float(finite ? static_cast<unsigned>(power) << 23 : 0x7fc00000u), finite};
}

}  // namespace vigil::compute::cuda
