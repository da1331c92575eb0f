// See input.hpp.
#include "server/text/jinja/input.hpp"

#include <algorithm>
#include <limits>

#include "server/json/json.hpp"

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/limits.hpp"
#include "server/text/jinja/strings.hpp"
#include "server/text/jinja/template.hpp"

namespace vigil::text::jinja {

namespace {

using Json = nlohmann::ordered_json;
enum class Texts { viewed, copied };

class Reader {
 public:
  Reader(Heap& heap, Source source, Texts texts) : heap_(heap), source_(source), typed_(source != Source::fixed), texts_(texts) {}

  Value read(const Json& json, size_t depth) {
    if (depth > max_value_depth) fail("the input is nested deeper than " + std::to_string(max_value_depth) + " (max_value_depth)");
    switch (json.type()) {
      case Json::value_t::string: return Value::of(read_text(json.get_ref<const std::string&>()));
      case Json::value_t::boolean: return Value::of(json.get<bool>(), typed_);
      case Json::value_t::number_integer: return Value::of(json.get<int64_t>(), typed_);
      case Json::value_t::number_unsigned: {
        const uint64_t number = json.get<uint64_t>();
        return number <= INT64_MAX ? Value::of(static_cast<int64_t>(number), typed_) : Value::of(static_cast<double>(number), typed_);
      }
      case Json::value_t::number_float: return Value::of(json.get<double>(), typed_);
      case Json::value_t::binary: return Value::of(read_pictures(json.get_binary()));
      case Json::value_t::array: {
        Sequence* out = new_sequence(heap_, json.size());
        for (const Json& one : json) append(heap_, *out, read(one, depth + 1));
        out->typed = typed_;
        return Value::of(out);
      }
      case Json::value_t::object: {
        Dict* out = heap_.make<Dict>();
        for (const auto& [key, value] : json.items()) {
          const bool role = key == "role" && value.is_string() && is_role(value.get_ref<const std::string&>());
          put(work_, heap_, *out, Value::of(read_text(key)), role ? Value::of(view_or_copy(value.get_ref<const std::string&>(), Source::fixed)) : read(value, depth + 1));
        }
        out->typed = typed_;
        return Value::of(out);
      }
      default: return Value::with(Type::none, typed_);
    }
  }

 private:
  const String* view_or_copy(const std::string& text, Source source) {
    return texts_ == Texts::viewed ? view_string(heap_, text, source) : copy_string(heap_, text, source);
  }
  const String* read_text(const std::string& text) { return view_or_copy(text, source_); }

  // Names of roles are words of the protocol, whoever sends them: templates make markers of them ('<|' + role + '|>').
  static bool is_role(std::string_view text) {
    return text == "user" || text == "assistant" || text == "system" || text == "tool" || text == "developer" || text == "model";
  }

  // A text with pictures in it: each is one character that only its source tells from typed ones.
  const String* read_pictures(const Json::binary_t& bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Builder out(heap_);
    for (size_t begin = 0; begin < text.size();) {
      const size_t mark = std::min(text.find(static_cast<char>(picture_mark), begin), text.size());
      out.append(text.substr(begin, mark - begin), source_);
      if (mark < text.size()) out.append("\xEF\xBF\xBC", Source::picture);
      begin = mark + 1;
    }
    return out.finish();
  }

  Heap& heap_;
  Work work_{std::numeric_limits<uint64_t>::max()};  // the input's own size bounds it
  Source source_;
  bool typed_;
  Texts texts_;
};

}  // namespace

Value value_of_json(Heap& heap, const Json& json, Source source) { return Reader(heap, source, Texts::viewed).read(json, 0); }

Value value_of_json_text(Heap& heap, const String& text) {
  size_t depth = 0;
  bool too_deep = false;
  const Json::parser_callback_t watch = [&](int at, Json::parse_event_t, Json&) {
    depth = static_cast<size_t>(at);
    too_deep = too_deep || depth > max_value_depth;
    return !too_deep;
  };
  const Json json = Json::parse(text.view(), watch, false);
  if (too_deep) fail("from_json: the text is nested deeper than " + std::to_string(max_value_depth) + " (max_value_depth)");
  if (json.is_discarded()) fail("from_json: the text is no JSON");
  return Reader(heap, text.source == Source::fixed ? Source::fixed : Source::typed, Texts::copied).read(json, 0);
}

}  // namespace vigil::text::jinja
