// See chat_template_probe.hpp. Marks are words that no template has of its own.
#include "server/text/chat_template_probe.hpp"

#include <utility>

namespace vigil::text {

namespace {

constexpr const char* user_mark = "qzuser";
constexpr const char* system_mark = "qzsystem";
constexpr const char* tool_mark = "qz_tool";
constexpr const char* argument_mark = "qzargument";  // of the tool
constexpr const char* given_mark = "qzgiven";        // of the call: some templates list tools in Python's notation, which says nothing of calls
constexpr const char* result_mark = "qzresult";
constexpr const char* thought_mark = "qzthought";

class Probe {
 public:
  explicit Probe(const ProbeRender& render) : render_(render) {}

  TemplateShape run() {
    find_content();
    shape_.system = shows(Json::array({message("system", system_mark), user()}), nullptr, system_mark);
    const Json tools = Json::array({tool()});
    shape_.tools = shows(Json::array({user()}), tools, tool_mark) || shows(Json::array({message("system", system_mark), user()}), tools, tool_mark);
    find_calls(tools);
    find_reasoning(tools);
    find_pictures();
    const auto on = render_(Json::array({user()}), nullptr, thinking(true), true), off = render_(Json::array({user()}), nullptr, thinking(false), true);
    shape_.enable_thinking = on && off && *on != *off;
    return shape_;
  }

 private:
  Json content(const char* text) const {
    if (!shape_.content_parts) return text;
    return Json::array({Json{{"type", "text"}, {"text", text}}});
  }
  Json message(const char* role, const char* text) const { return Json{{"role", role}, {"content", content(text)}}; }
  Json user() const { return message("user", user_mark); }
  static Json thinking(bool on) { return Json{{"enable_thinking", on}, {"thinking", on}}; }

  static Json tool() {
    const Json city = {{"type", "string"}, {"description", "a city"}};
    const Json parameters = {{"type", "object"}, {"properties", {{argument_mark, city}}}, {"required", Json::array({argument_mark})}};
    return {{"type", "function"}, {"function", {{"name", tool_mark}, {"description", "a function"}, {"parameters", parameters}}}};
  }

  // Nine letters and digits: some templates insist on that.
  Json call(bool object, bool null) const {
    Json arguments = Json{{given_mark, "Rome"}};
    if (!object) arguments = "{\"" + std::string(given_mark) + "\": \"Rome\"}";
    const Json one = {{"id", "abcdef123"}, {"type", "function"}, {"function", {{"name", "qz_called"}, {"arguments", std::move(arguments)}}}};
    return {{"role", "assistant"}, {"content", null ? Json(nullptr) : content("")}, {"tool_calls", Json::array({one})}};
  }
  Json result() const {
    Json out = message("tool", result_mark);
    out["tool_call_id"] = "abcdef123";
    out["name"] = "qz_called";
    return out;
  }

  bool shows(const Json& messages, const Json& tools, std::string_view mark) const {
    const auto text = render_(messages, tools, Json::object(), true);
    return text && text->find(mark) != std::string::npos;
  }

  void find_content() {
    if (shows(Json::array({user()}), nullptr, user_mark)) return;
    shape_.content_parts = true;
    if (!shows(Json::array({user()}), nullptr, user_mark)) shape_.content_parts = false;
  }

  // Where both forms of arguments show, the object is right: text would be quoted once more.
  void find_calls(const Json& tools) {
    for (const bool null : {false, true}) {
      for (const bool object : {true, false}) {
        const Json messages = Json::array({user(), call(object, null), result()});
        const auto text = render_(messages, tools, Json::object(), true);
        if (!text || text->find(given_mark) == std::string::npos || !names_call(*text)) continue;
        // A dict in Python's notation is no JSON: such a template joins texts.
        if (object && text->find("{'" + std::string(given_mark)) != std::string::npos) continue;
        shape_.tool_calls = true;
        shape_.arguments_object = object;
        shape_.null_content = null;
        shape_.tool_results = text->find(result_mark) != std::string::npos;
        return;
      }
    }
    shape_.tool_results = shows(Json::array({user(), message("assistant", "hm"), result()}), nullptr, result_mark);
  }
  static bool names_call(const std::string& text) { return text.find("qz_called") != std::string::npos; }

  // Thinking is kept longest beside a call whose result comes last.
  void find_reasoning(const Json& tools) {
    for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
      Json caller = call(shape_.arguments_object, shape_.null_content), last = message("assistant", "hm");
      caller[key] = last[key] = thought_mark;
      const Json variables = thinking(true);
      for (const Json& messages : {Json::array({user(), caller, result()}), Json::array({user(), last})}) {
        const auto text = render_(messages, tools, variables, messages.size() == 3);
        if (!text || text->find(thought_mark) == std::string::npos) continue;
        shape_.reasoning = true;
        shape_.reasoning_key = key;
        return;
      }
    }
  }

  void find_pictures() {
    const Json text = Json{{"type", "text"}, {"text", user_mark}};
    const auto with = render_(Json::array({Json{{"role", "user"}, {"content", Json::array({Json{{"type", "image"}}, text})}}}), nullptr, Json::object(), true);
    const auto without = render_(Json::array({Json{{"role", "user"}, {"content", Json::array({text})}}}), nullptr, Json::object(), true);
    // A list in Python's notation is no form for pictures.
    shape_.pictures = with && without && *with != *without && with->find(user_mark) != std::string::npos && with->find("'type'") == std::string::npos &&
                      with->find("\"type\"") == std::string::npos;
  }

  const ProbeRender& render_;
  TemplateShape shape_;
};

}  // namespace

TemplateShape probe_template(const ProbeRender& render) { return Probe(render).run(); }

}  // namespace vigil::text
