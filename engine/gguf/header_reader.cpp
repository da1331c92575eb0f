// Reads and checks a GGUF header front to back through a small buffer. Not here: looking keys up afterwards (file.cpp).
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "engine/gguf/file.hpp"
#include "engine/gguf/printable.hpp"

namespace vigil::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie in the file");

namespace {

constexpr uint64_t buffer_bytes = 64u << 10;
// The least a metadata pair and a tensor entry can take: they turn a claimed count into bytes the file must have.
constexpr uint64_t least_pair_bytes = 8 + 1 + 4 + 1;
constexpr uint64_t least_tensor_bytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr size_t most_dims = 4;

uint64_t width(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean: return 1;
    case ValueType::u16:
    case ValueType::i16: return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32: return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
    case ValueType::string: return 8;  // a string: at least its length
    case ValueType::array: return 12;
  }
  return 0;
}

// A position in the source that never passes the end of the file or the header's cap.
class Cursor {
 public:
  Cursor(const ByteSource& source, uint64_t cap) : source_(source), cap_(cap), end_(std::min(source.size(), cap)) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return end_ - position_; }

  Result<void> bytes(std::span<std::byte> out) {
    if (out.size() > remaining()) return short_of(out.size());
    while (!out.empty()) {
      if (position_ < buffer_start_ || position_ >= buffer_start_ + buffer_.size()) {
        if (auto filled = fill(); !filled) return filled;
      }
      const auto from = static_cast<size_t>(position_ - buffer_start_);
      const size_t count = std::min(out.size(), buffer_.size() - from);
      std::memcpy(out.data(), buffer_.data() + from, count);
      out = out.subspan(count);
      position_ += count;
    }
    return {};
  }

  template <typename T>
  Result<T> number() {
    T value{};
    if (auto read = bytes(std::as_writable_bytes(std::span(&value, 1))); !read) return Error{read.error()};
    return value;
  }

  // `limit` has the name `limit_name`; both go into the error text.
  Result<std::string> string(uint64_t limit, const char* limit_name) {
    auto length = number<uint64_t>();
    if (!length) return Error{length.error()};
    if (*length > limit) {
      return Error{"a length of " + std::to_string(*length) + " bytes is above the limit of " + std::to_string(limit) + " (" + limit_name + ")"};
    }
    if (*length > remaining()) return short_of(*length);
    std::string text(static_cast<size_t>(*length), '\0');
    if (auto read = bytes(std::as_writable_bytes(std::span(text))); !read) return Error{read.error()};
    return text;
  }

  Error short_of(uint64_t wanted) const {
    if (source_.size() > cap_) return Error{"the header is longer than the limit of " + std::to_string(cap_) + " bytes (header_bytes)"};
    return Error{"needs " + std::to_string(wanted) + " bytes, but the file has only " + std::to_string(remaining()) +
                 " more; it is cut off or damaged"};
  }

 private:
  Result<void> fill() {
    buffer_start_ = position_;
    buffer_.resize(static_cast<size_t>(std::min(buffer_bytes, remaining())));
    return source_.read(buffer_start_, buffer_);
  }

  const ByteSource& source_;
  uint64_t cap_, end_, position_ = 0, buffer_start_ = 0;
  std::vector<std::byte> buffer_;
};

Error at(const std::string& where, const std::string& what) { return Error{where + ": " + what}; }

}  // namespace

class HeaderReader {
 public:
  HeaderReader(const ByteSource& source, const HeaderLimits& limits)
      : limits_(limits), file_bytes_(source.size()), cursor_(source, limits.header_bytes) {}

