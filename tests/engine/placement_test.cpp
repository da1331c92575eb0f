// Which layer is computed where, from sizes alone: the numbers are chosen so that every byte counts.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <random>

#include "engine/schedule/memory.hpp"
#include "engine/schedule/placement.hpp"

using namespace vigil;
using namespace vigil::schedule;
using Catch::Matchers::Contains;

namespace {

constexpr uint64_t mib = uint64_t{1} << 20;

// Ten layers of 100 MiB, an embedding of 50 and an output of 60, 8 of scratch.
PartsNeed ten_layers() {
  PartsNeed need;
  need.embedding = 50 * mib;
  need.output = 60 * mib;
  need.scratch = 8 * mib;
  need.layers.assign(10, {100 * mib, 0, 0});
  return need;
}
constexpr uint64_t ten_layers_whole = 1118 * mib;

GpuRoom room(uint64_t free, uint64_t reserve = 0) { return {"GPU", free, reserve}; }

std::vector<int> on(std::initializer_list<std::pair<int, int>> places) {
  std::vector<int> layers;
  for (const auto& [place, count] : places) layers.insert(layers.end(), static_cast<size_t>(count), place);
  return layers;
}

}  // namespace

TEST_CASE("a model that fits on one GPU is there whole, on the first that has the room") {
  const GpuRoom one[] = {room(ten_layers_whole)};
  const Placement whole = *place_layers(ten_layers(), one, {});
  CHECK(whole.whole_on(0));
  CHECK(whole.taken[0] == ten_layers_whole);
  const GpuRoom two[] = {room(ten_layers_whole - 1), room(ten_layers_whole)};
  CHECK(place_layers(ten_layers(), two, {})->whole_on(1));
  const GpuRoom reserved[] = {room(ten_layers_whole + 5, 6), room(2 * ten_layers_whole)};
  CHECK(place_layers(ten_layers(), reserved, {})->whole_on(1));
}

TEST_CASE("an embedding that is the output too is there once on one GPU") {
  PartsNeed need = ten_layers();
  need.tied = true;
  need.embedding = need.output;
  const GpuRoom one[] = {room(1068 * mib)};
  CHECK(place_layers(need, one, {})->whole_on(0));
  const GpuRoom less[] = {room(1068 * mib - 1)};
  CHECK_FALSE(place_layers(need, less, {})->whole_on(0));
}

TEST_CASE("of a model that is too large the last layers are on the GPU, as many as fit, with the output; the CPU has the first and the embedding") {
  for (const int fitting : {1, 4, 9, 10}) {
    const uint64_t bytes = static_cast<uint64_t>(fitting) * 100 * mib + 68 * mib;
    for (const auto& [free, expected] : {std::pair{bytes, fitting}, {bytes - 1, fitting - 1}}) {
      const GpuRoom one[] = {room(free + 7, 7)};
      const Placement placement = *place_layers(ten_layers(), one, {});
      if (expected == 0) continue;  // the next case
      CHECK(placement.layers == on({{on_cpu, 10 - expected}, {0, expected}}));
      CHECK(placement.embedding == on_cpu);
      CHECK(placement.output == 0);
      CHECK(placement.taken[0] == static_cast<uint64_t>(expected) * 100 * mib + 68 * mib);
    }
  }
}

TEST_CASE("where no layer fits beside the output, the output is the CPU's; where none fits at all everything is") {
  const GpuRoom small[] = {room(167 * mib)};
  const Placement placement = *place_layers(ten_layers(), small, {});
  CHECK(placement.layers == on({{on_cpu, 9}, {0, 1}}));
  CHECK(placement.output == on_cpu);
  const GpuRoom tiny[] = {room(107 * mib)};
  const Placement none = *place_layers(ten_layers(), tiny, {});
  CHECK(none.gpu_layers() == 0);
  CHECK(none.output == on_cpu);
  CHECK(place_layers(ten_layers(), {}, {})->gpu_layers() == 0);
}

