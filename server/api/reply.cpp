// See reply.hpp.
#include "server/api/reply.hpp"

#include <algorithm>
#include <utility>

namespace vigil::api {

Reply::Reply(Setup setup) : setup_(std::move(setup)), open_(setup_.choices) {
  if (!stream()) choices_.resize(setup_.choices);
}

void Reply::log(const std::string& line) const {
  if (setup_.log) setup_.log("request " + setup_.flow->request_id + ": " + line);
}

void Reply::begin() {
  out_.clear();
  if (!opened_) setup_.flow->format->open(out_);
  opened_ = true;
}

// One write a token at most; tokens whose text is held back go with the next piece.
void Reply::write(Piece& piece) {
  begin();
  if (!piece.parts.empty()) {
    setup_.flow->format->piece(out_, piece);
    piece.clear();
  }
  if (!out_.empty()) setup_.flow->channel->write(out_);
}

void Reply::count(size_t choice, const ChoiceEnd& end, const turn::Ending& ending) {
  const bool first_of_prompt = choice % setup_.choices_per_prompt == 0;
  if (first_of_prompt) {
    totals_.usage.prompt += ending.usage.prompt;
    totals_.usage.cached += ending.usage.cached;
  }
  totals_.usage.generated += ending.usage.generated;
  totals_.reasoning += end.reasoning;
  const bool earlier = ending.first_token_s > 0 && (totals_.first_token_s == 0 || ending.first_token_s < totals_.first_token_s);
  if (earlier) totals_.first_token_s = ending.first_token_s;
  totals_.queued_s = open_ == setup_.choices ? ending.queued_s : std::min(totals_.queued_s, ending.queued_s);
  totals_.total_s = std::max(totals_.total_s, ending.total_s);
}

void Reply::end_stream_choice(const ChoiceEnd& end, Piece& rest) {
  ReplyFormat& format = *setup_.flow->format;
  begin();
  if (!rest.parts.empty()) {
    format.piece(out_, rest);
    rest.clear();
  }
  format.end_choice(out_, end, rest);
  if (open_ > 0) return setup_.flow->channel->write(out_);
  format.close(out_, totals_);
  setup_.flow->ended = true;
  setup_.flow->channel->write(out_);
  setup_.flow->channel->finish();
}

void Reply::end_choice(ChoiceEnd end, Piece rest, const turn::Ending& ending) {
  if (over()) return;
  count(end.choice, end, ending);
  --open_;
  if (stream()) return end_stream_choice(end, rest);
  ItemCollector collector;
  collector.add(rest);
  ReplyChoice& choice = choices_[end.choice];
  choice.items = collector.complete_items();
  choice.all = std::move(rest);
  choice.end = std::move(end);
  if (open_ > 0) return;
  Response response;
  response.body = setup_.flow->format->whole(choices_, totals_);
  setup_.flow->ended = true;
  setup_.flow->channel->respond(std::move(response));
}

void Reply::fail(const ErrorFacts& error) {
  if (over()) return;
  setup_.flow->fail(error);
  if (open_ > 1 && setup_.leave_others) setup_.leave_others();
}

void Reply::fail(turn::RequestError error) {
  if (error.code == turn::ErrorCode::internal_error) log(error.message);
  if (error.code == turn::ErrorCode::context_length_exceeded && error.param.empty()) error.param = setup_.prompt_field;
  fail(error_facts(error));
}

}  // namespace vigil::api