  Result<File> run() {
    if (auto step = preamble(); !step) return Error{step.error()};
    for (uint64_t i = 0; i < pair_count_; ++i) {
      if (auto step = pair(i); !step) return Error{step.error()};
    }
    if (auto step = alignment(); !step) return Error{step.error()};
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      if (auto step = tensor(i); !step) return Error{step.error()};
    }
    if (auto step = placement(); !step) return Error{step.error()};
    return std::move(file_);
  }

 private:
  Result<void> preamble() {
    if (file_bytes_ == 0) return Error{"the file is empty"};
    auto magic = cursor_.number<std::array<char, 4>>();
    if (!magic || std::string_view(magic->data(), 4) != "GGUF") return Error{"not a GGUF file: it does not start with the letters GGUF"};
    auto version = cursor_.number<uint32_t>();
    if (!version) return at("version", version.error());
    if (const uint32_t swapped = __builtin_bswap32(*version); swapped >= 1 && swapped <= 3) {
      return Error{"the file is big-endian GGUF; only little-endian files are read: convert it"};
    }
    if (*version != 2 && *version != 3) {
      return Error{"GGUF version " + std::to_string(*version) + " is not supported; versions 2 and 3 are"};
    }
    file_.version_ = *version;
    auto tensors = count("tensor count", limits_.tensors, "tensors", least_tensor_bytes);
    if (!tensors) return Error{tensors.error()};
    auto pairs = count("metadata count", limits_.metadata_pairs, "metadata_pairs", least_pair_bytes);
    if (!pairs) return Error{pairs.error()};
    tensor_count_ = *tensors;
    pair_count_ = *pairs;
    return {};
  }

  Result<uint64_t> count(const std::string& where, uint64_t limit, const char* limit_name, uint64_t least_bytes) {
    auto claimed = cursor_.number<uint64_t>();
    if (!claimed) return at(where, claimed.error());
    if (*claimed > limit) {
      return at(where, std::to_string(*claimed) + " is above the limit of " + std::to_string(limit) + " (" + limit_name + ")");
    }
    if (*claimed > cursor_.remaining() / least_bytes) return at(where, cursor_.short_of(*claimed * least_bytes).message);
    return *claimed;
  }

  Result<void> pair(uint64_t index) {
    auto key = cursor_.string(limits_.key_bytes, "key_bytes");
    const std::string ordinal = "metadata key " + std::to_string(index + 1) + " of " + std::to_string(pair_count_);
    if (!key) return at(ordinal, key.error());
    if (key->empty()) return at(ordinal, "the key is empty");
    const std::string where = "key " + printable(*key);
    if (file_.metadata_.contains(*key)) return at(where, "comes twice");
    auto type = value_type();
    if (!type) return at(where, type.error());
    auto value = *type == ValueType::array ? array() : scalar(*type);
    if (!value) return at(where, value.error());
    file_.metadata_.emplace(std::move(*key), std::move(*value));
    return {};
  }

  Result<ValueType> value_type() {
    auto number = cursor_.number<uint32_t>();
    if (!number) return Error{number.error()};
    if (*number > static_cast<uint32_t>(ValueType::f64)) return Error{"value type " + std::to_string(*number) + " is unknown"};
    return static_cast<ValueType>(*number);
  }

  template <typename T>
  Result<int64_t> widened() {
    auto number = cursor_.number<T>();
    if (!number) return Error{number.error()};
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Error{"the number " + std::to_string(*number) + " is above 2^63 - 1"};
      }
    }
    return static_cast<int64_t>(*number);
  }

  Result<int64_t> integer(ValueType type) {
    switch (type) {
      case ValueType::u8: return widened<uint8_t>();
      case ValueType::i8: return widened<int8_t>();
      case ValueType::u16: return widened<uint16_t>();
      case ValueType::i16: return widened<int16_t>();
      case ValueType::u32: return widened<uint32_t>();
      case ValueType::i32: return widened<int32_t>();
      case ValueType::u64: return widened<uint64_t>();
      case ValueType::i64: return widened<int64_t>();
      case ValueType::boolean: {
        auto flag = widened<uint8_t>();
        if (flag && *flag > 1) return Error{"a boolean is " + std::to_string(*flag) + "; only 0 and 1 are"};
        return flag;
      }
      case ValueType::f32:
      case ValueType::f64:
      case ValueType::string:
      case ValueType::array: break;
    }
    return Error{"not an integer"};
  }

  Result<double> real(ValueType type) {
    if (type == ValueType::f64) return cursor_.number<double>();
    auto number = cursor_.number<float>();
    if (!number) return Error{number.error()};
    return static_cast<double>(*number);
  }

  static bool is_real(ValueType type) { return type == ValueType::f32 || type == ValueType::f64; }

  Result<std::string> text() { return cursor_.string(limits_.string_bytes, "string_bytes"); }

  template <typename T>
  static Result<Value> as_value(Result<T> result) {
    if (!result) return Error{result.error()};
    return Value(std::move(*result));
  }

  Result<Value> scalar(ValueType type) {
    if (type == ValueType::string) return as_value(text());
    if (is_real(type)) return as_value(real(type));
    auto number = integer(type);
    if (!number) return Error{number.error()};
    if (type == ValueType::boolean) return Value(*number != 0);
    return Value(*number);
  }

  Result<Value> array() {
    auto type = value_type();
    if (!type) return Error{"array: " + type.error()};
    if (*type == ValueType::array) return Error{"arrays inside arrays are not supported"};
    auto length = count("array length", limits_.array_elements, "array_elements", width(*type));
    if (!length) return Error{length.error()};
    total_elements_ += *length;
    if (total_elements_ > limits_.total_elements) {
      return Error{"all arrays together hold more than " + std::to_string(limits_.total_elements) + " elements (total_elements)"};
    }
    // What the elements take in memory beyond their bytes in the file: a string object and what its text's allocation adds, or a number of 8 bytes.
    array_extra_bytes_ += *length * (*type == ValueType::string ? sizeof(std::string) : 8 - std::min<uint64_t>(8, width(*type)));
    if (array_extra_bytes_ > limits_.array_extra_bytes) {
      return Error{"all arrays together would take " + std::to_string(array_extra_bytes_) + " bytes more in memory than in the file, over the limit of " +
                   std::to_string(limits_.array_extra_bytes) + " (array_extra_bytes)"};
    }
    if (*type == ValueType::string) return elements<std::string>(*length, [&] { return text(); });
    if (is_real(*type)) return elements<double>(*length, [&] { return real(*type); });
    return elements<int64_t>(*length, [&] { return integer(*type); });
  }

  template <typename T, typename Read>
  static Result<Value> elements(uint64_t length, Read read) {
    std::vector<T> items;
    items.reserve(static_cast<size_t>(length));
    for (uint64_t i = 0; i < length; ++i) {
      auto item = read();
      if (!item) return Error{"element " + std::to_string(i) + ": " + item.error()};
      items.push_back(std::move(*item));
    }
    return Value(Array(std::move(items)));
  }

  Result<void> alignment() {
    const Value* value = file_.find("general.alignment");
    if (!value) return {};
    const auto* number = std::get_if<int64_t>(value);
    if (!number) return Error{"key 'general.alignment': must be an integer"};
    const auto alignment = static_cast<uint64_t>(*number);
    if (!std::has_single_bit(alignment) || alignment < min_alignment || alignment > max_alignment) {
      return Error{"key 'general.alignment': " + std::to_string(*number) + " is not a power of two from " +
                   std::to_string(min_alignment) + " to " + std::to_string(max_alignment)};
    }
    file_.alignment_ = alignment;
    return {};
  }

  Result<void> tensor(uint64_t index) {
    auto name = cursor_.string(limits_.tensor_name_bytes, "tensor_name_bytes");
    const std::string ordinal = "tensor " + std::to_string(index + 1) + " of " + std::to_string(tensor_count_);
    if (!name) return at(ordinal + ": name", name.error());
    if (name->empty()) return at(ordinal, "the name is empty");
    const std::string where = "tensor " + printable(*name);
    if (file_.by_name_.contains(*name)) return at(where, "comes twice");
    Tensor tensor;
    tensor.name = std::move(*name);
    if (auto step = shape(tensor); !step) return at(where, step.error());
    if (auto step = layout(tensor); !step) return at(where, step.error());
    file_.by_name_.emplace(tensor.name, file_.tensors_.size());
    file_.tensors_.push_back(std::move(tensor));
    return {};
  }

  Result<void> shape(Tensor& tensor) {
    auto dims = cursor_.number<uint32_t>();
    if (!dims) return Error{dims.error()};
    if (*dims < 1 || *dims > most_dims) return Error{"has " + std::to_string(*dims) + " dimensions; 1 to 4 are supported"};
    int64_t elements = 1;
    for (uint32_t i = 0; i < *dims; ++i) {
      auto length = cursor_.number<int64_t>();
      if (!length) return Error{length.error()};
      if (*length < 1) return Error{"dimension " + std::to_string(i) + " is " + std::to_string(*length) + "; it must be 1 or more"};
      if (__builtin_mul_overflow(elements, *length, &elements)) return Error{"the dimensions multiply to more than 2^63 - 1 elements"};
      tensor.dims.push_back(*length);
    }
    return {};
  }

  Result<void> layout(Tensor& tensor) {
    auto number = cursor_.number<uint32_t>();
    if (!number) return Error{number.error()};
    const auto info = type_info(*number);
    if (!info) return Error{"type " + std::to_string(*number) + " is unknown or was removed from the format"};
    tensor.type = info->type;
    if (tensor.cols() % info->block_elements != 0) {
      return Error{"rows of " + std::to_string(tensor.cols()) + " elements are not a multiple of the " + std::to_string(info->block_elements) +
                   " in a block of " + std::string(info->name)};
    }
    const auto blocks = static_cast<uint64_t>(tensor.elements()) / info->block_elements;
    if (__builtin_mul_overflow(blocks, uint64_t{info->block_bytes}, &tensor.bytes)) return Error{"its size in bytes is above 2^64 - 1"};
    auto offset = cursor_.number<uint64_t>();
    if (!offset) return Error{offset.error()};
    tensor.offset = *offset;
    if (*offset % file_.alignment_ != 0) {
      return Error{"offset " + std::to_string(*offset) + " is not a multiple of " + std::to_string(file_.alignment_)};
    }
    return {};
  }

  // Where the data begins is known only after the last entry, so the file's end and overlaps are checked here.
  Result<void> placement() {
    const uint64_t rest = cursor_.position() % file_.alignment_;
    file_.data_offset_ = cursor_.position() + (rest == 0 ? 0 : file_.alignment_ - rest);
    const uint64_t available = file_bytes_ > file_.data_offset_ ? file_bytes_ - file_.data_offset_ : 0;
    std::vector<const Tensor*> ordered;
    for (const Tensor& tensor : file_.tensors_) {
      if (tensor.offset > available || tensor.bytes > available - tensor.offset) {
        return at("tensor " + printable(tensor.name),
                  "its " + std::to_string(tensor.bytes) + " bytes at offset " + std::to_string(tensor.offset) + " lie outside the " +
                      std::to_string(available) + " bytes of data in the file; it is cut off or damaged");
      }
      ordered.push_back(&tensor);
    }
    std::sort(ordered.begin(), ordered.end(), [](const Tensor* a, const Tensor* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < ordered.size(); ++i) {
      if (ordered[i - 1]->offset + ordered[i - 1]->bytes > ordered[i]->offset) {
        return at("tensor " + printable(ordered[i]->name), "overlaps tensor " + printable(ordered[i - 1]->name));
      }
    }
    return {};
  }

  HeaderLimits limits_;
  uint64_t file_bytes_;
  Cursor cursor_;
  File file_;
  uint64_t tensor_count_ = 0, pair_count_ = 0, total_elements_ = 0, array_extra_bytes_ = 0;
};

Result<File> File::parse(const ByteSource& source, const HeaderLimits& limits) { return HeaderReader(source, limits).run(); }

}  // namespace vigil::gguf
