// The header reader: what it reads from good files, and that every lie is refused with an error that names its place.
#include <catch2/catch.hpp>

#include "tests/engine/gguf_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;
using Catch::Matchers::Contains;

namespace {

Writer small_model() {
  Writer out;
  out.put_string("general.architecture", "llama");
  out.put_u32("llama.block_count", 2);
  out.put_f32("llama.rope.freq_base", 10000.0f);
  out.put_bool("tokenizer.ggml.add_bos_token", true);
  out.put_strings("tokens", {"a", "", std::string("\0b", 2)});
  out.put_f32s("scores", {0.5f, -1.0f});
  out.put_i32s("kinds", {1, -2, 3});
  out.add_tensor("norm", TensorType::f32, {32}, std::vector<std::byte>(128));
  out.add_tensor("odd", TensorType::f32, {3}, std::vector<std::byte>(12));
  out.add_tensor("matrix", TensorType::q8_0, {64, 3}, std::vector<std::byte>(204));
  return out;
}

// A metadata pair whose value is put by `value`.
template <typename Put>
std::vector<std::byte> one_pair(std::string_view key, ValueType type, Put value) {
  ByteWriter out = header(0, 1);
  out.string(key);
  out.number(number_of(type));
  value(out);
  return out.bytes();
}

void no_value(ByteWriter&) {}

}  // namespace

TEST_CASE("a good header is read whole") {
  const auto bytes = small_model().bytes();
  auto file = parse(bytes);
  REQUIRE(file);
  CHECK(file->version() == 3);
  CHECK(file->string("general.architecture").value() == "llama");
  CHECK(file->integer("llama.block_count").value() == 2);
  CHECK(file->number("llama.rope.freq_base").value() == 10000.0);
  CHECK(file->boolean("tokenizer.ggml.add_bos_token").value());
  CHECK(file->strings("tokens").value() == std::vector<std::string>{"a", "", std::string("\0b", 2)});
  CHECK(file->numbers("scores").value() == std::vector<double>{0.5, -1.0});
  CHECK(file->integers("kinds").value() == std::vector<int64_t>{1, -2, 3});
  REQUIRE(file->tensors().size() == 3);
  const Tensor* matrix = file->tensor("matrix");
  REQUIRE(matrix);
  CHECK(matrix->cols() == 64);
  CHECK(matrix->rows() == 3);
  CHECK(matrix->bytes == 204);
  CHECK(matrix->offset == 160);  // 128, then 12 padded to 32
  CHECK(file->data_offset() % file->alignment() == 0);
  CHECK(file->data_offset() + matrix->offset + matrix->bytes <= bytes.size());
  CHECK(file->tensor("absent") == nullptr);
}

TEST_CASE("version 2 reads as version 3 does") {
  ByteWriter out = header(0, 1, 2);
  out.string("k");
  out.number(number_of(ValueType::u16));
  out.number<uint16_t>(7);
  auto file = parse(out.bytes());
  REQUIRE(file);
  CHECK(file->version() == 2);
  CHECK(file->integer("k").value() == 7);
}

TEST_CASE("typed access names the key when it is missing or of another type") {
  auto file = parse(small_model().bytes());
  REQUIRE(file);
  CHECK(file->integer("nowhere").error() == "key 'nowhere' is missing");
  CHECK(file->integer("general.architecture").error() == "key 'general.architecture' is a string; it must be an integer");
  CHECK(file->integer("llama.rope.freq_base").error() == "key 'llama.rope.freq_base' is a floating-point number; it must be an integer");
  CHECK(file->strings("kinds").error() == "key 'kinds' is an array of integers; it must be an array of strings");
  CHECK(file->integer_or("nowhere", 9).value() == 9);
  CHECK_FALSE(file->integer_or("general.architecture", 9));
}

TEST_CASE("integers of every width arrive; booleans only as 0 and 1; u64 only up to 2^63 - 1") {
  const auto integer = [](ValueType type, auto value) {
    auto file = parse(one_pair("k", type, [&](ByteWriter& out) { out.number(value); }));
    REQUIRE(file);
    return file->integer("k").value();
  };
  CHECK(integer(ValueType::u8, uint8_t{255}) == 255);
  CHECK(integer(ValueType::i8, int8_t{-1}) == -1);
  CHECK(integer(ValueType::u16, uint16_t{65535}) == 65535);
  CHECK(integer(ValueType::i16, int16_t{-300}) == -300);
  CHECK(integer(ValueType::u32, uint32_t{4000000000u}) == 4000000000);
  CHECK(integer(ValueType::i32, int32_t{-5}) == -5);
  CHECK(integer(ValueType::u64, uint64_t{1} << 62) == int64_t{1} << 62);
  CHECK(integer(ValueType::i64, int64_t{-9}) == -9);
  CHECK_THAT(refusal(one_pair("k", ValueType::u64, [](ByteWriter& out) { out.number(uint64_t{1} << 63); })), Contains("key 'k'") && Contains("2^63"));
  CHECK_THAT(refusal(one_pair("k", ValueType::boolean, [](ByteWriter& out) { out.number<uint8_t>(2); })), Contains("key 'k'") && Contains("boolean"));
}

