// Calls that are JSON objects: {"name": "f", "arguments": {…}}, alone, several, or in a list, or {"f": {…}}. See call_readers.hpp.

#include "server/json/json.hpp"
#include "server/text/call_readers.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

class JsonReader : public CallReader {
 public:
  JsonReader(const CallSyntax& syntax, const DeclaredTools& tools)
      : syntax_(syntax), tools_(tools), list_(syntax.section_open.ends_with('[')) {}

  Step feed(char c, CallText& call) override {
    switch (state_) {
      case State::before: return before(c);
      case State::key: return key(c, call);
      case State::colon:
        if (is_white_space(c)) return Step::more;
        if (c != ':') return Step::bad;
        state_ = State::value;
        return Step::more;
      case State::value: return value(c, call);
      case State::next: return next(c, call);
      case State::between: return between(c);
      case State::closer: return closer(c);
    }
    return Step::bad;
  }

  bool between_calls() const override { return calls_ > 0 && (state_ == State::between || state_ == State::closer); }

  void close(CallText& call) override {
    if (value_ && part_ == Part::arguments) value_->close(call.arguments);
    else if (!arguments_read_) call.arguments += "{}";
  }

 private:
  enum class State { before, key, colon, value, next, between, closer };
  enum class Part { name, arguments, encoded_arguments, other };

  Step before(char c) {
    if (is_white_space(c)) return Step::more;
    if (c == '[' && !list_) {
      list_ = true;
      return Step::more;
    }
    if (c != '{') return Step::bad;
    begin_object();
    return Step::more;
  }

  void begin_object() {
    state_ = State::key;
    arguments_read_ = first_key_done_ = comma_ = false;
    held_arguments_.clear();
    value_.reset();
    text_.clear();
  }

  Step key(char c, CallText& call) {
    if (!value_) {
      if (is_white_space(c)) return Step::more;
      if (c == '}' && !comma_) return end_object(call);
      if (c != '"') return Step::bad;
      value_.emplace(ValueReader::Notation::json);
    }
    const ValueReader::Step step = value_->feed(c, text_);
    if (step == ValueReader::Step::bad || text_.size() > max_call_name_bytes) return Step::bad;
    if (step == ValueReader::Step::more) return Step::more;
    const std::string name = decoded();
    value_.reset();
    text_.clear();
    state_ = State::colon;
    return take_key(name, call) ? Step::more : Step::bad;
  }

  bool take_key(const std::string& name, CallText& call) {
    if (syntax_.name_is_key) {
      if (first_key_done_ || !tools_.find(name)) return false;
      first_key_done_ = true;
      call.name = name;
      part_ = Part::arguments;
      return true;
    }
    const bool arguments = name == syntax_.arguments_key || name == "arguments" || name == "parameters";
    part_ = name == syntax_.name_key ? Part::name : arguments ? Part::arguments : Part::other;
    if ((part_ == Part::name && call.name) || (part_ == Part::arguments && arguments_read_)) return false;
    // A model without call markup may answer in JSON: only what can be nothing but a call is one.
    return !syntax_.at_start || part_ != Part::other || name == "type" || name == "id";
  }

  Step value(char c, CallText& call) {
    if (!value_) {
      if (is_white_space(c)) return Step::more;
      if (part_ == Part::arguments && c == '"') part_ = Part::encoded_arguments;
      else if (part_ == Part::arguments && c != '{') return Step::bad;
      else if (part_ == Part::name && c != '"') return Step::bad;
      value_.emplace(ValueReader::Notation::json);
      text_.clear();
    }
    std::string& out = part_ != Part::arguments ? text_ : call.name ? call.arguments : held_arguments_;
    const ValueReader::Step step = value_->feed(c, out);
    if (part_ == Part::other) text_.clear();
    if (step == ValueReader::Step::bad || text_.size() > max_call_value_bytes) return Step::bad;
    if (part_ == Part::name && text_.size() > 6 * max_call_name_bytes) return Step::bad;
    if (step == ValueReader::Step::more) return Step::more;
    value_.reset();
    state_ = State::next;
    if (!take_value(call)) return Step::bad;
    return step == ValueReader::Step::done_before ? next(c, call) : Step::more;
  }

  bool take_value(CallText& call) {
    if (part_ == Part::name) {
      std::string name = decoded();
      if (!tools_.find(name)) return false;
      call.name = std::move(name);
      call.arguments += held_arguments_;
      held_arguments_.clear();
    } else if (part_ == Part::arguments) {
      arguments_read_ = true;
    } else if (part_ == Part::encoded_arguments) {
      const std::string arguments = whole_value(ValueReader::Notation::json, decoded());
      if (!arguments.starts_with('{')) return false;
      (call.name ? call.arguments : held_arguments_) += arguments;
      arguments_read_ = true;
    }
    return true;
  }

  Step next(char c, CallText& call) {
    if (is_white_space(c)) return Step::more;
    if (c == '}') return end_object(call);
    if (c != ',') return Step::bad;
    state_ = State::key;
    comma_ = true;
    text_.clear();
    return Step::more;
  }

  Step end_object(CallText& call) {
    if (!call.name) return Step::bad;
    if (!arguments_read_) call.arguments += "{}";
    ++calls_;
    state_ = State::between;
    return Step::call_done;
  }

  // Behind an object: the next one, or the end of all.
  Step between(char c) {
    if (is_white_space(c)) return Step::more;
    if (c == ',' || c == ';') return Step::more;
    if (c == '{') {
      begin_object();
      return Step::more;
    }
    if (list_ && c == ']') {
      list_ = false;
      state_ = State::closer;
      return has_closer() ? Step::settled : Step::section_done;
    }
    if (c == '}' && has_closer()) return Step::settled;  // models count braces badly
    state_ = State::closer;
    return closer(c);
  }

  Step closer(char c) {
    if (!closer_.begun() && is_white_space(c)) return Step::more;
    if (!closer_.feed(c).empty()) return Step::section_done;
    return closer_.failed() ? Step::leave : Step::more;
  }

  bool has_closer() const { return !syntax_.section_close.empty() || !syntax_.call_close.empty(); }
  std::string decoded() const { return nlohmann::json::parse(text_, nullptr, false).get<std::string>(); }

  const CallSyntax& syntax_;
  const DeclaredTools& tools_;
  State state_ = State::before;
  Part part_ = Part::other;
  bool list_ = false, arguments_read_ = false, first_key_done_ = false, comma_ = false;
  size_t calls_ = 0;
  std::optional<ValueReader> value_;
  std::string text_;            // of a key, a name, arguments in a string
  std::string held_arguments_;  // that came before the name
  OneOf closer_{{syntax_.section_close, syntax_.call_close}};
};

}  // namespace

std::unique_ptr<CallReader> make_json_reader(const CallSyntax& syntax, const DeclaredTools& tools) {
  return std::make_unique<JsonReader>(syntax, tools);
}

}  // namespace vigil::text
