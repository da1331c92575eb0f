// The CPU's backends: the readable one and the fast one.
#include "backends_support.hpp"

#include <catch2/catch.hpp>

namespace vigil::testing {

std::vector<BackendUnderTest> backends_under_test() {
  const auto named = [](const std::string& name) {
    return BackendUnderTest{name, true, [name](int threads) {
      auto backend = compute::make_backend({name, threads});
      REQUIRE(backend);
      return std::move(*backend);
    }};
  };
  return {named("reference"), named("cpu")};
}

}  // namespace vigil::testing
