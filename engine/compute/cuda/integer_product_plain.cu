// Products of the types with one scale for each 32 columns.
#include "engine/compute/cuda/integer_product.cuh"

namespace vigil::compute::cuda {

void launch_plain_product(const ProductCall& call) {
  switch (call.type) {
    case TensorType::q4_0: launch_integer_product<TensorType::q4_0>(call); return;
    case TensorType::q8_0: launch_integer_product<TensorType::q8_0>(call); return;
    default: return;  // not of this family; see launch_product
  }
}

}  // namespace vigil::compute::cuda
