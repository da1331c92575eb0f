// See reply_writer.hpp.
#include "server/api/reply_writer.hpp"

#include <exception>
#include <utility>

#include "server/api/errors.hpp"

namespace vigil::api {

ReplyWriter::ReplyWriter(Setup setup)
    : setup_(std::move(setup)), stream_(*setup_.model->vocabulary), stops_(std::move(setup_.stop)), guard_(setup_.repeat_stop_tokens) {}

turn::Verdict ReplyWriter::on_token(const protocol::Token& token) {
  try {
    return take(token);
  } catch (const std::exception& failure) {
    failure_ = failure.what();
  } catch (...) {
    failure_ = "an exception of unknown type";
  }
  return turn::Verdict::stop;
}

turn::Verdict ReplyWriter::take(const protocol::Token& token) {
  whole_.clear();
  stream_.push(token.id, whole_);
  const text::StopStrings::Match match = stops_.push(whole_, piece_.text);
  if (setup_.return_token_ids) piece_.ids.push_back(token.id);
  if (token.logprob) {
    const gguf::Vocabulary& vocabulary = *setup_.model->vocabulary;
    const auto bytes = [&](gguf::TokenId id) {
      return id >= 0 && id < vocabulary.size() ? vocabulary.bytes(id, gguf::Vocabulary::Control::show) : std::string();
    };
    TokenLogprob entry{bytes(token.id), *token.logprob, {}};
    for (const protocol::Candidate& candidate : token.top) entry.top.emplace_back(bytes(candidate.id), candidate.logprob);
    piece_.logprobs.push_back(std::move(entry));
  }
  if (setup_.flow->stream) write_piece();
  if (match == text::StopStrings::Match::yes) return turn::Verdict::stop;
  if (guard_.push(token.id) == text::RepetitionGuard::State::endless) {
    if (setup_.log) {
      setup_.log("request " + setup_.flow->request_id + ": the same token (" + std::to_string(token.id) + ") came " +
                 std::to_string(setup_.repeat_stop_tokens) + " times in a row (engine.repeat_stop_tokens); ended as length");
    }
    return turn::Verdict::length;
  }
  return turn::Verdict::more;
}

// One write a token at most; tokens whose text is held back go with the next piece.
void ReplyWriter::write_piece() {
  out_.clear();
  if (!opened_) setup_.format->open(out_);
  opened_ = true;
  if (!piece_.text.empty()) {
    setup_.format->piece(out_, piece_);
    piece_.clear();
  }
  if (!out_.empty()) setup_.flow->channel->write(out_);
}

void ReplyWriter::on_end(const turn::Ending& ending) {
  try {
    if (!failure_.empty()) return fail(internal_error(setup_.flow->request_id, failure_));
    if (const auto* failed = std::get_if<turn::Failed>(&ending.how)) return fail(failed->error);
    if (const auto* finished = std::get_if<turn::Finished>(&ending.how)) return finish(finished->finish, ending);
    const turn::CancelledBy by = std::get<turn::Cancelled>(ending.how).by;
    if (by == turn::CancelledBy::client_left) {
      setup_.flow->ended = true;  // nobody is there to read
      return;
    }
    setup_.flow->fail(cancelled_response(by), cancelled_event(by));
  } catch (const std::exception& failure) {
    setup_.flow->fail(internal_error(setup_.flow->request_id, failure.what()));
  }
}

void ReplyWriter::fail(turn::RequestError error) {
  if (error.code == turn::ErrorCode::internal_error && setup_.log) setup_.log("request " + setup_.flow->request_id + ": " + error.message);
  if (error.code == turn::ErrorCode::context_length_exceeded && error.param.empty()) error.param = setup_.prompt_field;
  setup_.flow->fail(error);
}

void ReplyWriter::finish(turn::Finish finish, const turn::Ending& ending) {
  if (!stops_.matched()) {
    whole_.clear();
    stream_.finish(whole_);
    stops_.push(whole_, piece_.text);
    stops_.finish(piece_.text);
  }
  Flow& flow = *setup_.flow;
  if (flow.ended) return;
  if (!flow.stream) {
    Response response;
    response.body = setup_.format->whole(finish, piece_, ending);
    flow.ended = true;
    flow.channel->respond(std::move(response));
    return;
  }
  out_.clear();
  if (!opened_) setup_.format->open(out_);
  opened_ = true;
  if (!piece_.text.empty()) {
    setup_.format->piece(out_, piece_);
    piece_.clear();
  }
  setup_.format->close(out_, finish, piece_, ending);
  flow.ended = true;
  flow.channel->write(out_);
  flow.channel->finish();
}

}  // namespace vigil::api
