// Values of a template: Python's, as far as templates see them. Every text knows which of its bytes the template wrote and which came from
// outside. All live in a Heap. Not here: operations (operations.hpp), how they are printed (print.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/text/jinja/heap.hpp"

namespace vigil::text::jinja {

// Where bytes came from. mixed: the marks of the string's buffer say it for each.
enum class Source : uint8_t { fixed, typed, picture, mixed };

struct Mark {
  size_t begin;   // in the buffer; the source holds up to the next mark
  Source source;  // never mixed
};

// Bytes that strings are views of. It only grows behind what strings show, so that appending to its last string copies nothing.
struct Buffer {
  char* data = nullptr;
  size_t used = 0, capacity = 0;
  Mark* marks = nullptr;
  size_t mark_count = 0, mark_capacity = 0;
};

struct String {
  const char* data = "";
  size_t size = 0;
  Source source = Source::fixed;
  bool markup = false;            // made by `safe` or `escape`: joining with + escapes the other side
  mutable int8_t ascii = -1;      // whether all bytes are ASCII; -1 = not looked yet
  Buffer* buffer = nullptr;       // null: a uniform text of somebody else's memory
  std::string_view view() const { return {data, size}; }
};

enum class Type : uint8_t { undefined, none, boolean, integer, real, string, sequence, dict, space, function, method, macro, loop, cycler, joiner };

struct Work;
struct Value;
struct Dict;
struct Macro;
struct BoundMethod;
struct Loop;
struct Cycler;

// list, and what Python has beside it
struct Sequence {
  enum class Flavor : uint8_t { list, tuple, range, keys, values, items, generator };
  Flavor flavor = Flavor::list;
  bool typed = false;             // made of what came from outside
  Value* items = nullptr;
  size_t size = 0, capacity = 0;
  int64_t begin = 0, end = 0, step = 1;  // range, for printing
};

struct Value {
  Type type = Type::undefined;
  bool typed = false;             // numbers and truth values from outside; texts know it themselves
  union {
    bool boolean;
    int64_t integer;
    double real;
    const String* string;         // undefined: its name, or null
    Sequence* sequence;
    Dict* dict;                   // dict, space (namespace)
    Macro* macro;
    BoundMethod* method;
    Loop* loop;
    Cycler* cycler;               // cycler, joiner
    int function;                 // Function of functions.hpp
  };
  Value() : string(nullptr) {}
  static Value none() { return with(Type::none); }
  static Value undefined(const String* name = nullptr) {
    Value out;
    out.string = name;
    return out;
  }
  static Value of(bool value, bool typed = false) {
    Value out = with(Type::boolean, typed);
    out.boolean = value;
    return out;
  }
  static Value of(int64_t value, bool typed = false) {
    Value out = with(Type::integer, typed);
    out.integer = value;
    return out;
  }
  static Value of(double value, bool typed = false) {
    Value out = with(Type::real, typed);
    out.real = value;
    return out;
  }
  static Value of(const String* value) {
    Value out = with(Type::string);
    out.string = value;
    return out;
  }
  static Value of(Sequence* value) {
    Value out = with(Type::sequence);
    out.sequence = value;
    return out;
  }
  static Value of(Dict* value, Type type = Type::dict) {
    Value out = with(type);
    out.dict = value;
    return out;
  }
  static Value with(Type type, bool typed = false) {
    Value out;
    out.type = type;
    out.typed = typed;
    return out;
  }
  bool is(Type other) const { return type == other; }
  bool is_number() const { return type == Type::integer || type == Type::real || type == Type::boolean; }
  bool is_integral() const { return type == Type::integer || type == Type::boolean; }
  int64_t integral() const { return type == Type::boolean ? static_cast<int64_t>(boolean) : integer; }
  double number() const { return type == Type::real ? real : static_cast<double>(integral()); }
};

// A variable without a value, not even undefined: looking for it goes on further outside. No value of an expression is ever this.
inline Value unset() { return Value::with(Type::undefined, true); }
inline bool is_unset(const Value& value) { return value.type == Type::undefined && value.typed; }

// Members in the order of their coming. Found by a table once there are more than a few.
struct Dict {
  struct Entry {
    Value key, value;
    size_t hash;
  };
  Entry* entries = nullptr;
  size_t size = 0, capacity = 0;
  uint32_t* table = nullptr;      // entry number + 1, 0 = free; open addressing
  size_t table_size = 0;          // a power of two
  bool typed = false;
};

// A key is worked through to be found: `work` is charged for its length.
Value* find(Work& work, const Dict& dict, const Value& key);     // fails for keys that Python cannot hash
const Value* find(const Dict& dict, std::string_view key, size_t hash);  // hash_text(key)
size_t hash_text(std::string_view key);
void put(Work& work, Heap& heap, Dict& dict, const Value& key, const Value& value);
bool remove(Work& work, Dict& dict, const Value& key);
void append(Heap& heap, Sequence& sequence, const Value& value);
Sequence* new_sequence(Heap& heap, size_t capacity, Sequence::Flavor flavor = Sequence::Flavor::list);

// "str object", "None"… as Jinja2 says it in errors.
std::string type_name(const Value& value);

bool equal(Work& work, const Value& left, const Value& right, size_t depth = 0);
// Below, equal or above zero; fails for values without an order.
int compare(Work& work, const Value& left, const Value& right, size_t depth = 0);
bool truth(const Value& value);

}  // namespace vigil::text::jinja
