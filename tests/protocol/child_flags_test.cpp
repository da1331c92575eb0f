// The command lines of child programs.
#include "protocol/child_flags.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using vigil::Result;
using namespace vigil::protocol;

namespace {

// What `apply` was called with, and the error.
std::string pairs(const std::vector<std::string_view>& arguments) {
  std::string said;
  const Result<void> done = each_flag(arguments, [&](std::string_view flag, std::string_view value) -> Result<void> {
    said += std::string(flag) + "=" + std::string(value) + ";";
    if (flag == "--no") return vigil::Error{"no"};
    return {};
  });
  return said + (done ? "" : " " + done.error());
}

}  // namespace

TEST_CASE("flags come in pairs or with a sign between, and a refused one is the last") {
  CHECK(pairs({}) == "");
  CHECK(pairs({"--a", "1", "--b=2", "--c=", "--d=x=y", "--e", "--f"}) == "--a=1;--b=2;--c=;--d=x=y;--e=--f;");
  CHECK(pairs({"--a", "1", "--b"}) == "--a=1; flag '--b' needs a value");
  CHECK(pairs({"--no", "1", "--b", "2"}) == "--no=1; no");
}

TEST_CASE("a flag's number is whole and within its limits") {
  CHECK(*flag_number("--n", "-1", -1, 5) == -1);
  CHECK(*flag_number("--n", "5", -1, 5) == 5);
  for (const std::string_view text : {"", "6", "-2", "1.5", "+1", " 1", "1 ", "99999999999999999999"}) {
    const Result<int64_t> number = flag_number("--n", text, -1, 5);
    REQUIRE_FALSE(number);
    CHECK(number.error() == "--n '" + std::string(text) + "' is not a number from -1 to 5");
  }
}
