// Pictures in prompts: the file of GENI is checked, rows stand in place of ids, and neither chunks nor neighbours nor caches change an answer.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "engine/model/rope.hpp"
#include "engine/schedule/pictures.hpp"
#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;
using schedule::Pictures;

namespace {

constexpr int32_t image_id = 5;

struct Shape {
  int32_t rows, columns, lines;
};

std::vector<float> rows_of(int64_t rows, int64_t width, uint64_t seed) {
  std::vector<float> values;
  for (const int32_t id : random_ids(rows * width, 2001, seed)) values.push_back(static_cast<float>(id - 1000) / 500.0f);
  return values;
}

std::string record(const Shape& shape, int32_t width, const std::vector<float>& values) {
  std::string out = "SVE1";
  for (const int32_t number : {shape.rows, shape.columns, shape.lines, width}) out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

struct TemporaryFile {
  explicit TemporaryFile(const std::string& bytes) {
    static int counter = 0;
    path = (std::filesystem::temp_directory_path() / ("vigil_pictures_" + std::to_string(::getpid()) + "_" + std::to_string(counter++))).string();
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  std::string path;
};

std::vector<int32_t> image_ids(int64_t count) { return std::vector<int32_t>(static_cast<size_t>(count), image_id); }

std::string refusal(const std::string& bytes, std::vector<int32_t> ids, const model::PictureRule& rule = {}) {
  const TemporaryFile file(bytes);
  const auto prompt = Pictures::read(file.path, std::move(ids), image_id, 4, rule, "");
  return prompt ? "" : prompt.error();
}

}  // namespace

TEST_CASE("the embeddings file is held against the prompt and its own numbers") {
  const auto values = rows_of(3, 4, 1);
  const std::string good = record({3, 3, 1}, 4, values);
  const std::vector<int32_t> ids{1, 5, 5, 5, 2};
  CHECK(refusal(good, ids).empty());
  CHECK(refusal(good + good, {5, 5, 5, 1, 5, 5, 5}).empty());
  CHECK(refusal(good + good, {5, 5, 5, 5, 5, 5}).empty());  // side by side
  for (size_t length = 0; length < good.size(); ++length) CHECK_FALSE(refusal(good.substr(0, length), ids).empty());
  CHECK(refusal(good + "S", ids).find("record 1 of the embeddings file ends within its header") != std::string::npos);
  CHECK(refusal("PNG1" + good.substr(4), ids).find("does not begin with SVE1") != std::string::npos);
  CHECK(refusal(record({3, 3, 1}, 5, rows_of(3, 5, 1)), ids).find("rows of 5 floats, the model takes 4") != std::string::npos);
  CHECK(refusal(record({1 << 30, 3, 1}, 4, values), ids).find("more rows than the prompt") != std::string::npos);
  CHECK(refusal(record({0, 3, 1}, 4, values), ids).find("0 rows") != std::string::npos);
  CHECK(refusal(record({-3, 3, 1}, 4, values), ids).find("-3 rows") != std::string::npos);
  CHECK(refusal(record({3, -3, 1}, 4, values), ids).find("-3 x 1") != std::string::npos);
  CHECK(refusal(record({3, 2, 2}, 4, values), ids, {.on_grid = true}).find("its grid 2 x 2") != std::string::npos);
  CHECK(refusal(record({3, 2, 2}, 4, values), ids).empty());
  auto broken = values;
  broken[7] = NAN;
  CHECK(refusal(record({3, 3, 1}, 4, broken), ids).find("not finite") != std::string::npos);
  for (const auto& wrong : {std::vector<int32_t>{1, 5, 5, 2, 5}, {1, 5, 5}, {5, 5, 5, 5}, {1, 2, 3}, {5, 5, 5, 1, 5}}) CHECK_FALSE(refusal(good, wrong).empty());
  CHECK(Pictures::read("/nowhere/file", ids, image_id, 4, {}, "").error().find("No such file") != std::string::npos);
}

TEST_CASE("without a name the id is found that stands as often as there are rows") {
  const TemporaryFile file(record({3, 3, 1}, 4, rows_of(3, 4, 1)));
  const auto found = Pictures::read(file.path, {1, 7, 7, 7, 1, 2}, std::nullopt, 4, {}, "");
  REQUIRE(found);
  CHECK(found->ids[0] == 1);
  CHECK(found->ids[1] < 0);
  CHECK(found->ids[3] < 0);
  CHECK(found->ids[4] == 1);
  CHECK(Pictures::read(file.path, {7, 7, 7, 8, 8, 8}, std::nullopt, 4, {}, "").error().find("image=id") != std::string::npos);
  CHECK_FALSE(Pictures::read(file.path, {7, 8, 7, 9, 7}, std::nullopt, 4, {}, ""));
}

TEST_CASE("ids of rows say what is in them") {
  const auto ids_of = [](const std::string& bytes, const char* salt) {
    const TemporaryFile file(bytes);
    return Pictures::read(file.path, {1, 5, 5, 5, 5}, image_id, 4, {}, salt)->ids;
  };
  auto values = rows_of(4, 4, 1);
  const auto first = ids_of(record({4, 2, 2}, 4, values), "");
  CHECK(first == ids_of(record({4, 2, 2}, 4, values), ""));
  CHECK(first != ids_of(record({4, 2, 2}, 4, values), "other"));
  CHECK(first[1] != ids_of(record({4, 4, 1}, 4, values), "")[1]);  // another grid
  values[15] += 0.25f;
  const auto last_row_differs = ids_of(record({4, 2, 2}, 4, values), "");
  CHECK(std::equal(first.begin(), first.begin() + 4, last_row_differs.begin()));
  CHECK(first[4] != last_row_differs[4]);
}

TEST_CASE("places, shifts and what may not be cut") {
  const TemporaryFile file(record({6, 3, 2}, 4, rows_of(6, 4, 1)) + record({4, 2, 2}, 4, rows_of(4, 4, 2)));
  const std::vector<int32_t> ids = joined(joined(joined({1, 2}, image_ids(6)), {3}), joined(image_ids(4), {4}));  // at 2 to 7 and 9 to 12
  const auto grid = Pictures::read(file.path, ids, image_id, 4, {.on_grid = true}, "");
  REQUIRE(grid);
  const auto turns = [&](int64_t position) {
    std::vector<int64_t> all;
    for (const int32_t shift : grid->pictures->at(position).shifts) all.push_back(position + shift);
    return all;
  };
  CHECK(turns(1) == std::vector<int64_t>{1, 1, 1});
  CHECK(turns(2) == std::vector<int64_t>{2, 2, 2});
  CHECK(turns(4) == std::vector<int64_t>{2, 2, 4});
  CHECK(turns(7) == std::vector<int64_t>{2, 3, 4});
  CHECK(turns(8) == std::vector<int64_t>{5, 5, 5});  // three behind the picture's place: its longer side
  CHECK(turns(12) == std::vector<int64_t>{6, 7, 7});
  CHECK(turns(13) == std::vector<int64_t>{8, 8, 8});
  CHECK(turns(100) == std::vector<int64_t>{95, 95, 95});
  CHECK(grid->pictures->at(8).embedding == nullptr);
  CHECK(grid->pictures->at(9).embedding == grid->pictures->at(2).embedding + 6 * 4);
  CHECK(grid->pictures->whole(0, 5) == 5);
  CHECK(grid->pictures->longest_whole() == 0);

  const auto block = Pictures::read(file.path, ids, image_id, 4, {.see_each_other = true}, "");
  REQUIRE(block);
  CHECK(block->pictures->at(3).ahead == 4);
  CHECK(block->pictures->at(7).ahead == 0);
  CHECK(block->pictures->at(8).ahead == 0);
  CHECK(block->pictures->at(3).shifts == std::array<int32_t, 3>{0, 0, 0});
  CHECK(block->pictures->longest_whole() == 6);
  const std::vector<std::tuple<int64_t, int64_t, int64_t>> cuts{{0, 1, 1}, {0, 2, 2}, {0, 3, 2}, {0, 7, 2}, {0, 8, 8}, {2, 1, 6}, {4, 1, 4}, {2, 6, 6}, {2, 7, 7}, {2, 8, 7}, {2, 11, 11}, {8, 3, 1}};
  for (const auto& [position, count, wanted] : cuts) {
    CAPTURE(position, count);
    CHECK(block->pictures->whole(position, count) == wanted);
  }
}

TEST_CASE("sections of M-RoPE, one by one and in turn") {
  const std::vector<int64_t> sections{2, 3, 1, 0}, even{3, 3, 2, 0};
  CHECK(model::rope_axes(sections, model::SectionOrder::one_by_one, 6) == std::vector<uint8_t>{0, 0, 1, 1, 1, 2});
  CHECK(model::rope_axes(even, model::SectionOrder::in_turn, 8) == std::vector<uint8_t>{0, 1, 2, 0, 1, 2, 0, 1});
  CHECK(model::rope_axes({}, model::SectionOrder::in_turn, 8).empty());
}

TEST_CASE("chunks, neighbours, guesses and caches change no answer about a picture") {
  for (const std::string name : {"llama", "gemma3", "qwen2vl", "qwen35"}) {
    INFO(name);
    tools::RandomModel what;
    what.architecture = name;
    const bool windows = name == "gemma3";  // then texts are so long that window blocks are let go
    if (windows) what.layers = 7, what.context = 2048;
    const int64_t width = what.width;
    const TemporaryFile file(record({30, 6, 5}, static_cast<int32_t>(width), rows_of(30, width, 3)) + record({12, 4, 3}, static_cast<int32_t>(width), rows_of(12, width, 4)));
    const TemporaryFile other(record({30, 6, 5}, static_cast<int32_t>(width), rows_of(30, width, 9)) + record({12, 4, 3}, static_cast<int32_t>(width), rows_of(12, width, 5)));
    std::vector<int32_t> ids = random_ids(windows ? 400 : 20, 97, 1);
    std::replace(ids.begin(), ids.end(), image_id, 6);
    const std::vector<int32_t> text = ids;
    ids = joined(joined(joined(joined(ids, image_ids(30)), text), image_ids(12)), {7, 8, 9});
    const auto request = [&](const Serving& serving, const std::string& path) {
      const model::Model& model = serving.model.runtime->model();
      const auto prompt = Pictures::read(path, ids, image_id, width, model.picture_rule(), "");
      INFO((prompt ? std::string() : prompt.error()));
      REQUIRE(prompt);
      schedule::Request made{std::nullopt, 24, prompt->ids};
      made.pictures = prompt->pictures;
      return made;
    };
    schedule::RuntimeOptions alone_options;
    alone_options.cache_mib = -1;
    alone_options.step_rows = 1024;
    Serving alone(load_random(what, alone_options));
    const auto tag = alone.push(request(alone, file.path));
    alone.finish();
    REQUIRE(alone.said[tag].error.empty());
    const std::vector<int32_t> expected = alone.said[tag].ids;
    REQUIRE(expected.size() > 5);
    const auto other_tag = alone.push(request(alone, other.path));
    alone.finish();
    CHECK(alone.said[other_tag].ids != expected);  // the picture matters

    schedule::RuntimeOptions options;
    options.slots = 3;
    options.speculate = 4;
    options.step_rows = 33;
    options.backend.threads = 2;
    Serving many(load_random(what, options), 2);  // 1 ms a step: prompts are cut small
    std::vector<protocol::RequestTag> tags{many.push(request(many, file.path)), many.push(text, 9), many.push(request(many, other.path)), many.push(request(many, file.path))};
    many.finish();
    CHECK(many.said[tags[0]].ids == expected);
    CHECK(many.said[tags[2]].ids == alone.said[other_tag].ids);
    CHECK(many.said[tags[3]].ids == expected);
    const auto again = many.push(request(many, file.path));
    many.finish();
    CHECK(many.said[again].ids == expected);
    CHECK(many.said[again].resumed >= 20);  // recurrent state was kept at the end of the text alone

    options.draft_sureness = 0;
    Serving drafted(load_random_pair(what, tools::RandomModel(), options));  // the draft model sees no pictures: it guesses for the text alone
    const auto seen = drafted.push(request(drafted, file.path));
    drafted.finish();
    CHECK(drafted.said[seen].ids == expected);
    CHECK(drafted.scheduler.tally().drafted == 0);
    const std::vector<int32_t> start(text.begin(), text.begin() + 20);  // which it has soon read
    CHECK(drafted.run(start, 30).ids == alone.run(start, 30).ids);
    CHECK((drafted.scheduler.tally().drafted > 0) == (drafted.model.runtime->draft() != nullptr));
  }
}
