// The tree of a template: what the parser makes and the interpreter walks. Not here: how it is read (parser.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "server/text/jinja/value.hpp"

namespace vigil::text::jinja {

template <typename T>
struct List {           // in the heap of the template
  T* data = nullptr;
  size_t size = 0;
  T* begin() const { return data; }
  T* end() const { return data + size; }
  bool empty() const { return size == 0; }
  T& operator[](size_t i) const { return data[i]; }
};

struct Expression;
struct Statement;

// Where a name may live: a slot of this activation (hops = 0) or of one that encloses its macro. Inner places first; unset ones are passed by.
struct Place {
  uint32_t hops = 0, slot = 0;
};

enum class Operator : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power, equal, unequal, less, less_equal, greater, greater_equal, in, not_in };

struct NamedExpression {
  const String* name;
  Expression* value;
};

struct Expression {
  enum class Kind : uint8_t {
    constant,     // value
    name,         // name, places, input
    list, tuple,  // items
    dict,         // items: key, value, key, value…
    attribute,    // a, name
    item,         // a, b
    slice,        // a; items: begin, end, step, null where absent
    call,         // a, items, named, star, star_star
    piped,        // what a filter block or a set block wrote: the input of its first filter
    filter,       // a, index, items, named…
    test,         // a, index, items, named…
    negate, plus, logical_not,  // a
    logical_and, logical_or,    // a, b
    binary,       // a, operation, b
    compare,      // a; items and operations: one each
    concat,       // items
    conditional   // a if b else c (null: undefined)
  };
  Kind kind;
  Operator operation = Operator::add;
  uint32_t line = 0, column = 0;
  uint32_t depth = 1;          // of the tree below
  int index = -1;              // filter, test: its number; attribute: the method's, -1 = no method has this name
  int input = -1;              // name: which of the template's inputs, when no place has it
  size_t hash = 0;             // attribute: of the name
  Value value;
  const String* name = nullptr;
  Expression *a = nullptr, *b = nullptr, *c = nullptr;
  List<Expression*> items = {};
  List<NamedExpression> named = {};
  Expression *star = nullptr, *star_star = nullptr;  // *args, **kwargs
  List<Operator> operations = {};
  List<Place> places = {};
};

// Names of one scope lie side by side in the slots of their activation; the scopes inside it follow.
struct Scope {
  uint32_t begin = 0, own_end = 0, end = 0;
};

// A macro, or the body of a call block.
struct Routine {
  const String* name = nullptr;
  List<const String*> parameters = {};
  List<uint32_t> parameter_slots = {};
  List<Expression*> defaults = {};   // of the last parameters
  int caller_slot = -1, varargs_slot = -1, kwargs_slot = -1;  // -1: the body does not use it
  List<Statement*> body = {};
  uint32_t slots = 0;
};

// What `set` and `for` put values into.
struct Target {
  enum class Kind : uint8_t { name, attribute, tuple };
  Kind kind = Kind::name;
  const String* name = nullptr;      // name, attribute: of the namespace's member
  Expression* object = nullptr;      // attribute: the name that holds the namespace
  List<Target> parts = {};
  uint32_t slot = 0;
};

struct Branch {
  Expression* condition;             // null: else
  List<Statement*> body;
};

struct Statement {
  enum class Kind : uint8_t {
    text,        // value
    print,       // a
    branches,    // if
    loop,        // for: target, a = what, b = filter, body, otherwise, scope, uses_loop, loop_slot, recursive
    set,         // target, a
    set_block,   // target, a = filters or null, body, scope
    filter_block,  // a, body, scope
    with,        // targets, values, body, scope
    scoped,      // body, scope: generation, block, autoescape
    macro,       // routine, target
    call_block,  // routine, a = the call
    stop_loop, next_loop
  };
  Kind kind;
  uint32_t line = 0;
  bool uses_loop = false, recursive = false;
  uint32_t loop_slot = 0;
  Value value;
  Expression *a = nullptr, *b = nullptr;
  Target target = {};
  List<Target> targets = {};
  List<Expression*> values = {};
  List<Branch> branches = {};
  List<Statement*> body = {}, otherwise = {};
  Scope scope = {};
  Routine* routine = nullptr;
};

struct Program {
  List<Statement*> body = {};
  uint32_t slots = 0;
  std::vector<const String*> inputs;  // names that come from outside or are global functions
};

}  // namespace vigil::text::jinja