TEST_CASE("KV cache and recurrent states count where their layers are") {
  PartsNeed need = ten_layers();
  for (LayerNeed& layer : need.layers) layer.kv_block = mib, layer.state = 2 * mib;
  const GpuRoom one[] = {room(68 * mib + 5 * 131 * mib)};
  PlacementWish wish;
  CHECK(place_layers(need, one, wish)->gpu_layers() == 6);
  wish.blocks = 25;
  wish.states = 3;
  CHECK(place_layers(need, one, wish)->gpu_layers() == 5);  // 131 MiB each
}

TEST_CASE("layers that were asked for are there or an error has the numbers") {
  const GpuRoom one[] = {room(568 * mib, 68 * mib)};  // four layers and the output
  PlacementWish wish;
  wish.gpu_layers = 3;
  CHECK(place_layers(ten_layers(), one, wish)->layers == on({{on_cpu, 7}, {0, 3}}));
  wish.gpu_layers = 0;
  CHECK(place_layers(ten_layers(), one, wish)->gpu_layers() == 0);
  wish.gpu_layers = 6;
  const auto refused = place_layers(ten_layers(), one, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("6 layers on the GPU does not fit") && Contains("608 MiB") && Contains("568 MiB are free") && Contains("68 MiB are kept in reserve") &&
                                  Contains("4 layers would fit (--gpu-layers 4"));
  const GpuRoom large[] = {room(2000 * mib)};
  wish.gpu_layers = 60;
  CHECK(place_layers(ten_layers(), large, wish)->whole_on(0));
}

TEST_CASE("where all layers are needed on GPUs fewer are an error, unless a number was asked for") {
  const GpuRoom one[] = {room(468 * mib)};
  PlacementWish wish;
  wish.all_needed = true;
  const auto refused = place_layers(ten_layers(), one, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("all of the model's 10 layers") && Contains("4 layers would fit"));
  const GpuRoom without_embedding[] = {room(1068 * mib)};
  const Placement placement = *place_layers(ten_layers(), without_embedding, wish);
  CHECK(placement.gpu_layers() == 10);
  CHECK(placement.embedding == on_cpu);
  wish.gpu_layers = 2;
  CHECK(place_layers(ten_layers(), one, wish)->gpu_layers() == 2);
}

TEST_CASE("several GPUs have neighbouring layers, by shares or by what is free") {
  PartsNeed need = ten_layers();
  need.embedding = need.output = 100 * mib;  // twelve parts of one size
  const GpuRoom two[] = {room(2000 * mib), room(2000 * mib)};
  PlacementWish wish;
  wish.shares = {3, 1};
  const Placement shared = *place_layers(need, two, wish);
  CHECK(shared.layers == on({{0, 8}, {1, 2}}));
  CHECK(shared.embedding == 0);
  CHECK(shared.output == 1);
  CHECK(shared.taken == std::vector<uint64_t>{908 * mib, 308 * mib});
  wish.shares = {0, 1};
  CHECK(place_layers(need, two, wish)->whole_on(1));
  wish.shares = {1};
  CHECK(place_layers(need, two, wish)->whole_on(0));
  wish.shares = {};
  const GpuRoom small[] = {room(700 * mib), room(700 * mib)};
  CHECK(place_layers(need, small, wish)->layers == on({{0, 5}, {1, 5}}));
  const GpuRoom unequal[] = {room(450 * mib), room(900 * mib)};
  const Placement placement = *place_layers(need, unequal, wish);
  CHECK(placement.layers == on({{0, 3}, {1, 7}}));
  wish.shares = {1, 1, 1};
  const auto refused = place_layers(need, two, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("names 3 GPUs, and 2 can be used"));
}

TEST_CASE("shares that do not fit leave the first layers to the CPU") {
  PartsNeed need = ten_layers();
  const GpuRoom two[] = {room(300 * mib), room(2000 * mib)};
  PlacementWish wish;
  wish.shares = {1, 1};
  const Placement placement = *place_layers(need, two, wish);
  CHECK(placement.gpu_layers() < 10);
  CHECK(placement.gpu_layers() > 3);
  CHECK(placement.taken[0] <= 300 * mib);
  CHECK(placement.layers.front() == on_cpu);
  CHECK(placement.embedding == on_cpu);
}

