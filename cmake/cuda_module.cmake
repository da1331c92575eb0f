# libvigil-cuda.so, beside the engine, which opens it when a device is there (engine/compute/cuda_module.hpp). It holds all that it needs: the CUDA
# runtime, and the engine's own decoders of weight types; it exports one symbol.
# The engine does not depend on it: who builds the engine alone waits for no kernels.
file(GLOB vigil_cuda_sources CONFIGURE_DEPENDS engine/compute/cuda/*.cu engine/compute/cuda/*.cpp engine/compute/cpu/dequantise*.cpp)
add_library(vigil-cuda MODULE ${vigil_cuda_sources} engine/compute/cpu/codebooks.cpp engine/compute/cpu/cores.cpp engine/compute/cpu/worker_team.cpp engine/compute/tensor.cpp engine/gguf/tensor_type.cpp)
set_target_properties(vigil-cuda PROPERTIES
  PREFIX lib OUTPUT_NAME vigil-cuda LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin POSITION_INDEPENDENT_CODE ON
  CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static CUDA_ARCHITECTURES "${VIGIL_CUDA_ARCHITECTURES}"
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/cuda_module.symbols)
target_include_directories(vigil-cuda PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_definitions(vigil-cuda PRIVATE VIGIL_VERSION="${PROJECT_VERSION}")
# No contraction in the decoders, as in the engine; what kernels fuse they say themselves or may differ in.
target_compile_options(vigil-cuda PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O3 -ffp-contract=off> $<$<COMPILE_LANGUAGE:CUDA>:-O3>)
target_link_libraries(vigil-cuda PRIVATE CUDA::cudart_static Threads::Threads)
target_link_options(vigil-cuda PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/cuda_module.symbols -Wl,--no-undefined)
install(TARGETS vigil-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/vigil)
