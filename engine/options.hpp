// The command line of vigil-engine, checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/schedule/runtime.hpp"
#include "protocol/result.hpp"

namespace vigil::engine {

inline constexpr int64_t default_slots = 4;
inline constexpr int64_t default_draft_guesses = 8;  // most at once, when a draft model is given alone; how many is found out by how they fare

struct Options {
  std::string model;                 // path of a GGUF file
  schedule::RuntimeOptions runtime;  // --context, --threads, --backend, --kv-type, --slots, --cache-mib, --speculate, --draft-model, --gpu-layers, --layer-split and the like
  double step_ms = 500;              // how long a prefill chunk should take
  int64_t beat_ms = 1000;            // between two BEAT lines while a request is active
};

// `arguments` without the program's name. Errors name the flag and what it may be.
Result<Options> parse_options(std::span<const std::string_view> arguments);

inline constexpr std::string_view usage_text =
    "usage: vigil-engine --model FILE.gguf [--context N] [--threads N] [--backend auto|cpu|cuda] [--kv-type f16|f32|q8_0|q4_0] [--step-ms N] [--slots N]\n"
    "                    [--cache-mib N] [--speculate N] [--draft-model FILE.gguf] [--beat-ms N]\n"
    "                    [--gpu-layers N] [--layer-split N,N] [--gpu-reserve-mib N] [--cuda-graphs on|off]\n"
    "                    [--gpu-experts N] [--expert-swap-mib N]\n"
    "Reads commands (GEN, EMB, STOP, QUIT) on stdin and answers on stdout; docs/line-protocol.md has the lines.\n"
    "  --context N   tokens; 0 = the largest up to the trained one that fits into 80 % of the available memory (default)\n"
    "  --threads N   0 = one per core that the process may use, one for models under 16 MiB (default)\n"
    "  --backend B   auto = the GPU where the CUDA module and a device are there, else the CPU (default); cuda = the GPU or an error\n"
    "  --slots N     requests that run at once, 0 to 1024; 0 = 4 (default)\n"
    "  --cache-mib N memory for conversations that have ended, so that their next turn is not read again; 0 = as memory allows\n"
    "                (default), -1 = nothing is kept\n"
    "  --speculate N guess at most N tokens ahead, 0 to 64, from what the text repeats; 0 = off (default). The answers are the same\n"
    "  --draft-model FILE  a smaller model of the same vocabulary that guesses where the text repeats nothing; --speculate is 8 then if it is not given\n"
    "  --gpu-layers N  the last N layers are on GPUs and the others on the CPU; -1 = as many as fit, with --backend cuda all (default), 0 = none\n"
    "  --layer-split 3,1  shares of several GPUs, in their order; without it one GPU if the model fits on it, else all by what is free\n"
    "  --gpu-reserve-mib N  what stays free of each GPU; -1 = 5 % of what is free (default)\n"
    "  --cuda-graphs on|off  on = steps that come again and again are given to the GPU as recorded (default); off = op by op\n"
    "  --gpu-experts N  so many experts of each layer have a copy on its GPU, and all are in RAM (as many as there are: layers are whole); -1 = all are on the GPU if they fit, else as many as fit\n"
    "                (default), 0 = none\n"
    "  --expert-swap-mib N  of these copies so much is made anew between two requests, for experts that are used more; 0 = none, default 128\n"
    "  --step-ms N   about how long a prompt chunk takes, 1 to 60000 (default 500)\n"
    "  --beat-ms N   between two beats while a request is active, 10 to 3600000 (default 1000)\n";

}  // namespace vigil::engine
