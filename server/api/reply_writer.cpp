// See reply_writer.hpp.
#include "server/api/reply_writer.hpp"

#include <exception>
#include <utility>

namespace vigil::api {

ReplyWriter::ReplyWriter(Setup setup)
    : setup_(std::move(setup)), stream_(*setup_.model->vocabulary), stops_(std::move(setup_.stop)), guard_(setup_.repeat_stop_tokens) {
  piece_.choice = end_.choice = setup_.choice;
  text::OutputSink& sink = *this;
  if (setup_.format) parser_ = std::make_unique<text::OutputParser>(setup_.format, std::move(setup_.parsing), sink);
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

turn::Verdict ReplyWriter::take(const protocol::Token& token) {
  Reply& reply = *setup_.reply;
  if (reply.over()) return turn::Verdict::stop;
  const gguf::Vocabulary& vocabulary = *setup_.model->vocabulary;
  ++end_.generated;
  if (parser_ && parser_->inside_thinking()) ++end_.reasoning;
  const bool control = parser_ && token.id >= 0 && token.id < vocabulary.size() && vocabulary.kind(token.id) == gguf::TokenKind::control;
  auto match = text::StopStrings::Match::no;
  if (control) {
    take_control(token.id);
  } else {
    match = take_text(token.id);
  }
  if (setup_.return_token_ids) piece_.ids.push_back(token.id);
  if (token.logprob) add_logprobs(token);
  if (reply.stream()) reply.write(piece_);
  if (match == text::StopStrings::Match::yes) return turn::Verdict::stop;
  if (guard_.push(token.id) == text::RepetitionGuard::State::endless) {
    reply.log("the same token (" + std::to_string(token.id) + ") came " + std::to_string(setup_.repeat_stop_tokens) +
              " times in a row (engine.repeat_stop_tokens); ended as length");
    return turn::Verdict::length;
  }
  return turn::Verdict::more;
}

void ReplyWriter::on_end(const turn::Ending& ending) {
  Reply& reply = *setup_.reply;
  try {
    if (!failure_.empty()) return reply.fail(internal_error(reply.request_id(), failure_));
    if (const auto* failed = std::get_if<turn::Failed>(&ending.how)) return reply.fail(failed->error);
    if (const auto* finished = std::get_if<turn::Finished>(&ending.how)) return finish(finished->finish, ending);
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
  setup_.reply->end_choice(std::move(end_), std::move(piece_), ending);
}

}  // namespace vigil::api
