// Calls in Python's notation: [f(a=1, b="x"), g()], f.call(a="x") behind <|python_tag|>, and plain code. See call_readers.hpp.
#include "server/text/call_readers.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

// What stands between the brackets of one call: a=1, b="x"
class KeywordArguments {
 public:
  using Step = CallReader::Step;

  Step feed(char c, std::string& out) {
    switch (state_) {
      case State::key_or_close:
        if (is_white_space(c)) return Step::more;
        if (c == ')') return end(out);
        [[fallthrough]];
      case State::key:
        state_ = State::key;
        if (c == '=') {
          const std::string_view key = trimmed(key_);
          if (key.empty()) return Step::bad;
          out += begun_ ? ", \"" : "{\"";
          append_json_escaped(out, key);
          out += "\": ";
          begun_ = true;
          value_.emplace(ValueReader::Notation::python);
          state_ = State::value;
          return Step::more;
        }
        if (!is_name_character(c) && !is_white_space(c)) return Step::bad;
        key_ += c;
        return key_.size() <= max_call_name_bytes ? Step::more : Step::bad;
      case State::value: {
        if (!value_->started() && is_white_space(c)) return Step::more;
        const ValueReader::Step step = value_->feed(c, out);
        if (step == ValueReader::Step::bad) return Step::bad;
        if (step == ValueReader::Step::more) return Step::more;
        state_ = State::next;
        if (step == ValueReader::Step::done) return Step::more;
        [[fallthrough]];
      }
      case State::next:
        if (is_white_space(c)) return Step::more;
        if (c == ')') return end(out);
        if (c != ',') return Step::bad;
        key_.clear();
        state_ = State::key_or_close;
        return Step::more;
    }
    return Step::bad;
  }

  void close(std::string& out) {
    if (state_ == State::value) value_->close(out);
    end(out);
  }

 private:
  enum class State { key_or_close, key, value, next };
  Step end(std::string& out) {
    out += begun_ ? "}" : "{}";
    return Step::call_done;
  }
  State state_ = State::key_or_close;
  bool begun_ = false;
  std::string key_;
  std::optional<ValueReader> value_;
};

class PythonReader : public CallReader {
 public:
  PythonReader(const CallSyntax& syntax, const DeclaredTools& tools) : syntax_(syntax), tools_(tools) {}

  Step feed(char c, CallText& call) override {
    switch (state_) {
      case State::name:
        if (is_white_space(c) && name_.empty()) return Step::more;
        if (c == '[' && name_.empty() && !list_) {
          list_ = true;
          return Step::more;
        }
        if (c == '(') {
          if (!tools_.find(name_)) return Step::bad;
          call.name = name_;
          arguments_ = {};
          state_ = State::arguments;
          return Step::more;
        }
        name_ += c;
        return is_name_character(c) && tools_.a_name_begins_with(name_) ? Step::more : Step::bad;
      case State::arguments: {
        const Step step = arguments_.feed(c, call.arguments);
        if (step != Step::call_done) return step;
        ++calls_;
        state_ = State::between;
        return step;
      }
      case State::between:
        if (is_white_space(c)) return Step::more;
        if (c == ',' || c == ';') {
          name_.clear();
          state_ = State::name;
          return Step::more;
        }
        state_ = State::closer;
        if (c == ']' && list_) return Step::settled;
        [[fallthrough]];
      case State::closer:
        if (!closer_.begun() && is_white_space(c)) return Step::more;
        if (!closer_.feed(c).empty()) return Step::section_done;
        return closer_.failed() ? Step::leave : Step::more;
    }
    return Step::bad;
  }

  bool between_calls() const override { return calls_ > 0 && (state_ == State::between || state_ == State::closer); }
  void close(CallText& call) override { arguments_.close(call.arguments); }

 private:
  enum class State { name, arguments, between, closer };
  const CallSyntax& syntax_;
  const DeclaredTools& tools_;
  State state_ = State::name;
  bool list_ = false;
  size_t calls_ = 0;
  std::string name_;
  KeywordArguments arguments_;
  OneOf closer_{{syntax_.section_close}};
};

// {"name": …} or f.call(a="x"). The second is for tools that the template offers by itself, so their names are in no request.
class PythonTagReader : public CallReader {
 public:
  PythonTagReader(const CallSyntax& syntax, const DeclaredTools& tools) : json_(make_json_reader(syntax, tools)) {}

  Step feed(char c, CallText& call) override {
    if (state_ == State::begin) {
      if (is_white_space(c)) return Step::more;
      state_ = c == '{' ? State::json : State::name;
    }
    if (state_ == State::json) return json_->feed(c, call);
    if (state_ == State::over) return Step::leave;
    if (state_ == State::arguments) {
      const Step step = arguments_.feed(c, call.arguments);
      if (step == Step::call_done) state_ = State::over;
      return step;
    }
    constexpr std::string_view call_mark = ".call";
    if (c == '(') {
      if (!name_.ends_with(call_mark) || name_.size() == call_mark.size()) return Step::bad;
      call.name = name_.substr(0, name_.size() - call_mark.size());
      state_ = State::arguments;
      return Step::more;
    }
    name_ += c;
    return is_name_character(c) && name_.size() <= max_call_name_bytes ? Step::more : Step::bad;
  }

  bool between_calls() const override { return state_ == State::over || (state_ == State::json && json_->between_calls()); }
  void close(CallText& call) override {
    if (state_ == State::json) json_->close(call);
    else arguments_.close(call.arguments);
  }

 private:
  enum class State { begin, json, name, arguments, over };
  State state_ = State::begin;
  std::unique_ptr<CallReader> json_;
  std::string name_;
  KeywordArguments arguments_;
};

// All that follows is the code of the tool `python`, which the template offers by itself.
class PythonCodeReader : public CallReader {
 public:
  Step feed(char c, CallText& call) override {
    if (!begun_) {
      call.name = "python";
      call.arguments += "{\"code\": \"";
      begun_ = true;
    }
    append_json_escaped(call.arguments, std::string_view(&c, 1));
    return Step::more;
  }
  bool between_calls() const override { return false; }
  bool finish(CallText& call) override {
    if (begun_) close(call);
    return begun_;
  }
  void close(CallText& call) override { call.arguments += "\"}"; }

 private:
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_python_reader(const CallSyntax& syntax, const DeclaredTools& tools) {
  return std::make_unique<PythonReader>(syntax, tools);
}

std::unique_ptr<CallReader> make_python_tag_reader(const CallSyntax& syntax, const DeclaredTools& tools) {
  return std::make_unique<PythonTagReader>(syntax, tools);
}

std::unique_ptr<CallReader> make_python_code_reader() { return std::make_unique<PythonCodeReader>(); }

}  // namespace vigil::text
