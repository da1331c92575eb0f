// What the replies of the OpenAI dialects say of the time they took.
#include <catch2/catch.hpp>

#include "server/api/reply_format.hpp"

using namespace vigil::api;

namespace {

ReplyTotals totals(int64_t tokens, double queued_s, double first_token_s, double total_s) {
  ReplyTotals made;
  made.usage.generated = tokens;
  made.queued_s = queued_s;
  made.first_token_s = first_token_s;
  made.total_s = total_s;
  return made;
}

}  // namespace

TEST_CASE("Tokens per second are those behind the first token") {
  CHECK(tokens_per_second(totals(11, 1, 3, 5)) == Approx(5));  // ten in two seconds
  CHECK(tokens_per_second(totals(2, 0, 0.5, 0.501)) == Approx(1000));
}

TEST_CASE("Tokens that came all at once are counted over the time that the engine had") {
  CHECK(tokens_per_second(totals(8, 1, 1.004, 1.004)) == Approx(2000));
  CHECK(tokens_per_second(totals(8, 1, 1.0039, 1.004)) == Approx(2000));
  CHECK(tokens_per_second(totals(1, 1, 1.5, 3)) == Approx(0.5));
  CHECK(tokens_per_second(totals(0, 1, 0, 3)) == 0);
  CHECK(tokens_per_second(totals(1, 1, 1, 1)) == 0);  // a clock that stood still
}
