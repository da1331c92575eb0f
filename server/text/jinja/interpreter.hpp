// Walks a template's tree and writes the prompt. One interpreter renders once. Not here: operations on values (operations.hpp), what templates
// can call (functions.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/functions.hpp"
#include "server/text/jinja/heap.hpp"
#include "server/text/jinja/limits.hpp"
#include "server/text/jinja/strings.hpp"
#include "server/text/jinja/syntax.hpp"
#include "server/text/jinja/template.hpp"

namespace vigil::text::jinja {

// The variables of one activation: the template, or a macro that was called.
struct Frame {
  Value* slots = nullptr;
  Frame* around = nullptr;   // where its macro was written
};

struct Macro {
  const Routine* routine;
  Frame* frame;
};

struct BoundMethod {
  Value self;
  int number;
};

struct Loop {
  const Statement* statement;
  Frame* frame;
  const Value* items;
  size_t size, index;
  int64_t depth;
  Value changed;             // arguments of the last loop.changed(), as a tuple
};

// cycler(…) and joiner(…)
struct Cycler {
  Sequence* items;
  size_t at;
};

class Interpreter {
 public:
  Interpreter(const Program& program, Options with, int64_t now, uint64_t steps)
      : heap(max_heap_bytes), work{steps}, options(with), unix_seconds(now), program_(program) {}

  // `inputs`: one for each name of program.inputs. `prompt` holds what was written then.
  void run(const std::vector<Value>& inputs);

  Value call(const Value& callee, const Arguments& arguments);
  // By number (functions.hpp), or -1 with the name, which fails.
  Value filter(int number, std::string_view name, const Value& input, const Arguments& arguments);
  bool test(int number, std::string_view name, const Value& input, const Arguments& arguments);
  uint32_t line() const { return line_; }

  Heap heap;
  Work work;
  const Options options;
  const int64_t unix_seconds;
  Builder prompt{heap};

 private:
  enum class Flow : uint8_t { on, stop_loop, next_loop };
  static constexpr size_t few_arguments = 4;
  struct Given {               // arguments of one call, evaluated
    Value few[few_arguments];
    Value* positional = few;
    size_t count = 0;
    Named* named = nullptr;
    size_t named_count = 0;
  };
  class Deeper;

  Value evaluate(const Expression& expression);
  Value evaluate_name(const Expression& expression);
  Value evaluate_collection(const Expression& expression);
  Value evaluate_slice(const Expression& expression);
  Value evaluate_call(const Expression& expression);
  Value evaluate_filter(const Expression& expression);
  Value evaluate_test(const Expression& expression);
  Value evaluate_compare(const Expression& expression);
  Value evaluate_concat(const Expression& expression);
  void evaluate_arguments(const Expression& expression, Given& given, const Value* caller);
  void add_star_arguments(const Expression& expression, Given& given);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  void bind_parameters(const Routine& routine, const Arguments& arguments);
  Value call_loop(Loop& loop, const Arguments& arguments);

  Flow execute(List<Statement*> body);
  Flow execute(const Statement& statement);
  Flow execute_loop(const Statement& statement, const Value& what, int64_t depth);
  const Value* filtered(const Statement& statement, const Value* items, size_t& size);
  void execute_set_block(const Statement& statement);
  Flow execute_with(const Statement& statement);
  void assign(const Target& target, const Value& value);
  void clear(const Scope& scope);
  void print(const Value& value);
  // What `body` writes, as a text.
  const String* captured(List<Statement*> body);

  const Program& program_;
  const std::vector<Value>* inputs_ = nullptr;
  Frame* frame_ = nullptr;
  Builder* writing_ = &prompt;
  Value piped_;
  uint32_t line_ = 0;
  size_t depth_ = 0;
};

}  // namespace vigil::text::jinja