namespace {

// As ten_layers, but 80 MiB of each layer are 8 experts.
PartsNeed ten_layers_of_experts() {
  PartsNeed need = ten_layers();
  need.experts = 8;
  for (LayerNeed& layer : need.layers) layer.experts = 80 * mib;
  return need;
}
// The layers without experts, the output, scratch, and where each layer's copies are.
constexpr uint64_t without_experts = 268 * mib + 10 * 8 * sizeof(float);

}  // namespace

TEST_CASE("layers that do not fit with their experts are on the GPU without them, and as many copies as there is room for") {
  const GpuRoom whole[] = {room(ten_layers_whole)};
  CHECK(place_layers(ten_layers_of_experts(), whole, {})->whole_on(0));
  const GpuRoom without_embedding[] = {room(1068 * mib)};
  CHECK_FALSE(place_layers(ten_layers_of_experts(), without_embedding, {})->experts_apart());
  for (const auto& [free, copies] : {std::pair{1068 * mib - 1, 7}, {without_experts + 700 * mib, 7}, {without_experts + 300 * mib, 3}, {without_experts + 300 * mib - 1, 2},
                                     {without_experts, 0}}) {
    const GpuRoom one[] = {room(free + 9, 9)};
    const Placement placement = *place_layers(ten_layers_of_experts(), one, {});
    CHECK(placement.layers == on({{0, 10}}));
    CHECK(placement.embedding == on_cpu);
    CHECK(placement.output == 0);
    CHECK_FALSE(placement.whole_on(0));
    CHECK(placement.expert_copies == std::vector<int64_t>{copies});
    CHECK(placement.taken[0] == without_experts + static_cast<uint64_t>(copies) * 100 * mib);
  }
  PlacementWish wish;
  wish.all_needed = true;  // which these are
  const GpuRoom small[] = {room(without_experts)};
  CHECK(place_layers(ten_layers_of_experts(), small, wish)->gpu_layers() == 10);
  const GpuRoom less[] = {room(without_experts - 1)};
  const auto refused = place_layers(ten_layers_of_experts(), less, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("all of the model's 10 layers without experts on the GPU does not fit") && Contains("269 MiB") && Contains("9 layers would fit"));
  wish.all_needed = false;
  const Placement nine = *place_layers(ten_layers_of_experts(), less, wish);
  CHECK(nine.layers == on({{on_cpu, 1}, {0, 9}}));
  CHECK(nine.expert_copies == std::vector<int64_t>{0});  // 20 MiB are left
}

TEST_CASE("layers that were asked for are whole where they fit, and without their experts where they do not") {
  PlacementWish wish;
  wish.gpu_layers = 4;
  const GpuRoom one[] = {room(468 * mib)};
  const Placement whole = *place_layers(ten_layers_of_experts(), one, wish);
  CHECK(whole.layers == on({{on_cpu, 6}, {0, 4}}));
  CHECK_FALSE(whole.experts_apart());
  wish.gpu_layers = 5;
  const Placement apart = *place_layers(ten_layers_of_experts(), one, wish);
  CHECK(apart.layers == on({{on_cpu, 5}, {0, 5}}));
  CHECK(apart.expert_copies == std::vector<int64_t>{5});  // 168 MiB without any, 50 for one of each
}

TEST_CASE("copies of experts that were asked for are there or an error has the numbers") {
  PlacementWish wish;
  wish.gpu_experts = 3;
  const GpuRoom large[] = {room(2 * ten_layers_whole)};
  CHECK(place_layers(ten_layers_of_experts(), large, wish)->expert_copies == std::vector<int64_t>{3});
  wish.gpu_experts = 0;
  CHECK(place_layers(ten_layers_of_experts(), large, wish)->expert_copies == std::vector<int64_t>{0});
  wish.gpu_experts = 8;
  CHECK(place_layers(ten_layers_of_experts(), large, wish)->whole_on(0));
  const GpuRoom small[] = {room(without_experts + 250 * mib, 0)};
  CHECK_FALSE(place_layers(ten_layers_of_experts(), small, wish)->experts_apart());  // whole layers, as was asked for
  wish.gpu_experts = 3;
  const auto refused = place_layers(ten_layers_of_experts(), small, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("3 of 8 experts of each layer on the GPU do not fit: GPU would have to take 569 MiB, but 519 MiB are free") && Contains("2 would fit (--gpu-experts 2)"));
  const auto dense = place_layers(ten_layers(), large, wish);
  REQUIRE_FALSE(dense);
  CHECK_THAT(dense.error(), Contains("--gpu-experts 3: the model has no experts"));
}

