// IP addresses by class: whether one leads out into the Internet, which a name must, or back into this machine, its network or nowhere. Pure.
#pragma once

#include <array>
#include <cstdint>

namespace vigil::url {

using Ipv4 = std::array<uint8_t, 4>;
using Ipv6 = std::array<uint8_t, 16>;

// False for everything of IANA's special-purpose registries (RFC 6890 and its updates), multicast and what is reserved. An IPv6 address that
// carries an IPv4 one (NAT64, 6to4) is judged by that too; mapped and compatible forms are never public.
bool is_public(const Ipv4& address);
bool is_public(const Ipv6& address);

bool is_loopback(const Ipv4& address);
bool is_loopback(const Ipv6& address);

}  // namespace vigil::url
