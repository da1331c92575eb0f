// Numbers between commas.
#include "protocol/layer_split.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace vigil::protocol {

Result<std::vector<double>> parse_layer_split(std::string_view text) {
  std::vector<double> shares;
  if (text.empty()) return shares;
  const auto refused = [&](const std::string& why) {
    return Error{"'" + std::string(text.substr(0, 60)) + "' " + why + "; write one number for each GPU, such as 3,1"};
  };
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    double share = -1;
    const auto [parsed, error] = std::from_chars(text.data() + begin, text.data() + end, share);
    if (error != std::errc{} || parsed != text.data() + end || !(share >= 0 && share <= 1e6)) return refused("has a part that is no number from 0 to 1000000");
    shares.push_back(share);
    if (shares.size() > max_layer_shares) return refused("names more than " + std::to_string(max_layer_shares) + " GPUs");
    begin = end + 1;
  }
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; })) return refused("gives no GPU a part");
  return shares;
}

}  // namespace vigil::protocol
