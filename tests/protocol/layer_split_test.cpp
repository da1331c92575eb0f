// Shares of GPUs as they are written.
#include <catch2/catch.hpp>

#include "protocol/layer_split.hpp"

using namespace vigil;
using namespace vigil::protocol;
using Catch::Matchers::Contains;

TEST_CASE("shares are numbers between commas, and no text is no shares") {
  CHECK(parse_layer_split("")->empty());
  CHECK(*parse_layer_split("1") == std::vector<double>{1});
  CHECK(*parse_layer_split("3,0,1.5") == std::vector<double>{3, 0, 1.5});
}

TEST_CASE("shares that are none are refused with what to write") {
  for (const char* text : {"3,", ",1", "3;1", "x", "3,-1", "nan", "inf", "1e7", "3 ,1", "1,,2"}) {
    INFO(text);
    const auto refused = parse_layer_split(text);
    REQUIRE_FALSE(refused);
    CHECK_THAT(refused.error(), Contains("is no number from 0") && Contains("such as 3,1"));
  }
  CHECK_THAT(parse_layer_split("0,0").error(), Contains("gives no GPU a part"));
  std::string many = "1";
  for (size_t i = 0; i < max_layer_shares; ++i) many += ",1";
  CHECK_THAT(parse_layer_split(many).error(), Contains("more than 64"));
}
