// Stands for the toolkit's header of this name where kernels are compiled for the CPU.
#pragma once
#include "tests/cuda_on_cpu/intrinsics.hpp"
#include "tests/cuda_on_cpu/language.hpp"
#include "tests/cuda_on_cpu/matrix_instructions.hpp"
#include "tests/cuda_on_cpu/runtime_api.hpp"
