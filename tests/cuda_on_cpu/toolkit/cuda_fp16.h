// Stands for the toolkit's header of this name where kernels are compiled for the CPU.
#pragma once
#include "tests/cuda_on_cpu/half_types.hpp"
