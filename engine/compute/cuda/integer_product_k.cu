// Products of the types with superblocks of 256 columns and quantised scales.
#include "engine/compute/cuda/integer_product.cuh"

namespace vigil::compute::cuda {

void launch_k_product(const ProductCall& call) {
  switch (call.type) {
    case TensorType::q4_k: launch_integer_product<TensorType::q4_k>(call); return;
    case TensorType::q5_k: launch_integer_product<TensorType::q5_k>(call); return;
    case TensorType::q6_k: launch_integer_product<TensorType::q6_k>(call); return;
    default: return;  // not of this family; see launch_product
  }
}

}  // namespace vigil::compute::cuda