TEST_CASE("files that are not GGUF, or not ours, say so") {
  CHECK_THAT(refusal({}), Contains("empty"));
  CHECK_THAT(refusal({std::byte{'G'}, std::byte{'G'}}), Contains("not a GGUF file"));
  CHECK_THAT(refusal(std::vector<std::byte>(100)), Contains("not a GGUF file"));
  ByteWriter magic;
  magic.raw(std::as_bytes(std::span("GGUF", 4)));
  CHECK_THAT(refusal(magic.bytes()), Contains("version") && Contains("cut off"));
  CHECK_THAT(refusal(header(0, 0, 99).bytes()), Contains("version 99"));
  CHECK_THAT(refusal(header(0, 0, 1).bytes()), Contains("version 1 "));
  CHECK_THAT(refusal(header(0, 0, 0x03000000).bytes()), Contains("big-endian"));
}

TEST_CASE("counts are believed only when the file could hold them") {
  CHECK_THAT(refusal(header(0, ~uint64_t{0}).bytes()), Contains("metadata count") && Contains("18446744073709551615"));
  CHECK_THAT(refusal(header(uint64_t{1} << 62, 0).bytes()), Contains("tensor count"));
  CHECK_THAT(refusal(header(0, 60'000).bytes()), Contains("metadata count") && Contains("cut off"));
  CHECK_THAT(refusal(header(60'000, 0).bytes()), Contains("tensor count") && Contains("cut off"));

  const auto array = [](ValueType type, uint64_t length) {
    return one_pair("a", ValueType::array, [&](ByteWriter& out) {
      out.number(number_of(type));
      out.number(length);
    });
  };
  CHECK_THAT(refusal(array(ValueType::string, uint64_t{1} << 40)), Contains("key 'a'") && Contains("array_elements"));
  CHECK_THAT(refusal(array(ValueType::u8, uint64_t{1} << 63)), Contains("key 'a'") && Contains("array_elements"));
  CHECK_THAT(refusal(array(ValueType::string, 4'000'000)), Contains("key 'a'") && Contains("cut off"));
  CHECK_THAT(refusal(array(ValueType::array, 1)), Contains("key 'a'") && Contains("arrays inside arrays"));
  CHECK_THAT(refusal(array(static_cast<ValueType>(77), 1)), Contains("key 'a'") && Contains("type 77"));
}

TEST_CASE("arrays that grow by being read are refused before they are, by the limits as they are") {
  const auto array = [](ValueType type, uint64_t length, size_t width) {
    return one_pair("a", ValueType::array, [&](ByteWriter& out) {
      out.number(number_of(type));
      out.number(length);
      out.raw(std::vector<std::byte>(length * width));
    });
  };
  CHECK_THAT(refusal(array(ValueType::string, 1'600'000, 8)), Contains("key 'a'") && Contains("array_extra_bytes"));
  CHECK(parse(array(ValueType::string, 1'500'000, 8)));
  CHECK(parse(array(ValueType::f64, 4'000'000, 8)));
}

TEST_CASE("lengths beyond the file are refused before anything is allocated for them, whatever the limits say") {
  HeaderLimits limits;
  limits.key_bytes = limits.string_bytes = limits.array_elements = limits.total_elements = limits.array_extra_bytes = ~uint64_t{0};
  const auto pair = [](ValueType type, auto... numbers) {
    return one_pair("key", type, [&](ByteWriter& out) { (out.number(numbers), ...); });
  };
  for (const uint64_t claimed : {uint64_t{1} << 33, uint64_t{1} << 60, ~uint64_t{0}}) {
    CHECK_THAT(refusal(pair(ValueType::string, claimed), limits), Contains("key 'key'") && Contains("cut off"));
    CHECK_THAT(refusal(pair(ValueType::array, number_of(ValueType::u8), claimed), limits), Contains("key 'key'") && Contains("cut off"));
    CHECK_THAT(refusal(pair(ValueType::array, number_of(ValueType::string), claimed), limits), Contains("key 'key'") && Contains("cut off"));
  }
}

TEST_CASE("limits are limits, and named") {
  const auto bytes = small_model().bytes();
  HeaderLimits limits;
  limits.array_elements = 2;
  CHECK_THAT(refusal(bytes, limits), Contains("key 'tokens'") && Contains("array_elements"));
  limits = {};
  limits.total_elements = 7;
  CHECK_THAT(refusal(bytes, limits), Contains("key 'kinds'") && Contains("total_elements"));
  limits = {};
  limits.array_extra_bytes = 3 * sizeof(std::string);
  CHECK_THAT(refusal(bytes, limits), Contains("key 'scores'") && Contains("array_extra_bytes"));
  limits.array_extra_bytes = 3 * sizeof(std::string) - 1;
  CHECK_THAT(refusal(bytes, limits), Contains("key 'tokens'") && Contains("array_extra_bytes"));
  limits = {};
  limits.string_bytes = 4;
  CHECK_THAT(refusal(bytes, limits), Contains("key 'general.architecture'") && Contains("string_bytes"));
  limits = {};
  limits.header_bytes = 64;
  CHECK_THAT(refusal(bytes, limits), Contains("header_bytes"));
  limits = {};
  limits.metadata_pairs = 6;
  CHECK_THAT(refusal(bytes, limits), Contains("metadata_pairs"));
  limits = {};
  limits.tensors = 2;
  CHECK_THAT(refusal(bytes, limits), Contains("(tensors)"));
}

TEST_CASE("bad keys and values name their place") {
  ByteWriter long_key = header(0, 1);
  long_key.number<uint64_t>(0x7fffffffffffffff);
  long_key.raw(std::vector<std::byte>(40));
  CHECK_THAT(refusal(long_key.bytes()), Contains("metadata key 1 of 1") && Contains("key_bytes"));
  CHECK_THAT(refusal(one_pair("", ValueType::u32, [](ByteWriter& out) { out.number(1); })), Contains("key is empty"));
  CHECK_THAT(refusal(one_pair("key", static_cast<ValueType>(13), no_value)), Contains("key 'key'") && Contains("type 13"));
  CHECK_THAT(refusal(one_pair("key", ValueType::u32, no_value)), Contains("key 'key'") && Contains("cut off"));
  CHECK_THAT(refusal(one_pair("k", ValueType::string, [](ByteWriter& out) { out.number<uint64_t>(50); })), Contains("key 'k'") && Contains("cut off"));
  CHECK_THAT(refusal(one_pair("a\nb\xff", ValueType::u32, no_value)), Contains("'a\\x0ab\\xff'"));
  Writer twice;
  twice.put_u32("same", 1);
  twice.put_u32("same", 2);
  CHECK(refusal(twice.bytes()) == "key 'same': comes twice");
}

TEST_CASE("alignment is a power of two from 8 to 65536 and moves the data") {
  const auto aligned = [](uint32_t alignment) {
    Writer out;
    out.put_u32("general.alignment", alignment);
    return out.bytes();
  };
  for (const uint32_t bad : {0u, 1u, 3u, 4u, 24u, 131072u, 0x80000000u}) CHECK_THAT(refusal(aligned(bad)), Contains("'general.alignment'"));
  auto file = parse(aligned(64));
  REQUIRE(file);
  CHECK(file->alignment() == 64);
  CHECK(file->data_offset() % 64 == 0);
  Writer text;
  text.put_string("general.alignment", "32");
  CHECK_THAT(refusal(text.bytes()), Contains("'general.alignment'") && Contains("integer"));
}

TEST_CASE("tensor entries that lie are refused by name") {
  const auto one = [](RawTensor tensor, size_t data = 4096) { return refusal(tensor_file({tensor}, data)); };
  REQUIRE(parse(tensor_file({{"t", {32}, 0, 0}}, 128)));
  CHECK_THAT(one({"t", {64, 0}, 0, 0}), Contains("tensor 't'") && Contains("dimension 1 is 0"));
  CHECK_THAT(one({"t", {64, ~uint64_t{0} - 511}, 0, 0}), Contains("tensor 't'") && Contains("-512"));
  CHECK_THAT(one({"t", {64, 32, 1, 1, 1}, 0, 0}), Contains("tensor 't'") && Contains("5 dimensions"));
  CHECK_THAT(one({"t", {}, 0, 0}, 64), Contains("tensor 't'") && Contains("0 dimensions"));
  CHECK_THAT(one({"t", {64, (uint64_t{1} << 58) + 512}, 0, 0}), Contains("tensor 't'") && Contains("multiply"));
  CHECK_THAT(one({"t", {uint64_t{1} << 62}, 28, 0}), Contains("tensor 't'") && Contains("size in bytes"));
  CHECK_THAT(one({"t", {(uint64_t{1} << 62) + 4}, 28, 0}), Contains("tensor 't'") && Contains("size in bytes"));  // wraps to 32 bytes
  CHECK_THAT(one({"t", {(uint64_t{1} << 61) - 4}, 28, 64}), Contains("tensor 't'") && Contains("lie outside"));   // its end wraps to 32
  CHECK_THAT(one({"t", {32}, 200, 0}), Contains("tensor 't'") && Contains("type 200"));
  for (const uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 43u}) CHECK_THAT(one({"t", {32}, removed, 0}), Contains("removed"));
  CHECK_THAT(one({"t", {63}, 8, 0}), Contains("tensor 't'") && Contains("63") && Contains("Q8_0"));
  CHECK_THAT(one({"t", {32}, 0, 1}), Contains("tensor 't'") && Contains("offset 1 is not a multiple of 32"));
  CHECK_THAT(one({"t", {32}, 0, 4096 + 32}), Contains("tensor 't'") && Contains("lie outside"));
  CHECK_THAT(one({"t", {32}, 0, ~uint64_t{0} - 31}), Contains("tensor 't'") && Contains("lie outside"));
  CHECK_THAT(one({"t", {32}, 0, 0}, 127), Contains("tensor 't'") && Contains("lie outside the 127 bytes"));
  CHECK_THAT(one({"t", {32}, 0, 0}, 0), Contains("tensor 't'") && Contains("lie outside"));
  CHECK_THAT(one({"", {32}, 0, 0}), Contains("tensor 1 of 1") && Contains("name is empty"));
  CHECK_THAT(one({std::string(65536, 'n'), {32}, 0, 0}), Contains("tensor 1 of 1") && Contains("tensor_name_bytes"));
}

TEST_CASE("tensors may not share a name or bytes, but may leave gaps and come in any order") {
  CHECK(refusal(tensor_file({{"t", {32}, 0, 0}, {"t", {32}, 0, 128}}, 256)) == "tensor 't': comes twice");
  CHECK(refusal(tensor_file({{"a", {32}, 0, 96}, {"b", {32}, 0, 0}}, 256)) == "tensor 'a': overlaps tensor 'b'");
  CHECK(refusal(tensor_file({{"a", {32}, 0, 0}, {"b", {32}, 0, 0}}, 256)).find("overlaps") != std::string::npos);
  CHECK(parse(tensor_file({{"a", {32}, 0, 256}, {"b", {32}, 0, 0}}, 384)));
}

TEST_CASE("a header cut anywhere is refused, and so is one with any byte count missing") {
  const auto whole = small_model().bytes();
  REQUIRE(parse(whole));
  // The last tensor's own padding may be missing; everything before its last byte may not.
  const size_t needed = parse(whole)->data_offset() + 160 + 204;
  for (size_t length = 0; length < needed; ++length) {
    INFO("cut to " << length << " bytes");
    CHECK_FALSE(parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)}));
  }
  CHECK(parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(needed)}));
}

