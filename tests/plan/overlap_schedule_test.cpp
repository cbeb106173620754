#include <doctest/doctest.h>

#include "plan/write_programs.h"
#include "support/scenarios.h"

using namespace moeplan;

TEST_CASE("turns are taken only by forwards that were moved ahead") {
  for (const auto& entry : schedule::schedule_table())
    for (std::int64_t pp : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}})
      for (std::int64_t chunks : {std::int64_t{1}, std::int64_t{2}})
        for (std::int64_t m = 1; m <= 3 * pp; ++m) {
          if (entry.splits) continue;  // those have turns of their own
          if (entry.interleaves != (chunks > 1) || (entry.interleaves && m % pp != 0)) continue;
          for (std::int64_t stage = 0; stage < pp; ++stage) {
            const auto plain = entry.slots(stage, pp, m, chunks);
            const auto ahead = schedule::one_forward_ahead(plain);
            REQUIRE(ahead.size() == plain.size());
            std::int64_t lead = 0, first = 0;
            while (plain[static_cast<std::size_t>(lead)].direction == schedule::Direction::forward) ++lead;
            while (ahead[static_cast<std::size_t>(first)].direction == schedule::Direction::forward) ++first;
            // Every forward of the warm-up, and one more where there is one.
            CHECK(first == std::min(lead + 1, m * chunks));
            std::int64_t turns = 0;
            for (const auto& slot : ahead) turns += slot.takes_turns ? 1 : 0;
            CHECK(turns == m * chunks - lead);
          }
        }
}
