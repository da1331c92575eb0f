// What the readers of calls share. Not here: the parser's side of them (output_call.hpp).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/output_call.hpp"

namespace vigil::text {

inline bool is_white_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
std::string_view trimmed(std::string_view text);

// One of several texts, told by its characters; the longest wins only when a shorter one does not begin it.
class OneOf {
 public:
  explicit OneOf(std::vector<std::string_view> texts);  // empty ones are left out; the others must outlive this
  // The text that is complete now, empty while one still can be; `failed()` then tells whether none can.
  std::string_view feed(char c);
  bool failed() const { return failed_; }
  bool begun() const { return !read_.empty(); }

 private:
  std::vector<std::string_view> texts_;
  std::string read_;
  bool failed_ = false;
};

// Whether text can still become a declared tool's name, or is one with more behind it.
bool may_be_name(const DeclaredTools& tools, std::string_view text);

std::unique_ptr<CallReader> make_json_reader(const CallSyntax& syntax, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_named_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_named_reader(const CallSyntax& syntax, const DeclaredTools& tools, std::string name);  // behind the name
std::unique_ptr<CallReader> make_xml_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_nested_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_python_reader(const CallSyntax& syntax, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_python_tag_reader(const CallSyntax& syntax, const DeclaredTools& tools);
std::unique_ptr<CallReader> make_python_code_reader();

}  // namespace vigil::text
