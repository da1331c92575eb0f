// Calls whose arguments are tags or keys with raw values: <function=f><parameter=a>…</parameter></function> and its kin. See call_readers.hpp.
#include "server/text/call_readers.hpp"
#include "server/text/call_types.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

constexpr std::string_view cdata_open = "<![CDATA[", cdata_close = "]]>";

class XmlReader : public CallReader {
 public:
  XmlReader(const CallSyntax& syntax, bool section, const DeclaredTools& tools)
      : syntax_(syntax), tools_(tools), state_(section ? State::around : State::name) {}

  Step feed(char c, CallText& call) override {
    switch (state_) {
      case State::around: return around(c);
      case State::name: return name(c, call);
      case State::name_rest: return until(c, syntax_.name_close, State::body);
      case State::body: return body(c, call);
      case State::key: return key(c);
      case State::key_rest: return until(c, syntax_.value_open, State::value);
      case State::value: return value(c, call);
      case State::over: return Step::leave;
    }
    return Step::bad;
  }

  bool between_calls() const override { return calls_ > 0 && (state_ == State::around || state_ == State::over); }

  void close(CallText& call) override {
    if (state_ == State::value && streams_) call.arguments += '"';
    end_arguments(call);
  }

 private:
  enum class State { around, name, name_rest, body, key, key_rest, value, over };

  Step around(char c) {
    if (!mark_) {
      if (is_white_space(c)) return Step::more;
      mark_.emplace(std::vector<std::string_view>{syntax_.call_open, calls_ == 0 ? std::string_view{} : std::string_view(syntax_.section_close)});
    }
    const std::string_view found = mark_->feed(c);
    if (found.empty()) return !mark_->failed() ? Step::more : calls_ == 0 ? Step::bad : Step::leave;
    mark_.reset();
    if (found == syntax_.section_close) return Step::section_done;
    state_ = State::name;
    text_.clear();
    return Step::more;
  }

  // The name ends with its mark or, where there is none, with a blank or the next tag.
  Step name(char c, CallText& call) {
    const bool marked = !syntax_.name_end.empty();
    const bool ends = !marked && !trimmed(text_).empty() && (is_white_space(c) || c == '<');
    if (!ends) {
      text_ += c;
      if (!marked || !text_.ends_with(syntax_.name_end)) {
        return text_.size() <= 2 * max_call_name_bytes && may_be_name(tools_, trimmed(text_)) ? Step::more : Step::bad;
      }
      text_.resize(text_.size() - syntax_.name_end.size());
    }
    const std::string name(trimmed(text_));
    tool_ = tools_.find(name);
    if (!tool_) return Step::bad;
    call.name = name;
    arguments_begun_ = false;
    mark_.reset();
    if (ends) {
      state_ = State::body;
      return body(c, call);
    }
    next_part(syntax_.name_close.empty() ? State::body : State::name_rest);
    return Step::more;
  }

  void next_part(State state) {
    state_ = state;
    text_.clear();
    until_.reset();
  }

  // Attributes, up to the mark.
  Step until(char c, const std::string& mark, State then) {
    if (!until_) until_.emplace(mark);
    if (until_->feed(c, text_)) {
      if (then == State::value) begin_value();
      else next_part(then);
    }
    return text_.size() <= max_call_name_bytes ? Step::more : Step::bad;
  }

  Step body(char c, CallText& call) {
    if (!mark_) {
      if (is_white_space(c)) return Step::more;
      mark_.emplace(std::vector<std::string_view>{syntax_.parameter_open, syntax_.call_close, syntax_.section_close});
    }
    const std::string_view found = mark_->feed(c);
    if (found.empty()) return mark_->failed() ? Step::bad : Step::more;
    mark_.reset();
    if (found == syntax_.parameter_open) {
      next_part(State::key);
      return Step::more;
    }
    end_arguments(call);
    ++calls_;
    // Without a section of its own a call ends alone; where the section's end came first, the call's was forgotten.
    state_ = found == syntax_.section_close || syntax_.section_open.empty() ? State::over : State::around;
    return Step::call_done;
  }

