// The desk's requests with pictures: what their encoder says, until they are queued like any other. Not here: how a picture is encoded.
#include <utility>

#include "server/turn/desk_parts.hpp"

namespace vigil::turn {

namespace {

// Each image token becomes as many as its picture has rows.
void repeat_image_tokens(Request& request) {
  std::vector<TokenId> ids;
  size_t picture = 0;
  for (const TokenId id : request.prompt) {
    const bool marks = id == request.image_token && picture < request.embeddings->rows.size();
    ids.insert(ids.end(), marks ? static_cast<size_t>(request.embeddings->rows[picture++]) : 1, id);
  }
  request.prompt = std::move(ids);
}

}  // namespace

void Desk::encoded(RequestKey key, std::shared_ptr<const Embeddings> embeddings, TimePoint now) {
  Open* open = find(key);
  if (!open || open->phase != Phase::encoding) return;
  open->request.embeddings = std::move(embeddings);
  open->request.pictures.clear();  // nobody needs their bytes any more
  repeat_image_tokens(open->request);
  if (engine_.phase == EnginePhase::ready) {
    if (auto error = unfit(open->request)) return encode_failed(key, *error, now);
  }
  enqueue(*open, now);
}

void Desk::encoded_some(RequestKey key, int64_t pictures, int64_t rows, TimePoint now) {
  const Open* open = find(key);
  if (!open || open->phase != Phase::encoding || engine_.phase != EnginePhase::ready || engine_.context <= 0) return;
  const int64_t least = static_cast<int64_t>(open->request.prompt.size()) - pictures + rows;
  if (least < engine_.context) return;
  encode_failed(key, {ErrorCode::context_length_exceeded, context_message("at least " + std::to_string(least), engine_.context), "", 1}, now);
}

std::string Desk::client_of(RequestKey key) const {
  const auto found = open_.find(key);
  return found == open_.end() ? std::string() : found->second->request.client;
}

void Desk::encode_failed(RequestKey key, const RequestError& error, TimePoint now) {
  Open* open = find(key);
  if (!open || open->phase != Phase::encoding) return;
  Ending ending;
  ending.how = Failed{error};
  end(key, std::move(ending), now);
}

}  // namespace vigil::turn
