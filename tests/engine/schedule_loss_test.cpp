// A device that is lost outside of a step, where one request is being looked after: it is everybody's loss, and the engine's end. Anything else that
// goes wrong there is that request's alone.
#include <catch2/catch.hpp>

#include "engine/compute/cpu/reference_backend.hpp"
#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

struct Faults {
  bool read_loses = false, read_fails = false, copy_loses = false;
};

class Faulty final : public compute::cpu::ReferenceBackend {
 public:
  explicit Faulty(const Faults& faults) : ReferenceBackend(1), faults_(faults) {}
  void read(compute::Buffer from, int64_t offset, std::span<float> out) override {
    if (faults_.read_loses) throw compute::DeviceLost("lost while scores were read");
    if (faults_.read_fails) throw std::runtime_error("a fault of ours");
    ReferenceBackend::read(from, offset, out);
  }
  bool copy_block(const compute::KvCache& cache, int32_t from, int32_t to) override {
    if (faults_.copy_loses) throw compute::DeviceLost("lost while a block was copied");
    return ReferenceBackend::copy_block(cache, from, to);
  }

 private:
  const Faults& faults_;
};

schedule::RuntimeOptions options_with(const Faults& faults) {
  schedule::RuntimeOptions options;
  options.context = 256;
  options.backend.make = [&faults]() -> Result<std::unique_ptr<compute::Backend>> { return std::unique_ptr<compute::Backend>(new Faulty(faults)); };
  return options;
}

}  // namespace

TEST_CASE("a device that is lost while one request's scores are read is lost for all") {
  Faults faults;
  Serving serving(TinyLlama(), options_with(faults));
  sample::Settings settings;
  settings.logprobs = 2;
  CHECK(serving.run({1, 2, 3}, 2, settings).tokens.size() == 2);
  serving.push({4, 5, 6}, 2, settings);
  faults.read_loses = true;
  CHECK_THROWS_AS(serving.finish(), compute::DeviceLost);
}

TEST_CASE("another failure while one request's scores are read is that request's") {
  Faults faults;
  Serving serving(TinyLlama(), options_with(faults));
  faults.read_fails = true;
  CHECK(serving.run({1, 2, 3}, 2).error == "internal error: a fault of ours");
  faults.read_fails = false;
  CHECK(serving.run({1, 2, 3}, 2).ids.size() == 2);
}

TEST_CASE("a device that is lost while a block is copied for a request is lost for all") {
  Faults faults;
  Serving serving(TinyLlama(), options_with(faults));
  const std::vector<int32_t> ids = random_ids(90, 97, 1);
  serving.run(ids, 2);
  faults.copy_loses = true;
  serving.push(joined({ids.begin(), ids.begin() + 80}, {1, 2, 3}), 2);  // it parts from the first within a block
  CHECK_THROWS_AS(serving.finish(), compute::DeviceLost);
}
