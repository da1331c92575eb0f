// docs/configuration.md against the table: every key has exactly the row that the table gives, and there is no other row.
#include <catch2/catch.hpp>

#include <fstream>
#include <set>

#include "server/config/keys.hpp"
#include "server/config/values.hpp"
#include "server/json/json.hpp"

using namespace vigil::config;

namespace {

std::string default_text(const Key& key) {
  Config config;
  nlohmann::json value;
  std::visit([&](auto accessor) { value = *accessor(config); }, key.field);
  return value.is_number_float() ? number_text(value.get<double>()) : value.dump();
}

std::string range_text(const Key& key) {
  if (!key.choices.empty()) {
    std::string text(key.choices);
    for (size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|', bar + 2)) text.replace(bar, 1, ", ");
    return text;
  }
  if (key.unit.empty()) return "";
  const std::string text = number_text(key.min) + " to " + number_text(key.max);
  return key.zero == Zero::off ? text + "; 0 = off" : text;
}

std::string row(const Key& key) {
  std::string takes = key.takes == Takes::restart ? "restart" : key.takes == Takes::next_start ? "next start" : "new requests";
  return "| `" + std::string(key.path) + "` | `" + default_text(key) + "` | " + std::string(key.unit) + " | " + range_text(key) + " | " + takes + " | " +
         std::string(key.explanation) + " |";
}

}  // namespace

TEST_CASE("docs/configuration.md has one right row for every key") {
  std::ifstream in(std::string(VIGIL_SOURCE_DIR) + "/docs/configuration.md");
  REQUIRE(in.good());
  std::multiset<std::string> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| `")) rows.insert(line);
  }
  CHECK(rows.size() == keys().size());
  for (const Key& key : keys()) {
    INFO("wanted: " << row(key));
    CHECK(rows.count(row(key)) == 1);
  }
}
