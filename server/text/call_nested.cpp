// Calls whose arguments are tags within tags, each in front of it a marker: <invoke name="f"><options><tags><item>a</item></tags></options></invoke>.
// See call_readers.hpp.
#include "server/text/call_readers.hpp"
#include "server/text/call_types.hpp"
#include "server/text/call_value.hpp"

namespace vigil::text {
namespace {

class NestedReader : public CallReader {
 public:
  NestedReader(const CallSyntax& syntax, bool section, const DeclaredTools& tools)
      : syntax_(syntax), tools_(tools), state_(section ? State::around : State::name) {}

  Step feed(char c, CallText& call) override {
    switch (state_) {
      case State::around: return around(c);
      case State::name: return name(c, call);
      case State::body: return body(c);
      case State::tag: return tag(c, call);
      case State::text: return text(c);
    }
    return Step::bad;
  }

  bool between_calls() const override { return calls_ > 0 && state_ == State::around; }
  void close(CallText& call) override { call.arguments += begun_ ? "}" : "{}"; }

 private:
  enum class State { around, name, body, tag, text };
  struct Element {
    std::string key, text;
    const Json* schema = nullptr;
    std::string json = {};     // of the elements inside, without brackets
    bool list = false;         // they are <item>
  };

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
    tag_.clear();
    return Step::more;
  }

  Step name(char c, CallText& call) {
    tag_ += c;
    if (!tag_.ends_with(syntax_.name_end)) return tag_.size() <= max_call_name_bytes && may_be_name(tools_, trimmed(tag_)) ? Step::more : Step::bad;
    tag_.resize(tag_.size() - syntax_.name_end.size());
    tool_ = tools_.find(trimmed(tag_));
    if (!tool_) return Step::bad;
    call.name = tool_->name;
    begun_ = false;
    state_ = State::body;
    return Step::more;
  }

  // Between arguments: the marker in front of an argument's tag or of the call's end.
  Step body(char c) {
    if (!mark_) {
      if (is_white_space(c)) return Step::more;
      mark_.emplace(std::vector<std::string_view>{syntax_.parameter_open});
    }
    if (mark_->feed(c).empty()) return mark_->failed() ? Step::bad : Step::more;
    mark_.reset();
    state_ = State::tag;
    tag_.clear();
    return Step::more;
  }

  // What follows a marker: <key>, </key>, or the call's end.
  Step tag(char c, CallText& call) {
    tag_ += c;
    if (tag_[0] != '<' || tag_.size() > max_call_name_bytes) return Step::bad;
    if (c != '>') return Step::more;
    std::string_view key = std::string_view(tag_).substr(1, tag_.size() - 2);
    if (key.starts_with('/')) return close_tag(key.substr(1), call) ? (ended_ ? end_call(call) : Step::more) : Step::bad;
    if (key.empty() || elements_.size() >= max_call_depth) return Step::bad;
    open_element(std::string(key));
    return Step::more;
  }

  void open_element(std::string key) {
    const Json* schema = nullptr;
    if (elements_.empty()) {
      schema = property_schema(tool_->parameters, key);
    } else if (const Json* outer = elements_.back().schema) {
      const auto items = outer->is_object() ? outer->find("items") : outer->end();
      schema = schema_type(*outer) != ArgumentType::list ? property_schema(*outer, key) : items != outer->end() ? &*items : nullptr;
    }
    if (!elements_.empty() && elements_.back().json.empty()) {
      Element& outer = elements_.back();
      outer.list = key == "item" && (!outer.schema || schema_type(*outer.schema) != ArgumentType::object);
    }
    elements_.push_back({.key = std::move(key), .text = {}, .schema = schema});
    begin_text();
  }

  void begin_text() {
    state_ = State::text;
    until_.emplace(syntax_.parameter_open);
  }

  bool close_tag(std::string_view key, CallText& call) {
    ended_ = elements_.empty();
    if (ended_) return key == "invoke";
    Element element = std::move(elements_.back());
    elements_.pop_back();
    if (element.key != key) return false;
    const std::string value = json_of(element);
    if (elements_.empty()) {
      call.arguments += begun_ ? ", " : "{";
      begun_ = true;
      append_member(call.arguments, element.key, value);
      state_ = State::body;
      held_bytes_ = 0;
      return true;
    }
    Element& outer = elements_.back();
    if (!outer.json.empty()) outer.json += ", ";
    if (outer.list) outer.json += value;
    else append_member(outer.json, element.key, value);
    begin_text();
    return true;
  }

  static void append_member(std::string& out, std::string_view key, std::string_view value) {
    out += '"';
    append_json_escaped(out, key);
    out += "\": ";
    out += value;
  }

  static std::string json_of(const Element& element) {
    const ArgumentType type = element.schema ? schema_type(*element.schema) : ArgumentType::any;
    if (!element.json.empty()) return element.list ? '[' + element.json + ']' : '{' + element.json + '}';
    if (trimmed(element.text).empty() && type == ArgumentType::list) return "[]";
    if (trimmed(element.text).empty() && type == ArgumentType::object) return "{}";
    return typed_value(type, element.text);
  }

  Step end_call(CallText& call) {
    call.arguments += begun_ ? "}" : "{}";
    ++calls_;
    state_ = State::around;
    return Step::call_done;
  }

  Step text(char c) {
    if (++held_bytes_ > max_call_value_bytes) return Step::bad;
    if (!until_->feed(c, elements_.back().text)) return Step::more;
    if (!elements_.back().json.empty()) elements_.back().text.clear();
    state_ = State::tag;
    tag_.clear();
    return Step::more;
  }

  const CallSyntax& syntax_;
  const DeclaredTools& tools_;
  State state_;
  size_t calls_ = 0, held_bytes_ = 0;
  const ToolDefinition* tool_ = nullptr;
  std::optional<OneOf> mark_;
  std::optional<Until> until_;
  std::string tag_;
  std::vector<Element> elements_;
  bool begun_ = false, ended_ = false;
};

}  // namespace

std::unique_ptr<CallReader> make_nested_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools) {
  return std::make_unique<NestedReader>(syntax, section, tools);
}

}  // namespace vigil::text
