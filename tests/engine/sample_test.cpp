// The sampler at its limits (NaN, infinities, extreme settings), its distribution and its arithmetic.
#include <catch2/catch.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "engine/sample/sampler.hpp"

using namespace vigil;
using namespace vigil::sample;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

Settings sampled(double temperature = 1, uint64_t seed = 7) {
  Settings settings;
  settings.temperature = temperature;
  settings.seed = seed;
  return settings;
}

Result<TokenId> pick(std::vector<float> scores, Settings settings, std::vector<TokenId> history = {}) {
  return Sampler(std::move(settings), 1).pick(scores, history);
}

std::map<TokenId, int> draw(const std::vector<float>& scores, const Settings& settings, int times) {
  Sampler sampler(settings, 1);
  std::map<TokenId, int> counts;
  for (int i = 0; i < times; ++i) {
    std::vector<float> copy = scores;
    Result<TokenId> picked = sampler.pick(copy, {});
    REQUIRE(picked);
    ++counts[*picked];
  }
  return counts;
}

// Every kind of settings that a request can have.
std::vector<Settings> all_extremes() {
  std::vector<Settings> all;
  for (const double temperature : {0.0, 1e-9, 1.0, 999999.0}) {
    for (const int64_t top_k : {0, 1, 1000000}) {
      for (const double top_p : {0.0, 0.5, 1.0}) {
        for (const double min_p : {0.0, 1.0}) {
          Settings settings = sampled(temperature);
          settings.top_k = top_k;
          settings.top_p = top_p;
          settings.min_p = min_p;
          all.push_back(settings);
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("no usable score fails the request, under every setting") {
  for (const Settings& settings : all_extremes()) {
    CHECK_FALSE(pick({nan_value, nan_value, nan_value}, settings));
    CHECK_FALSE(pick({-infinity, -infinity}, settings));
    CHECK_FALSE(pick({nan_value, -infinity}, settings));
    CHECK_FALSE(pick({}, settings));
  }
}

TEST_CASE("a NaN or minus infinity is never picked") {
  for (const Settings& settings : all_extremes()) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Settings seeded = settings;
      seeded.seed = seed;
      const TokenId id = *pick({nan_value, 1.0f, nan_value, 0.5f, -infinity}, seeded);
      CHECK((id == 1 || id == 3));
    }
  }
}

TEST_CASE("plus infinity wins, equal scores are all possible") {
  for (const Settings& settings : all_extremes()) CHECK(*pick({1, infinity, 3}, settings) == 1);
  const auto counts = draw({2, 2, 2, 2}, sampled(), 4000);
  REQUIRE(counts.size() == 4);
  for (const auto& [id, count] : counts) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("greedy, top_k 1 and a vanishing temperature take the best, the lowest id on a tie") {
  const std::vector<float> scores{1, 5, 5, 5, 2};
  CHECK(*pick(scores, sampled(0)) == 1);
  Settings one = sampled(1);
  one.top_k = 1;
  CHECK(*pick(scores, one) == 1);
  CHECK(*pick({1, 5, 4.9f, 2}, sampled(1e-9)) == 1);
  Settings nucleus = sampled(1);
  nucleus.top_p = 0;
  CHECK(*pick(scores, nucleus) == 1);
}

TEST_CASE("temperature 1 draws from softmax, a high one from everything alike") {
  const std::vector<float> scores{std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  const auto counts = draw(scores, sampled(), 20000);
  CHECK(counts.at(0) / 20000.0 == Approx(0.5).margin(0.015));
  CHECK(counts.at(1) / 20000.0 == Approx(0.3).margin(0.015));
  const auto hot = draw({10, 0, -10}, sampled(999999), 6000);
  for (TokenId id = 0; id < 3; ++id) CHECK(hot.at(id) / 6000.0 == Approx(1.0 / 3).margin(0.03));
}

TEST_CASE("top_k, top_p and min_p cut where they say") {
  const std::vector<float> scores{std::log(0.1f), std::log(0.4f), std::log(0.3f), std::log(0.2f)};
  const auto only = [&](const Settings& settings) {
    std::string ids;
    for (const auto& [id, count] : draw(scores, settings, 3000)) ids += std::to_string(id);
    return ids;
  };
  Settings settings = sampled();
  CHECK(only(settings) == "0123");
  settings.top_k = 2;
  CHECK(only(settings) == "12");
  settings.top_k = 0;
  settings.top_p = 0.65;
  CHECK(only(settings) == "12");
  settings.top_p = 0.75;
  CHECK(only(settings) == "123");
  settings.top_p = 1;
  settings.min_p = 0.6;
  CHECK(only(settings) == "12");
  settings.min_p = 1;
  CHECK(only(settings) == "1");
}

TEST_CASE("top_p reaches beyond the first piece that is sorted") {
  std::vector<float> flat(3000, 0.0f);
  flat[2999] = 0.001f;
  Settings settings = sampled();
  settings.top_p = 0.5;
  const auto counts = draw(flat, settings, 400);
  TokenId highest_low = 0;
  for (const auto& [id, count] : counts) {
    if (id != 2999) highest_low = std::max(highest_low, id);
  }
  CHECK(highest_low < 1500);  // the best, then the lowest ids among equals, to half of the probability
  CHECK(highest_low > 1300);
}

TEST_CASE("penalties look back penalty_last_n tokens") {
  const std::vector<TokenId> history{0, 1, 1, 2};
  Settings settings;  // greedy
  settings.penalty_repeat = 2;
  CHECK(*pick({4, 3.9f, 3, 2.1f}, settings, history) == 3);         // 2, 1.95, 1.5, 2.1
  CHECK(*pick({-1, -1.1f, -1.2f, -1.9f}, settings, history) == 3);  // negative scores move down, not up
  settings.penalty_last_n = 1;
  CHECK(*pick({4, 3.9f, 3, 2.1f}, settings, history) == 0);
  settings.penalty_last_n = 0;
  CHECK(*pick({4, 3.9f, 3, 2.1f}, settings, history) == 0);
  Settings frequency;
  frequency.penalty_freq = 1;
  CHECK(*pick({3, 3.9f, 1, 0}, frequency, history) == 0);  // 2, 1.9, 0, 0
  Settings present;
  present.penalty_present = 1;
  CHECK(*pick({3, 3.9f, 1, 0}, present, history) == 1);  // 2, 2.9, 0, 0
  present.penalty_last_n = -1;
  CHECK(*pick({3, 3.9f, 1, 2.95f}, present, history) == 3);
}

TEST_CASE("logit_bias lifts, forbids, and stays finite") {
  Settings settings;
  settings.logit_bias = {{2, 100}};
  CHECK(*pick({5, 4, 3}, settings) == 2);
  settings.logit_bias = {{0, -1e300}};
  CHECK(*pick({5, 4, 3}, settings) == 1);
  settings.logit_bias = {{0, 1e300}, {1, 1e300}};
  CHECK(*pick({5, 4, 3}, settings) == 0);
}

TEST_CASE("a seed repeats its draws, another seed has others") {
  std::vector<float> scores(50, 0.0f);
  const auto twenty = [&](uint64_t seed) {
    Sampler sampler(sampled(1, seed), 99);
    std::vector<TokenId> ids;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> copy = scores;
      ids.push_back(*sampler.pick(copy, {}));
    }
    return ids;
  };
  CHECK(twenty(7) == twenty(7));
  CHECK(twenty(7) != twenty(8));
  CHECK(Random(0).next() == 0xe220a8397b1dcdafu);  // the published first value of SplitMix64 from 0
}

TEST_CASE("log probabilities are the log softmax of the raw scores") {
  const std::vector<float> scores{std::log(0.1f), std::log(0.4f), nan_value, std::log(0.3f), std::log(0.2f), -infinity};
  protocol::Token token;
  token.id = 3;
  add_logprobs(scores, 3, token);
  CHECK(*token.logprob == Approx(std::log(0.3)).margin(1e-6));
  REQUIRE(token.top.size() == 3);
  CHECK(token.top[0].id == 1);
  CHECK(token.top[1].id == 3);
  CHECK(token.top[2].id == 4);
  CHECK(token.top[2].logprob == Approx(std::log(0.2)).margin(1e-6));
  add_logprobs(scores, 20, token);
  CHECK(token.top.size() == 4);
  add_logprobs(scores, 0, token);
  CHECK(token.top.empty());
  token.id = 5;
  add_logprobs(scores, 0, token);
  CHECK(std::isfinite(*token.logprob));
  CHECK(*token.logprob < -1e6);
  const std::vector<float> huge{infinity, 1, infinity};
  token.id = 0;
  add_logprobs(huge, 1, token);
  CHECK(*token.logprob == Approx(std::log(0.5)));
}

TEST_CASE("settings out of range are refused by name") {
  const auto refusal = [](auto&& change) {
    protocol::Sampling sampling;
    change(sampling);
    const Result<Settings> settings = check_settings(sampling, 100);
    return settings ? std::string() : settings.error();
  };
  CHECK(refusal([](auto& s) { s.temperature = -1; }).find("temperature") == 0);
  CHECK(refusal([](auto& s) { s.temperature = std::nan(""); }).find("temperature") == 0);
  CHECK(refusal([](auto& s) { s.top_p = -1; }).find("top_p") == 0);
  CHECK(refusal([](auto& s) { s.top_p = 1.5; }).find("top_p") == 0);
  CHECK(refusal([](auto& s) { s.min_p = 2; }).find("min_p") == 0);
  CHECK(refusal([](auto& s) { s.penalty_repeat = 0; }).find("penalty_repeat") == 0);
  CHECK(refusal([](auto& s) { s.penalty_last_n = -2; }).find("penalty_last_n") == 0);
  CHECK(refusal([](auto& s) { s.logit_bias = {{100, 1}}; }).find("logit_bias") == 0);
  CHECK(refusal([](auto& s) { s.logit_bias = {{-1, 1}}; }).find("logit_bias") == 0);
  CHECK(refusal([](auto& s) { s.logprobs = 21; }).find("logprobs") == 0);
  CHECK(refusal([](auto& s) { s.top_k = -1; }).empty());
  CHECK(refusal([](auto& s) { s.temperature = 999999; s.seed = UINT64_MAX; }).empty());
}

TEST_CASE("the best scores alone give the token that all of them give, or say that they are not enough") {
  const int64_t vocabulary = 300;
  Constraint open({}, nullptr, {});
  Random random(3);
  int told = 0, asked = 0;
  for (const double temperature : {0.0, 0.7, 3.0}) {
    for (const int64_t top_k : {0, 1, 8, 40, 64, 65, 299, 300, 1000}) {
      for (const double top_p : {0.3, 0.95, 1.0}) {
        for (const double min_p : {0.0, 0.2}) {
          Settings settings = sampled(temperature, 11);
          settings.top_k = top_k;
          settings.top_p = top_p;
          settings.min_p = min_p;
          Sampler by_all(settings, 1), by_best(settings, 1);
          for (int turn = 0; turn < 8; ++turn) {
            std::vector<float> scores(static_cast<size_t>(vocabulary));
            for (float& score : scores) score = static_cast<float>(std::round(random.uniform() * 40) / 10);  // with many ties
            if (turn == 0) std::fill(scores.begin() + 3, scores.end(), -infinity);
            if (turn == 1) scores[70] = infinity;
            std::vector<Pick> best;
            for (size_t i = 0; i < scores.size(); ++i) {
              if (scores[i] > -infinity) best.push_back({static_cast<TokenId>(i), scores[i]});
            }
            std::stable_sort(best.begin(), best.end(), [](const Pick& a, const Pick& b) { return a.score > b.score; });
            best.resize(64, {-1, -infinity});
            const auto told_now = by_best.pick_among(best, vocabulary, open);
            REQUIRE(told_now);
            std::vector<float> copy = scores;
            const auto expected = by_all.pick(copy, {}, open);
            REQUIRE(expected);
            ++asked;
            const bool enough = temperature == 0 || (top_k >= 1 && top_k <= 64);
            INFO("temperature " << temperature << ", top_k " << top_k << ", top_p " << top_p << ", turn " << turn);
            CHECK(told_now->has_value() == enough);
            if (!*told_now) continue;
            ++told;
            CHECK(**told_now == **expected);
          }
        }
      }
    }
  }
  CHECK(told > asked / 2);
}

TEST_CASE("the best scores are not enough where others may come to stand before them") {
  const std::vector<Pick> best{{4, 2}, {1, 1}}, nothing{{-1, 0}, {-1, 0}};
  Constraint open({}, nullptr, {});
  const auto tells = [&](const Settings& settings, const std::vector<Pick>& from) { return Sampler(settings, 1).pick_among(from, 9, open)->has_value(); };
  Settings settings;
  CHECK(tells(settings, best));
  CHECK_FALSE(tells(settings, {}));
  CHECK_FALSE(tells(settings, nothing));
  settings.logit_bias = {{3, 100.0}};
  CHECK_FALSE(tells(settings, best));
  settings = {};
  settings.penalty_present = 1;
  CHECK_FALSE(tells(settings, best));
  settings = sampled();
  settings.top_k = 2;
  CHECK(tells(settings, best));
  settings.top_k = 3;
  CHECK_FALSE(tells(settings, best));
  CHECK_FALSE(Sampler(sampled(), 1).pick_among(best, 2, open)->has_value());
}