TEST_CASE("how many copies would fit is what every GPU has room for") {
  PlacementWish wish;
  wish.shares = {1, 1};
  wish.gpu_experts = 6;
  const GpuRoom two[] = {{"GPU0", 430 * mib, 0}, {"GPU1", 230 * mib, 0}};
  const auto refused = place_layers(ten_layers_of_experts(), two, wish);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("2 would fit (--gpu-experts 2)"));
  wish.gpu_experts = 2;
  CHECK(place_layers(ten_layers_of_experts(), two, wish));
}

TEST_CASE("several GPUs share the layers without experts, and each has copies for its own") {
  const GpuRoom two[] = {{"GPU0", 300 * mib, 0}, {"GPU1", 400 * mib, 0}};
  const Placement placement = *place_layers(ten_layers_of_experts(), two, {});
  CHECK(placement.layers == on({{0, 6}, {1, 4}}));
  CHECK(placement.expert_copies == std::vector<int64_t>{2, 6});  // (300 - 128) / 60, (400 - 148) / 40
  CHECK(describe(placement, two, 8) == "layers 0 to 5 on GPU0 (249 of 300 MiB free), layers 6 to 9 and the output on GPU1 (389 of 400 MiB free), the embedding on the CPU, "
                                       "experts of layers 0 to 5 in RAM, 2 of 8 a layer on GPU0, experts of layers 6 to 9 in RAM, 6 of 8 a layer on GPU1");
}

TEST_CASE("whatever the sizes, nothing is over its room, layers are in order, and one more would not have fitted") {
  std::mt19937 random(7);
  const auto number = [&](uint64_t most) { return random() % (most + 1); };
  int partial = 0;
  for (int world = 0; world < 2000; ++world) {
    PartsNeed need;
    need.embedding = number(300);
    need.output = number(300);
    need.scratch = number(20);
    for (uint64_t i = 0; i <= number(30); ++i) need.layers.push_back({50 + number(100), number(3), number(5)});
    std::vector<GpuRoom> gpus;
    for (uint64_t i = 0; i <= number(3); ++i) gpus.push_back(room(number(3000), number(100)));
    PlacementWish wish;
    wish.blocks = static_cast<int64_t>(number(10));
    wish.states = static_cast<int64_t>(number(4));
    if (number(2) == 0) {
      for (size_t i = 0; i < gpus.size(); ++i) wish.shares.push_back(static_cast<double>(number(3)));
      if (std::accumulate(wish.shares.begin(), wish.shares.end(), 0.0) == 0) wish.shares.back() = 1;
    }
    const Placement placement = *place_layers(need, gpus, wish);
    REQUIRE(placement.layers.size() == need.layers.size());
    CHECK(std::is_sorted(placement.layers.begin(), placement.layers.end()));
    std::vector<uint64_t> taken(gpus.size(), 0);
    const auto add = [&](int place, uint64_t bytes) {
      if (place != on_cpu) taken[static_cast<size_t>(place)] += bytes;
    };
    add(placement.embedding, need.embedding);
    add(placement.output, need.output);
    for (size_t i = 0; i < need.layers.size(); ++i) {
      const LayerNeed& layer = need.layers[i];
      add(placement.layers[i], layer.weights + layer.kv_block * static_cast<uint64_t>(wish.blocks) + layer.state * static_cast<uint64_t>(wish.states));
    }
    for (size_t i = 0; i < gpus.size(); ++i) {
      taken[i] += taken[i] > 0 ? need.scratch : 0;
      CHECK(taken[i] == placement.taken[i]);
      CHECK((taken[i] == 0 || taken[i] + gpus[i].reserve <= gpus[i].free));
      if (!wish.shares.empty() && wish.shares[i] == 0) CHECK(taken[i] == 0);
    }
    const int64_t there = placement.gpu_layers();
    if (there == 0 || there == static_cast<int64_t>(need.layers.size()) || placement.output == on_cpu) continue;
    ++partial;
    CHECK(placement.embedding == on_cpu);
    wish.gpu_layers = there + 1;
    if (const auto more = place_layers(need, gpus, wish)) CHECK(more->output == on_cpu);  // only without the output's matrix
  }
  CHECK(partial > 200);
}

