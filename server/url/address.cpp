// See address.hpp. Sources: the IPv4 and IPv6 special-purpose address registries of IANA.
#include "server/url/address.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace vigil::url {

namespace {

template <size_t bytes>
struct Block {
  std::array<uint8_t, bytes> first;
  int bits;
};

constexpr Block<4> inner4[] = {
    {{0, 0, 0, 0}, 8},          // this network, unspecified
    {{10, 0, 0, 0}, 8},         // private
    {{100, 64, 0, 0}, 10},      // shared, behind carriers' NAT
    {{127, 0, 0, 0}, 8},        // loopback
    {{169, 254, 0, 0}, 16},     // link-local, clouds' metadata
    {{172, 16, 0, 0}, 12},      // private
    {{192, 0, 0, 0}, 24},       // protocol assignments
    {{192, 0, 2, 0}, 24},       // documentation
    {{192, 88, 99, 0}, 24},     // 6to4 relays
    {{192, 168, 0, 0}, 16},     // private
    {{198, 18, 0, 0}, 15},      // benchmarks
    {{198, 51, 100, 0}, 24},    // documentation
    {{203, 0, 113, 0}, 24},     // documentation
    {{224, 0, 0, 0}, 4},        // multicast
    {{240, 0, 0, 0}, 4},        // reserved, broadcast
};

constexpr Ipv6 ip6(std::array<uint16_t, 3> words) {
  Ipv6 out{};
  for (size_t i = 0; i < words.size(); ++i) {
    out[2 * i] = static_cast<uint8_t>(words[i] >> 8);
    out[2 * i + 1] = static_cast<uint8_t>(words[i]);
  }
  return out;
}

constexpr Block<16> global = {ip6({0x2000, 0, 0}), 3};  // all of global unicast: what lies outside is loopback, local, mapped, multicast or not given out
constexpr Block<16> inner6[] = {
    {ip6({0x2001, 0, 0}), 23},      // protocol assignments: Teredo, ORCHID
    {ip6({0x2001, 0xdb8, 0}), 32},  // documentation
    {ip6({0x3fff, 0, 0}), 20},      // documentation
};
constexpr Block<16> six_to_four = {ip6({0x2002, 0, 0}), 16};   // the IPv4 address is in bytes 2 to 5
constexpr Block<16> nat64 = {ip6({0x64, 0xff9b, 0}), 96};      // ... in the last four

template <size_t bytes>
bool within(const std::array<uint8_t, bytes>& address, const Block<bytes>& block) {
  for (int bit = 0; bit < block.bits; ++bit) {
    const auto byte = static_cast<size_t>(bit / 8);
    const int mask = 0x80 >> bit % 8;
    if ((address[byte] & mask) != (block.first[byte] & mask)) return false;
  }
  return true;
}

Ipv4 inside(const Ipv6& address, size_t at) { return {address[at], address[at + 1], address[at + 2], address[at + 3]}; }

}  // namespace

bool is_public(const Ipv4& address) {
  return std::none_of(std::begin(inner4), std::end(inner4), [&](const Block<4>& block) { return within(address, block); });
}

bool is_public(const Ipv6& address) {
  if (within(address, nat64)) return is_public(inside(address, 12));
  if (within(address, six_to_four)) return is_public(inside(address, 2));
  if (!within(address, global)) return false;
  return std::none_of(std::begin(inner6), std::end(inner6), [&](const Block<16>& block) { return within(address, block); });
}

bool is_loopback(const Ipv4& address) { return address[0] == 127; }

bool is_loopback(const Ipv6& address) {
  constexpr Ipv6 one{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address == one;
}

}  // namespace vigil::url