TEST_CASE("one changed byte never breaks the reader") {
  const auto whole = small_model().bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu}) {
      auto bytes = whole;
      bytes[at] ^= static_cast<std::byte>(flip);
      const auto file = parse(bytes);
      if (!file) {
        CHECK_FALSE(file.error().empty());
        continue;
      }
      for (const Tensor& tensor : file->tensors()) CHECK(file->data_offset() + tensor.offset + tensor.bytes <= bytes.size());
    }
  }
}

TEST_CASE("block sizes of the tensor types") {
  const auto bytes_for_256 = [](uint32_t type) {
    const auto info = type_info(type);
    REQUIRE(info);
    return 256 / info->block_elements * info->block_bytes;
  };
  CHECK(bytes_for_256(0) == 1024);
  CHECK(bytes_for_256(1) == 512);
  CHECK(bytes_for_256(2) == 144);
  CHECK(bytes_for_256(8) == 272);
  CHECK(bytes_for_256(12) == 144);
  CHECK(bytes_for_256(14) == 210);
  CHECK(bytes_for_256(23) == 136);
  CHECK(bytes_for_256(29) == 56);
  CHECK(bytes_for_256(39) == 136);
  CHECK(bytes_for_256(40) == 144);
  CHECK(bytes_for_256(41) == 36);
  CHECK(bytes_for_256(42) == 72);
  CHECK_FALSE(type_info(4));
  CHECK_FALSE(type_info(~0u));
}
