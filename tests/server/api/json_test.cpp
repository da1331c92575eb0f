// Bodies that are no good JSON (case C7), and JSON that we write.
#include <catch2/catch.hpp>

#include "server/api/json_read.hpp"
#include "server/api/json_text.hpp"
#include "server/json/json.hpp"

using namespace vigil;
using namespace vigil::api;
using json = nlohmann::ordered_json;

namespace {

turn::RequestError refusal(std::string_view body) {
  auto result = read_json_object(body);
  REQUIRE(std::holds_alternative<turn::RequestError>(result));
  return std::get<turn::RequestError>(result);
}

}  // namespace

TEST_CASE("Good bodies become values; of duplicate keys the last counts", "[json]") {
  auto result = read_json_object(R"( {"a":[1,-2,3.5,true,null,{"b":"\u00e9\ud83d\ude0a\u0000"}],"c":1,"c":{"d":[]}} )");
  REQUIRE(std::holds_alternative<json>(result));
  json expected = {{"a", {1, -2, 3.5, true, nullptr, {{"b", std::string("é😊\0", 7)}}}}, {"c", {{"d", json::array()}}}};
  CHECK(std::get<json>(result) == expected);
}

TEST_CASE("Malformed bodies are invalid_json with the byte's position", "[json]") {
  const auto [body, position] = GENERATE(table<std::string, int>({
      {"", 1},
      {R"({"model":"M","messages":[],})", 28},
      {R"({"a":"\ud83d"})", 13},
      {"{\"a\":\"\xC0\xAF\"}", 7},
      {"{\"a\":\"abc \xE6\x97\"}", 13},
      {R"({"a":1} x)", 9},
      {"{\"a\":\"x\ny\"}", 8},
      {R"({"a":1)", 7},
      {R"({"a":01})", 7},
      {R"({"a":NaN})", 6},
      {std::string("{\"a\":1}\0", 8), 8},
      {std::string("{\"a\":1}\0{\"b\":2}", 15), 8},
      {std::string("{\"a\":\"x\0y\"}", 11), 8},
      {std::string("\0", 1), 1},
      {std::string("{\"a\":01}\0", 9), 7},
  }));
  const turn::RequestError error = refusal(body);
  INFO(error.message);
  CHECK(error.code == turn::ErrorCode::invalid_json);
  CHECK(error.message.find("at byte " + std::to_string(position) + ":") != std::string::npos);
  CHECK(json(error.message).dump(-1, ' ', false, json::error_handler_t::strict).size() > 0);  // valid UTF-8
}

TEST_CASE("A number that no double holds is refused", "[json]") {
  CHECK(refusal(R"({"max_tokens":1e400})").code == turn::ErrorCode::invalid_json);
}

TEST_CASE("Depth is limited where it is passed, without recursion", "[json]") {
  const std::string deep = R"({"x":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
  const turn::RequestError error = refusal(deep);
  CHECK(error.code == turn::ErrorCode::invalid_json);
  CHECK(error.message.find("max_json_depth") != std::string::npos);
  CHECK(error.message.find("at byte " + std::to_string(5 + max_json_depth) + ":") != std::string::npos);
  const std::string allowed = R"({"x":)" + std::string(max_json_depth - 1, '[') + std::string(max_json_depth - 1, ']') + "}";
  CHECK(std::holds_alternative<json>(read_json_object(allowed)));
  CHECK(refusal(std::string(1000000, '[')).code == turn::ErrorCode::invalid_json);
}

TEST_CASE("Members keep their order, and of duplicates the last value counts in the first one's place", "[json]") {
  std::string body = R"({"z":1,"a":2,"z":3)";
  for (int i = 0; i < 100; ++i) body += ",\"k" + std::to_string(i) + "\":" + std::to_string(i);
  body += R"(,"k50":{"x":"second"},"a":[4]})";
  const auto read = read_json_object(body);
  REQUIRE(std::holds_alternative<json>(read));
  const json& value = std::get<json>(read);
  CHECK(value.size() == 102);
  CHECK(value.begin().key() == "z");
  CHECK(value["z"] == 3);
  CHECK(value["a"] == json::array({4}));
  CHECK(value["k50"]["x"] == "second");
  CHECK(value["k99"] == 99);
}

TEST_CASE("An object of very many members is read in linear time", "[json]") {
  std::string body = "{";
  for (int i = 0; i < 200000; ++i) body += "\"k" + std::to_string(i) + "\":0,";
  body += "\"last\":1}";
  const auto read = read_json_object(body);
  REQUIRE(std::holds_alternative<json>(read));
  CHECK(std::get<json>(read).size() == 200001);
}

TEST_CASE("A body that is no object is invalid_request", "[json]") {
  for (const std::string body : {"[1,2,3]", "null", "3", "\"x\""}) CHECK(refusal(body).code == turn::ErrorCode::invalid_request);
}

TEST_CASE("Strings are written as valid JSON whatever their bytes", "[json]") {
  for (const std::string& s : {std::string("plain"), std::string("a\"b\\c\n\r\t\b\f\x01\x7F", 11), std::string("é😊"), std::string("\0x", 2)}) {
    CHECK(json::parse(json_string(s)) == s);
  }
  CHECK(json::parse(json_string("a\xFF" "b\xC3")) == "a\xEF\xBF\xBD" "b\xEF\xBF\xBD");
  CHECK(json_string("\x7F\x01") == "\"\\u007f\\u0001\"");
}

TEST_CASE("Numbers are written so that they read back", "[json]") {
  std::string out;
  append_json_number(out, -0.1);
  out += ' ';
  append_json_number(out, 1e300 * 1e300);
  out += ' ';
  append_json_integer(out, std::numeric_limits<int64_t>::min());
  out += ' ';
  append_json_ids(out, {1, 22, 333});
  CHECK(out == "-0.1 null -9223372036854775808 [1,22,333]");
}