  Step key(char c) {
    if (!until_) until_.emplace(syntax_.key_end);
    if (until_->feed(c, text_)) {
      key_ = trimmed(text_);
      if (key_.empty()) return Step::bad;
      attributes_.clear();
      if (syntax_.value_open.empty()) begin_value();
      else next_part(State::key_rest);
      return Step::more;
    }
    return text_.size() <= max_call_name_bytes ? Step::more : Step::bad;
  }

  void begin_value() {
    attributes_ = text_;
    next_part(State::value);
    until_.emplace(syntax_.parameter_close);
    type_ = argument_type(*tool_, key_, attributes_);
    streams_ = value_begun_ = in_cdata_ = was_cdata_ = false;
    held_.clear();
  }

  Step value(char c, CallText& call) {
    if (in_cdata_) {
      if (until_->feed(c, text_)) {
        in_cdata_ = false;
        was_cdata_ = true;
        until_.emplace(syntax_.parameter_close);
        ignored_.clear();
      }
      return text_.size() <= max_call_value_bytes ? Step::more : Step::bad;
    }
    if (was_cdata_) {  // behind it only the closing tag may come
      if (until_->feed(c, ignored_)) return end_value(call);
      return trimmed(ignored_).empty() && ignored_.size() <= max_call_name_bytes ? Step::more : Step::bad;
    }
    if (until_->feed(c, text_)) return end_value(call);
    if (!streams_ && text_ == cdata_open && syntax_.cdata) {
      text_.clear();
      in_cdata_ = true;
      until_.emplace(std::string(cdata_close));
      return Step::more;
    }
    const bool cdata_possible = syntax_.cdata && !streams_ && cdata_open.starts_with(text_);
    if (type_ == ArgumentType::text && !text_.empty() && !cdata_possible) stream(call);
    return text_.size() <= max_call_value_bytes ? Step::more : Step::bad;
  }

  // Sends what there is of a text value; a line break at its end may not be part of it.
  void stream(CallText& call) {
    if (!streams_) {
      begin_argument(call);
      call.arguments += '"';
      streams_ = true;
    }
    if (!value_begun_ && syntax_.strip_newlines && text_.starts_with('\n')) text_.erase(0, 1);
    value_begun_ = true;
    held_ += text_;
    text_.clear();
    const bool hold = syntax_.strip_newlines && held_.ends_with('\n');
    append_json_escaped(call.arguments, std::string_view(held_).substr(0, held_.size() - hold));
    held_.erase(0, held_.size() - hold);
  }

  Step end_value(CallText& call) {
    if (type_ == ArgumentType::text) {
      if (was_cdata_) value_begun_ = true;
      stream(call);
      call.arguments += '"';
    } else {
      begin_argument(call);
      call.arguments += typed_value(type_, text_);
    }
    state_ = State::body;
    return Step::more;
  }

  void begin_argument(CallText& call) {
    call.arguments += arguments_begun_ ? ", \"" : "{\"";
    append_json_escaped(call.arguments, key_);
    call.arguments += "\": ";
    arguments_begun_ = true;
  }

  void end_arguments(CallText& call) {
    call.arguments += arguments_begun_ ? "}" : "{}";
    arguments_begun_ = true;
  }

  const CallSyntax& syntax_;
  const DeclaredTools& tools_;
  State state_;
  size_t calls_ = 0;
  const ToolDefinition* tool_ = nullptr;
  std::optional<OneOf> mark_;
  std::optional<Until> until_;
  std::string text_, key_, attributes_, held_, ignored_;
  ArgumentType type_ = ArgumentType::text;
  bool arguments_begun_ = false;
  bool streams_ = false;      // the value is sent as it comes, and its quotation mark is open
  bool value_begun_ = false;  // its first characters are behind us
  bool in_cdata_ = false, was_cdata_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_xml_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools) {
  return std::make_unique<XmlReader>(syntax, section, tools);
}

}  // namespace vigil::text
