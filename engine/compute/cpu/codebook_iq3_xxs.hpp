// The points of IQ3_XXS as a constant expression: the CUDA kernels make their own table of it.
#pragma once

#include "engine/compute/cpu/codebook_packing.hpp"

namespace vigil::compute::cpu {

inline constexpr std::string_view iq3_xxs_gaps =
    R"(#$$'$&#$)+;$&$'$)&%$)-.*$$')$)$&,(0&(#$-E56'-.$&(52U96&$702$'$)$'$$-#:$))$Q$'$))D($0+/2-&EJ&45.p0B$)$'$&%+A$$%$))=&#*$)(#$/#/6)&N&C0:6,=h$-9)"
    R"(>)$)$7/'($0+-$=$'/7214`15((.=A47J76-0$.&p61#2(3@AG-C07p%$0T99*(29A0B*K?-&E*9rN0T2$0?B@GF(iCGSJ0T$$#42N,L='8/07C2A$4g)";

constexpr Codebook<uint8_t, 4, 256> unpack_iq3_xxs() { return unpack<uint8_t, 4, 256, 8>(iq3_xxs_gaps, {4, 12, 20, 28, 36, 44, 52, 62}); }

}  // namespace vigil::compute::cpu
