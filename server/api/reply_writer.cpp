// See reply_writer.hpp.
#include "server/api/reply_writer.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

namespace vigil::api {

ReplyWriter::ReplyWriter(Setup setup)
    : setup_(std::move(setup)), stream_(*setup_.model->vocabulary), stops_(std::move(setup_.stop)), guard_(setup_.repeat_stop_tokens) {
  piece_.choice = end_.choice = setup_.choice;
  text::OutputSink& sink = *this;
  if (setup_.format) parser_ = std::make_unique<text::OutputParser>(setup_.format, setup_.parsing, sink);
}

void ReplyWriter::call_begin(size_t index, std::string_view name) {
  piece_.add(PartKind::call_begin, name, index);
  piece_.parts.back().call_id = ApiState::new_call_id();
}

void ReplyWriter::call_end(size_t index) {
  piece_.add(PartKind::call_end, {}, index);
  ++complete_calls_;
}

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

void ReplyWriter::show(std::string_view text) {
  if (text.empty()) return;
  if (parser_) {
    parser_->push(text, text::OutputParser::Source::text);
  } else {
    content(text);
  }
}

text::StopStrings::Match ReplyWriter::take_text(gguf::TokenId id) {
  fresh_.clear();
  shown_.clear();
  stream_.push(id, fresh_);
  const text::StopStrings::Match match = stops_.push(fresh_, shown_);
  show(shown_);
  return match;
}

// Markup of the model's own: text that stands before it can become no part of a character or a stop string behind it.
void ReplyWriter::take_control(gguf::TokenId id) {
  fresh_.clear();
  shown_.clear();
  stream_.finish(fresh_);
  stops_.push(fresh_, shown_);
  stops_.interrupt(shown_);
  show(shown_);
  parser_->push(setup_.model->vocabulary->piece(id), text::OutputParser::Source::control);
}

void ReplyWriter::add_logprobs(const protocol::Token& token) {
  const gguf::Vocabulary& vocabulary = *setup_.model->vocabulary;
  const auto bytes = [&](gguf::TokenId id) {
    return id >= 0 && id < vocabulary.size() ? vocabulary.bytes(id, gguf::Vocabulary::Control::show) : std::string();
  };
  TokenLogprob entry{bytes(token.id), *token.logprob, {}};
  for (const protocol::Candidate& candidate : token.top) entry.top.emplace_back(bytes(candidate.id), candidate.logprob);
  piece_.logprobs.push_back(std::move(entry));
}

// The prompt is known only now, with its pictures' rows; so is the room behind it, and what the engine can do.
void ReplyWriter::on_started(const std::vector<gguf::TokenId>& prompt) {
  if (before_) return;
  setup_.reply->sent(setup_.choice, prompt);
  if (!setup_.thinking || !parser_) return;
  const EngineStatus engine = setup_.engine();
  if (setup_.parsing.thinking_open && engine.can_grammar) return;  // it was told to end it itself
  const int64_t room = engine.context > 0 ? engine.context - static_cast<int64_t>(prompt.size()) : std::numeric_limits<int64_t>::max();
  limit_ = setup_.max_new > 0 ? std::min(setup_.max_new, room) : room;
  thinking_budget_ = std::max<int64_t>(limit_ - std::min(setup_.thinking->reserve, limit_ / 2), 1);
  if (setup_.thinking->most > 0) thinking_budget_ = std::min(thinking_budget_, setup_.thinking->most);
}

text::StopStrings::Match ReplyWriter::feed(gguf::TokenId id) {
  const gguf::Vocabulary& vocabulary = *setup_.model->vocabulary;
  ++end_.generated;
  if (parser_ && parser_->inside_thinking()) ++end_.reasoning;
  if (thinking_budget_ > 0) answered_.push_back(id);
  if (setup_.return_token_ids) piece_.ids.push_back(id);
  const bool control = parser_ && id >= 0 && id < vocabulary.size() && vocabulary.kind(id) == gguf::TokenKind::control;
  if (!control) return take_text(id);
  take_control(id);
  return text::StopStrings::Match::no;
}

turn::Verdict ReplyWriter::take(const protocol::Token& token) {
  Reply& reply = *setup_.reply;
  if (reply.over()) return turn::Verdict::stop;
  const text::StopStrings::Match match = feed(token.id);
  if (token.logprob) add_logprobs(token);
  if (reply.stream()) reply.write(piece_);
  if (match == text::StopStrings::Match::yes) return turn::Verdict::stop;
  if (guard_.push(token.id) == text::RepetitionGuard::State::endless) {
    reply.log("the same token (" + std::to_string(token.id) + ") came " + std::to_string(setup_.repeat_stop_tokens) +
              " times in a row (engine.repeat_stop_tokens); ended as length");
    return turn::Verdict::length;
  }
  over_budget_ = thinking_budget_ > 0 && end_.reasoning >= thinking_budget_ && parser_->inside_thinking();
  return over_budget_ ? turn::Verdict::stop : turn::Verdict::more;
}

// The closing tag stands in the answer as if the model had written it.
void ReplyWriter::end_thinking(const turn::Ending& ending) {
  for (const gguf::TokenId id : setup_.thinking->ids) feed(id);
  if (setup_.reply->stream()) setup_.reply->write(piece_);
  over_budget_ = false;
  thinking_budget_ = 0;
  before_ = ending;
  const int64_t left = limit_ - end_.generated;
  if (left <= 0 || stops_.matched()) return finish(stops_.matched() ? turn::Finish::stop : turn::Finish::length, ending);
  setup_.go_on(shared_from_this(), std::move(answered_), left);
}

void ReplyWriter::on_end(const turn::Ending& ending) {
  Reply& reply = *setup_.reply;
  try {
    if (!failure_.empty()) return reply.fail(internal_error(reply.request_id(), failure_));
    if (const auto* failed = std::get_if<turn::Failed>(&ending.how)) return reply.fail(failed->error);
    if (const auto* finished = std::get_if<turn::Finished>(&ending.how)) {
      if (over_budget_) return end_thinking(ending);
      return finish(finished->finish, ending);
    }
    const turn::CancelledBy by = std::get<turn::Cancelled>(ending.how).by;
    if (by == turn::CancelledBy::client_left) return reply.client_left();
    reply.fail(error_facts(by));
  } catch (const std::exception& failure) {
    reply.fail(internal_error(reply.request_id(), failure.what()));
  }
}

void ReplyWriter::finish(turn::Finish finish, const turn::Ending& ending) {
  if (!stops_.matched()) {
    fresh_.clear();
    shown_.clear();
    stream_.finish(fresh_);
    stops_.push(fresh_, shown_);
    stops_.finish(shown_);
    show(shown_);
  }
  bool thinking = false;
  if (parser_) {
    thinking = parser_->inside_thinking();
    parser_->finish(finish == turn::Finish::length ? text::OutputParser::End::cut : text::OutputParser::End::complete);
  }
  end_.stop_string = stops_.matched_text();
  end_.reason = complete_calls_ > 0 ? FinishReason::tool_calls : FinishReason::stop;
  // A reply that never came to its answer is none that stopped, whatever the engine says (contract, "Thinking").
  if (finish == turn::Finish::length || thinking) {
    end_.reason = FinishReason::length;
    end_.stop_string.clear();
  }
  turn::Ending whole = ending;
  if (before_) {
    whole.usage = before_->usage;
    whole.usage.generated = end_.generated;
    whole.queued_s = before_->queued_s;
    whole.first_token_s = before_->first_token_s;
    whole.total_s += before_->total_s;
  }
  setup_.reply->end_choice(std::move(end_), std::move(piece_), whole);
}

}  // namespace vigil::api
