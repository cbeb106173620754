#include "policy/decision.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/check.h"
#include "small_loads.h"

using namespace moeplan;
using namespace moeplan::policy;
using moeplan::policy::test::context_of;
using moeplan::policy::test::SkewedLoads;

namespace {

routing::StepShape small_shape() {
  routing::StepShape shape;
  shape.seq_length = 37;
  shape.micro_batch_size = 2;
  shape.data_parallel = 4;
  shape.microbatches = 3;
  shape.moe_layers = 2;
  shape.experts = 16;
  shape.top_k = 3;
  return shape;
}

class AppendsChunks : public Policy {  // the order of application shows in the result: c -> factor * c + 1
 public:
  explicit AppendsChunks(std::int64_t factor) : factor_(factor) {}
  std::string name() const override { return "appends"; }
  void apply(GroupContext&, LayerDecision& decision) const override { decision.chunks = factor_ * decision.chunks + 1; }

 private:
  std::int64_t factor_;
};

}  // namespace

TEST_CASE("home placement sends expert e to member e / (experts / members)") {
  // Two sources, four experts, two a member.
  const std::vector<std::int64_t> counts = {1, 2, 3, 4,   // from member 0
                                            5, 0, 7, 8};  // from member 1
  const RoutedRows rows = place_at_home(counts, 2, 4);
  CHECK(rows.members == 2);
  CHECK(rows.matrix == std::vector<std::int32_t>{3, 7, 5, 15});
  CHECK(rows.instance_rows == std::vector<std::int64_t>{6, 2, 10, 12});
  CHECK(rows.instance_begin == std::vector<std::int32_t>{0, 2, 4});
  CHECK(rows.rows_on(0).size() == 2);
  CHECK(rows.rows_on(1)[0] == 10);
  CHECK(rows.rows_on(1)[1] == 12);
  CHECK(rows.received(0) == 8);
  CHECK(rows.received(1) == 22);
  CHECK(rows.sent(0) == 10);
  CHECK(rows.sent(1) == 20);
  CHECK(rows.total() == 30);
}

TEST_CASE("home placement needs experts that divide by the members") {
  const std::vector<std::int64_t> counts(12, 1);
  CHECK_THROWS_AS(place_at_home(counts, 3, 4), base::InternalError);
  CHECK_NOTHROW(place_at_home(counts, 2, 6));
}

TEST_CASE("chunks cut the positions as evenly as whole positions allow") {
  // floor(i * 10 / 4) = 0, 2, 5, 7, 10, from position 100 on
  const GroupContext::Source source{3, 100, 110};
  const std::int64_t bounds[] = {100, 102, 105, 107, 110};
  for (std::int64_t chunk = 0; chunk < 4; ++chunk) {
    const GroupContext::Source part = chunk_of(source, chunk, 4);
    CHECK(part.replica == 3);
    CHECK(part.begin == bounds[chunk]);
    CHECK(part.end == bounds[chunk + 1]);
  }
  CHECK_THROWS_AS(chunk_of(source, 4, 4), base::InternalError);
}

TEST_CASE("chunks of any count partition a source, and no two differ by more than one position") {
  for (std::int64_t positions = 1; positions <= 40; ++positions) {
    for (std::int64_t chunks = 1; chunks <= positions; ++chunks) {
      const GroupContext::Source source{0, 7, 7 + positions};
      std::int64_t next = 7;
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const GroupContext::Source part = chunk_of(source, chunk, chunks);
        REQUIRE(part.begin == next);
        const std::int64_t length = part.end - part.begin;
        REQUIRE(length >= positions / chunks);
        REQUIRE(length <= positions / chunks + 1);
        next = part.end;
      }
      REQUIRE(next == source.end);
    }
  }
}

TEST_CASE("counts of all chunks add up to the counts of the whole layer") {
  const SkewedLoads loads(small_shape(), 2, 5);
  GroupContext context = context_of(loads, 4);
  context.iteration = 2;
  context.microbatch = 1;
  context.moe_layer = 1;
  context.sources[2].begin = 20;  // members may hold slices of different lengths
  const std::vector<std::int64_t> whole = chunk_counts(context, 0, 1);
  // 3 members with 37 positions and one with 17, 2 samples, top-3
  CHECK(std::accumulate(whole.begin(), whole.end(), std::int64_t{0}) == (3 * 37 + 17) * 2 * 3);
  for (const std::int64_t chunks : {2, 3, 7, 17}) {
    std::vector<std::int64_t> sum(whole.size(), 0);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::vector<std::int64_t> part = chunk_counts(context, chunk, chunks);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    CHECK(sum == whole);
  }
}

TEST_CASE("the baseline keeps all rows in one chunk at home") {
  const SkewedLoads loads(small_shape(), 2, 5);
  const GroupContext context = context_of(loads, 4);
  const LayerDecision decision = decide(context, {});
  CHECK(decision.chunks == 1);
  CHECK(decision.backward == RoutedBackward::kept);
  CHECK_FALSE(decision.layer_notify);
  CHECK_FALSE(decision.select);
  REQUIRE(decision.forward_rows.size() == 1);
  const RoutedRows expected = place_at_home(chunk_counts(context, 0, 1), 4, 16);
  CHECK(decision.forward_rows[0].matrix == expected.matrix);
  CHECK(decision.forward_rows[0].instance_rows == expected.instance_rows);
  CHECK(&decision.rows_of_backward() == &decision.forward_rows);
  CHECK(decision.routed_rows == 4 * 37 * 2 * 3);
  CHECK(decision.retained_rows == decision.routed_rows);
  CHECK(decision.total_score == 0);
  // Low experts are the popular ones, so member 0 receives the most.
  CHECK(decision.max_received == static_cast<double>(expected.received(0)));
  CHECK(expected.received(0) > expected.received(3));
}

TEST_CASE("policies are applied one after the other in the order given") {
  const SkewedLoads loads(small_shape(), 1, 5);
  const GroupContext context = context_of(loads, 2);
  const AppendsChunks twice(2), ten(10);
  const std::vector<const Policy*> one_way = {&twice, &ten}, other_way = {&ten, &twice};
  CHECK(decide(context, one_way).chunks == 31);    // 10 (2 * 1 + 1) + 1
  CHECK(decide(context, other_way).chunks == 23);  // 2 (10 * 1 + 1) + 1
}
