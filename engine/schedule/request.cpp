// The checks that need model and context.
#include "engine/schedule/request.hpp"

#include <string>

namespace vigil::schedule {

Result<void> check_ids(const Request& request, int64_t vocabulary, int64_t context) {
  const std::vector<TokenId>& ids = request.ids;
  if (ids.empty()) return Error{"the prompt has no ids"};
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 && request.pictures && request.pictures->at(static_cast<int64_t>(i)).embedding != nullptr) continue;
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      return Error{"prompt id " + std::to_string(ids[i]) + " at place " + std::to_string(i) + " is not between 0 and " +
                   std::to_string(vocabulary - 1)};
    }
  }
  const int64_t count = static_cast<int64_t>(ids.size());
  if (request.embed && count > context) {
    return Error{"the text of " + std::to_string(count) + " tokens is longer than the context of " + std::to_string(context)};
  }
  if (!request.embed && count >= context) {
    return Error{"the prompt of " + std::to_string(count) + " tokens leaves no room in the context of " + std::to_string(context)};
  }
  return {};
}

}  // namespace vigil::schedule