TEST_CASE("a placement is told with its numbers") {
  const GpuRoom two[] = {{"GPU0", 500 * mib, 0}, {"GPU1", 500 * mib, 0}};
  const Placement placement = *place_layers(ten_layers(), two, {});
  CHECK(describe(placement, two) == "layers 2 to 5 on GPU0 (408 of 500 MiB free), layers 6 to 9 and the output on GPU1 (468 of 500 MiB free), "
                                    "layers 0 to 1 and the embedding on the CPU");
}

TEST_CASE("a plan for several places holds in each, and its errors name the place") {
  const auto place = [](const char* name, uint64_t kv_block, uint64_t available) {
    PlaceMemory made{name, {}, available, 100};
    made.need.weights = 10 * mib;
    made.need.kv_block = kv_block;
    return made;
  };
  const PlaceMemory wide[] = {place("cpu", mib, 1000 * mib), place("gpu", mib, 42 * mib + 100)};
  const CachePlan plan = *plan_caches({0, 64 * 64, 2, -1}, wide);
  CHECK(plan.context == 32 * 64);  // the GPU has room for 32 blocks, the CPU for all 64
  CHECK(plan.blocks == 32);
  const CachePlan alone = *plan_caches({0, 64 * 64, 2, -1}, std::span(wide).first(1));
  CHECK(alone.context == 64 * 64);
  CHECK(alone.blocks == 128);
  const auto refused = plan_caches({64 * 64, 64 * 64, 1, 0}, wide);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("gpu: does not fit into memory") && Contains("a context of 2048 would fit"));
  PlaceMemory states[] = {place("cpu", mib, 1000 * mib), place("gpu", 0, 1000 * mib)};
  states[1].need.state = mib;
  states[0].need.state = mib;
  CHECK(plan_caches({640, 640, 1, -1}, states)->states == 2);
  states[0].need.state = 0;
  CHECK(plan_caches({640, 640, 1, -1}, states)->states == 2);  // a place without states has no say in them
  PlaceMemory windows[] = {place("cpu", 8 * mib, 1000 * mib), place("gpu", 0, 3370 * mib + 100)};
  windows[1].need.window = {56 * mib, 40};
  const CachePlan both = *plan_caches({0, 64 * 64, 2, -1}, windows);
  CHECK(both.blocks == 123);        // the CPU has nothing else
  CHECK(both.window_blocks == 40);  // the GPU has no room for two windows
  const CachePlan only_windows = *plan_caches({0, 64 * 64, 2, 0}, std::span(windows).last(1));
  CHECK(only_windows.blocks <= 65 * 10);  // which cost nothing there
  CHECK(only_windows.blocks >= 128);
}

TEST_CASE("layers with a window are placed by the blocks that slots need of them") {
  PartsNeed need = ten_layers();
  for (size_t i = 0; i < 10; ++i) (i % 5 == 4 ? need.layers[i].kv_block : need.layers[i].window_block) = mib;
  PlacementWish wish;
  wish.blocks = 100;
  wish.window_blocks = 10;
  const uint64_t whole = ten_layers_whole + 2 * 100 * mib + 8 * 10 * mib;
  const GpuRoom one[] = {room(whole)}, less[] = {room(whole - 1)};
  CHECK(place_layers(need, one, wish)->whole_on(0));
  CHECK_FALSE(place_layers(need, less, wish)->whole_on(0));
}
