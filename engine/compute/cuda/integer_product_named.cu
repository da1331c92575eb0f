// Products of the types whose codes name values of a table.
#include "engine/compute/cuda/integer_product.cuh"

namespace vigil::compute::cuda {

void launch_named_product(const ProductCall& call) {
  switch (call.type) {
    case TensorType::iq4_xs: launch_integer_product<TensorType::iq4_xs>(call); return;
    case TensorType::iq3_xxs: launch_integer_product<TensorType::iq3_xxs>(call); return;
    case TensorType::mxfp4: launch_integer_product<TensorType::mxfp4>(call); return;
    default: return;  // not of this family; see launch_product
  }
}

}  // namespace vigil::compute::cuda
