// Calls that are a name and then arguments in one value: f … {…}. See call_readers.hpp.
#include "server/text/call_readers.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

constexpr size_t max_head_bytes = 2 * max_call_name_bytes;  // a name with an id or an index

class NamedReader : public CallReader {
 public:
  NamedReader(const CallSyntax& syntax, const DeclaredTools& tools, bool section) : syntax_(syntax), tools_(tools) {
    state_ = section ? State::around : State::head;
  }
  NamedReader(const CallSyntax& syntax, const DeclaredTools& tools, std::string name) : syntax_(syntax), tools_(tools), name_(std::move(name)) {
    begin_arguments();
  }

  Step feed(char c, CallText& call) override {
    switch (state_) {
      case State::around: return around(c);
      case State::head: return head(c, call);
      case State::arguments: return arguments(c, call);
    }
    return Step::bad;
  }

  bool between_calls() const override { return calls_ > 0 && state_ == State::around; }

  void close(CallText& call) override { value_->close(call.arguments); }

 private:
  enum class State { around, head, arguments };

  Step around(char c) {
    if (!mark_) {
      if (is_white_space(c) && has_mark()) return Step::more;
      mark_.emplace(calls_ == 0 ? std::vector<std::string_view>{syntax_.call_open}
                                : std::vector<std::string_view>{syntax_.call_close, syntax_.section_close, again() ? syntax_.call_open : std::string_view{}});
    }
    const std::string_view found = mark_->feed(c);
    if (found.empty()) return !mark_->failed() ? Step::more : calls_ == 0 ? Step::bad : Step::leave;
    mark_.reset();
    if (found == syntax_.call_open) {
      state_ = State::head;
      head_.clear();
      return Step::more;
    }
    if (found == syntax_.section_close || !again()) return Step::section_done;
    return Step::settled;
  }

  // Whether more calls may follow without being looked for anew.
  bool again() const { return !syntax_.section_open.empty(); }
  bool has_mark() const { return !syntax_.call_close.empty() || !syntax_.section_close.empty() || again(); }

  Step head(char c, CallText& call) {
    const bool brace = syntax_.arguments_open.empty();  // arguments follow without a mark
    if (brace && c == '{') return end_head(call) ? arguments(c, call) : Step::bad;
    head_ += c;
    if (!brace && head_.ends_with(syntax_.arguments_open)) {
      head_.resize(head_.size() - syntax_.arguments_open.size());
      return end_head(call) ? Step::more : Step::bad;
    }
    if (head_.size() > max_head_bytes) return Step::bad;
    const bool name_first = syntax_.name_after.empty();
    return !name_first || may_be_name(tools_, trimmed(head_)) ? Step::more : Step::bad;
  }

  bool end_head(CallText& call) {
    std::string_view name = head_;
    if (!syntax_.name_after.empty()) {
      const size_t found = name.rfind(syntax_.name_after);
      if (found != std::string_view::npos) name.remove_prefix(found + syntax_.name_after.size());
    }
    if (!syntax_.name_until.empty()) name = name.substr(0, name.rfind(syntax_.name_until));
    name_ = trimmed(name);
    if (!tools_.find(name_)) return false;
    call.name = name_;
    begin_arguments();
    return true;
  }

  void begin_arguments() {
    state_ = State::arguments;
    value_.emplace(syntax_.kind == CallSyntax::Kind::bare_keys ? ValueReader::Notation::bare_keys : ValueReader::Notation::json);
  }

  Step arguments(char c, CallText& call) {
    if (!value_->started()) {
      if (is_white_space(c)) return Step::more;
      if (c != '{') return Step::bad;
    }
    switch (value_->feed(c, call.arguments)) {
      case ValueReader::Step::more: return Step::more;
      case ValueReader::Step::done:
        ++calls_;
        state_ = State::around;
        return Step::call_done;
      default: return Step::bad;
    }
  }

  const CallSyntax& syntax_;
  const DeclaredTools& tools_;
  State state_ = State::around;
  std::string head_, name_;
  size_t calls_ = 0;
  std::optional<OneOf> mark_;
  std::optional<ValueReader> value_;
};

}  // namespace

std::unique_ptr<CallReader> make_named_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools) {
  return std::make_unique<NamedReader>(syntax, tools, section);
}

std::unique_ptr<CallReader> make_named_reader(const CallSyntax& syntax, const DeclaredTools& tools, std::string name) {
  return std::make_unique<NamedReader>(syntax, tools, std::move(name));
}

}  // namespace vigil::text
