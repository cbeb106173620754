#include "policy/lrmoe.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/memfine.h"
#include "policy/score.h"
#include "small_loads.h"

using namespace moeplan;
using namespace moeplan::policy;
using moeplan::policy::test::context_of;
using moeplan::policy::test::SkewedLoads;
using moeplan::policy::test::WrittenLoads;

namespace {

LayerDecision decide_with(const GroupContext& context, const std::vector<const Policy*>& policies) {
  return decide(context, policies);
}

routing::StepShape written_shape(std::int64_t positions, std::int64_t experts, std::int64_t top_k) {
  routing::StepShape shape;
  shape.seq_length = positions;
  shape.micro_batch_size = 1;
  shape.data_parallel = 1;
  shape.microbatches = 1;
  shape.moe_layers = 1;
  shape.experts = experts;
  shape.top_k = top_k;
  return shape;
}

routing::StepShape skewed_shape() {
  routing::StepShape shape = written_shape(150, 16, 4);
  shape.micro_batch_size = 2;
  shape.data_parallel = 4;
  return shape;
}

// Two members that hold positions [0, 4) and [4, 8) of one sequence.
GroupContext two_slices(const routing::LoadSource& loads) {
  GroupContext context = context_of(loads, 1);
  context.sources = {{0, 0, 4}, {0, 4, 8}};
  return context;
}

// The rule written down once more, slowly: all pairs, sorted; [member][expert] counts that are kept.
struct Reference {
  std::vector<std::vector<std::int64_t>> counts;
  double score = 0, total = 0;
};
Reference reference(const GroupContext& context, const LrmoeSettings& settings, const std::vector<std::int64_t>& caps) {
  struct Item {
    float score;
    std::int64_t member, token;
    int expert;
  };
  const std::int64_t members = context.members(), local = context.experts / members;
  const TokenNorms norms(settings.seed, settings.score_sigma, context);
  std::vector<std::vector<Item>> items(static_cast<std::size_t>(context.experts));
  Reference result;
  for (std::int64_t member = 0; member < members; ++member) {
    const auto& source = context.sources[static_cast<std::size_t>(member)];
    std::vector<routing::Pair> pairs;
    context.loads->pairs({context.iteration, context.microbatch, source.replica, source.begin, source.end},
                         context.moe_layer, pairs);
    for (const routing::Pair& pair : pairs) {
      const double norm = norms(source.replica, source.begin * context.loads->shape().micro_batch_size + pair.token);
      const float score = static_cast<float>(static_cast<double>(pair.weight) * norm);
      items[pair.expert].push_back({score, member, pair.token, pair.expert});
      result.total += static_cast<double>(score);
    }
  }
  const auto before = [](const Item& a, const Item& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.member != b.member) return a.member < b.member;
    if (a.token != b.token) return a.token < b.token;
    return a.expert < b.expert;
  };
  std::vector<std::int64_t> totals;
  std::vector<std::vector<std::int32_t>> hosts;
  for (std::size_t expert = 0; expert < items.size(); ++expert) {
    std::sort(items[expert].begin(), items[expert].end(), before);
    totals.push_back(static_cast<std::int64_t>(items[expert].size()));
    hosts.push_back({static_cast<std::int32_t>(static_cast<std::int64_t>(expert) / local)});
  }
  const Quotas quotas = water_fill(totals, hosts, caps, settings.min_rows, settings.min_retained);
  result.counts.assign(static_cast<std::size_t>(members),
                       std::vector<std::int64_t>(static_cast<std::size_t>(context.experts), 0));
  const auto keep = [&](const Item& item) {
    ++result.counts[static_cast<std::size_t>(item.member)][static_cast<std::size_t>(item.expert)];
    result.score += static_cast<double>(item.score);
  };
  for (std::int64_t member = 0; member < members; ++member) {
    std::vector<Item> lost;
    for (std::int64_t expert = member * local; expert < (member + 1) * local; ++expert) {
      const auto& list = items[static_cast<std::size_t>(expert)];
      const auto quota = static_cast<std::size_t>(quotas.rows[static_cast<std::size_t>(expert)]);
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (i < quota) {
          keep(list[i]);
        } else {
          lost.push_back(list[i]);
        }
      }
    }
    std::sort(lost.begin(), lost.end(), before);
    for (std::size_t i = 0; i < static_cast<std::size_t>(quotas.room[static_cast<std::size_t>(member)]); ++i)
      keep(lost[i]);
  }
  return result;
}

}  // namespace

TEST_CASE("the hot expert keeps its pairs with the largest weights") {
  // Top-1, two experts, one a member: expert 0 gets 6 of 8 tokens. tau 1: cap 4, so its weights 0.9, 0.8, 0.7, 0.6 stay
  // and 0.5, 0.1 go.
  const WrittenLoads loads(
      written_shape(8, 2, 1),
      {{{0, 0.5f}}, {{0, 0.9f}}, {{1, 0.2f}}, {{0, 0.7f}}, {{0, 0.1f}}, {{0, 0.8f}}, {{1, 0.3f}}, {{0, 0.6f}}});
  LrmoeSettings settings;
  settings.tau = 1.0;
  settings.min_rows = 1;
  settings.score_sigma = 0;  // the score is the weight
  const auto policy = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(two_slices(loads), {policy.get()});
  CHECK(decision.backward == RoutedBackward::redispatch);
  CHECK(decision.select);
  CHECK_FALSE(decision.layer_notify);
  REQUIRE(decision.backward_rows.size() == 1);
  // From member 0 (positions 0-3): 0.9 and 0.7 to expert 0, one to expert 1; from member 1: 0.8 and 0.6, one.
  CHECK(decision.backward_rows[0].matrix == std::vector<std::int32_t>{2, 1, 2, 1});
  CHECK(decision.backward_rows[0].instance_rows == std::vector<std::int64_t>{4, 2});
  CHECK(&decision.rows_of_backward() == &decision.backward_rows);
  CHECK(decision.forward_rows[0].instance_rows == std::vector<std::int64_t>{6, 2});  // forward is exact
  CHECK(decision.routed_rows == 8);
  CHECK(decision.retained_rows == 6);
  CHECK(decision.total_score == doctest::Approx(4.1));  // 0.5+0.9+0.2+0.7+0.1+0.8+0.3+0.6
  CHECK(decision.retained_score == doctest::Approx(4.1 - 0.5 - 0.1));
}

TEST_CASE("equal scores keep the lower source, then the lower token") {
  std::vector<std::vector<std::pair<int, float>>> tokens(8, {{0, 0.5f}});
  tokens[7] = {{1, 0.5f}};
  const WrittenLoads loads(written_shape(8, 2, 1), tokens);
  LrmoeSettings settings;
  settings.tau = 1.25;  // cap 5 of 7
  settings.min_rows = 1;
  settings.score_sigma = 0;
  const auto policy = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(two_slices(loads), {policy.get()});
  CHECK(decision.backward_rows[0].matrix == std::vector<std::int32_t>{4, 0, 1, 1});
  // In chunks of two positions the one kept pair of source 1 is that of its first position.
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 4;
  const auto memfine = make_memfine(chunked, 0);
  const LayerDecision both = decide_with(two_slices(loads), {memfine.get(), policy.get()});
  REQUIRE(both.backward_rows.size() == 4);
  CHECK(both.backward_rows[0].matrix == std::vector<std::int32_t>{1, 0, 1, 0});
  CHECK(both.backward_rows[1].matrix == std::vector<std::int32_t>{1, 0, 0, 0});
  CHECK(both.backward_rows[3].matrix == std::vector<std::int32_t>{1, 0, 0, 1});
}

TEST_CASE("room on a member goes to the best pairs of its cut experts") {
  // Top-1, four experts, two a member. Member 0 gets 5 + 3 = 8, member 1 gets none but 2. tau 1: cap 5. Level 2 gives 2
  // + 2, one row of room: the third pair of expert 1 (0.6) beats the third of expert 0 (0.5).
  const WrittenLoads loads(written_shape(10, 4, 1), {{{0, 0.9f}},
                                                     {{0, 0.8f}},
                                                     {{0, 0.5f}},
                                                     {{0, 0.4f}},
                                                     {{0, 0.3f}},
                                                     {{1, 0.7f}},
                                                     {{1, 0.65f}},
                                                     {{1, 0.6f}},
                                                     {{2, 0.1f}},
                                                     {{3, 0.1f}}});
  GroupContext context = context_of(loads, 1);
  context.sources = {{0, 0, 5}, {0, 5, 10}};
  LrmoeSettings settings;
  settings.tau = 1.0;
  settings.min_rows = 1;
  settings.score_sigma = 0;
  const auto policy = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(context, {policy.get()});
  CHECK(decision.backward_rows[0].instance_rows == std::vector<std::int64_t>{2, 3, 1, 1});
  CHECK(decision.retained_score == doctest::Approx(0.9 + 0.8 + 0.7 + 0.65 + 0.6 + 0.2));
}

TEST_CASE("one token with equal scores for two experts keeps the lower expert where one row of room is left") {
  // Top-2: four tokens, each to experts 0 and 1 of member 0. tau 1.25: cap 5. Level 2 keeps tokens 0 and 1 of both
  // experts; of token 2, one pair.
  const std::vector<std::vector<std::pair<int, float>>> tokens(4, {{1, 0.5f}, {0, 0.5f}});
  const WrittenLoads loads(written_shape(4, 4, 2), tokens);
  GroupContext context = context_of(loads, 1);
  context.sources = {{0, 0, 2}, {0, 2, 4}};
  LrmoeSettings settings;
  settings.tau = 1.25;
  settings.min_rows = 1;
  settings.score_sigma = 0;
  const auto policy = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(context, {policy.get()});
  CHECK(decision.backward_rows[0].instance_rows == std::vector<std::int64_t>{3, 2, 0, 0});
  CHECK(decision.backward_rows[0].matrix == std::vector<std::int32_t>{4, 0, 1, 0});
}

TEST_CASE("nothing is cut where the caps hold all rows") {
  const SkewedLoads loads(skewed_shape(), 1, 3);
  LrmoeSettings settings;
  settings.tau = 4;
  const auto policy = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(context_of(loads, 4), {policy.get()});
  CHECK(decision.retained_rows == decision.routed_rows);
  CHECK(decision.retained_score == decision.total_score);
  CHECK(decision.total_score > 0);
  CHECK(decision.backward_rows[0].matrix == decision.forward_rows[0].matrix);
}

TEST_CASE("the selection is that of a slow reference, row by row") {
  for (int number = 0; number < 24; ++number) {
    const int levels = number % 4 < 2 ? 4 : 0;  // with and without ties
    const SkewedLoads loads(skewed_shape(), 1 + number % 4, static_cast<std::uint64_t>(number), levels);
    GroupContext context = context_of(loads, 4);
    context.iteration = number % 3;
    context.microbatch = number % 5;
    context.sources[3].begin = 40;  // sources of different lengths
    LrmoeSettings settings;
    settings.tau = 0.6 + 0.1 * (number % 7);
    settings.min_rows = number % 2 == 0 ? 1 : 40;
    settings.min_retained = number % 3 == 0 ? 0.7 : 0.2;
    settings.score_sigma = number % 4 == 0 ? 0.0 : 0.5;
    const auto policy = make_lrmoe(settings, kNoMemoryLimit);
    const LayerDecision decision = decide_with(context, {policy.get()});
    const auto cap = static_cast<std::int64_t>(std::floor(settings.tau * decision.routed_rows / 4));
    const Reference expected = reference(context, settings, std::vector<std::int64_t>(4, cap));
    std::vector<std::int64_t> flat;
    for (const auto& row : expected.counts) flat.insert(flat.end(), row.begin(), row.end());
    const RoutedRows rows = place_at_home(flat, 4, 16);
    REQUIRE(decision.backward_rows[0].matrix == rows.matrix);
    REQUIRE(decision.backward_rows[0].instance_rows == rows.instance_rows);
    REQUIRE(decision.retained_rows == static_cast<double>(rows.total()));
    REQUIRE(decision.retained_score == doctest::Approx(expected.score).epsilon(1e-12));
    REQUIRE(decision.total_score == doctest::Approx(expected.total).epsilon(1e-12));
    REQUIRE(decision.retained_rows >= settings.min_retained * decision.routed_rows);
    // What is kept of a cut expert scores above what is lost, so the share of the score is at least the share of the
    // rows (weights here do not depend on the expert).
    if (decision.retained_rows < 0.95 * decision.routed_rows)
      REQUIRE(decision.retained_score / decision.total_score > decision.retained_rows / decision.routed_rows);
  }
}

TEST_CASE("retained rows of all chunks are those of the whole layer") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.tau = 0.9;
  settings.min_rows = 16;
  const auto lrmoe = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision whole = decide_with(context, {lrmoe.get()});
  REQUIRE(whole.retained_rows < whole.routed_rows);
  for (const std::int64_t chunks : {2, 3, 7}) {
    MemfineSettings chunked;
    chunked.rule = MemfineSettings::Rule::fixed;
    chunked.chunks = chunks;
    const auto memfine = make_memfine(chunked, 0);
    const LayerDecision decision = decide_with(context, {memfine.get(), lrmoe.get()});
    CHECK(decision.chunks == chunks);
    CHECK(decision.backward == RoutedBackward::redispatch);
    CHECK(decision.layer_notify);  // the adaptive count of forward still needs it
    REQUIRE(decision.backward_rows.size() == static_cast<std::size_t>(chunks));
    std::vector<std::int32_t> matrix(16, 0);
    for (std::size_t chunk = 0; chunk < decision.backward_rows.size(); ++chunk) {
      for (std::size_t i = 0; i < matrix.size(); ++i) {
        matrix[i] += decision.backward_rows[chunk].matrix[i];
        CHECK(decision.backward_rows[chunk].matrix[i] <= decision.forward_rows[chunk].matrix[i]);
      }
    }
    CHECK(matrix == whole.backward_rows[0].matrix);
    CHECK(decision.retained_score == whole.retained_score);
  }
}

TEST_CASE("less memory never keeps more rows, down to none: the floors alone remain") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.min_rows = 1;
  settings.min_retained = 0.1;
  double before = decide_with(context, {make_lrmoe(settings, kNoMemoryLimit).get()}).retained_rows;
  for (const double rows : {2000.0, 700.0, 100.0, 1.0, 0.0}) {
    const double kept = decide_with(context, {make_lrmoe(settings, rows).get()}).retained_rows;
    CHECK(kept <= before);
    before = kept;
  }
  CHECK(before == 480);  // a tenth of 4,800: the floor
}

TEST_CASE("memory caps the rows of a member, of a chunk where there are chunks") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.tau = 100;
  settings.min_rows = 1;
  settings.min_retained = 0.01;
  const auto received = [](const LayerDecision& decision) {
    std::int64_t most = 0;
    for (std::int64_t member = 0; member < 4; ++member) {
      std::int64_t sum = 0;
      for (const RoutedRows& rows : decision.backward_rows) sum += rows.received(member);
      most = std::max(most, sum);
    }
    return most;
  };
  REQUIRE(decide(context, {}).max_received > 1400);
  const auto unlimited = make_lrmoe(settings, kNoMemoryLimit), limited = make_lrmoe(settings, 700.9);
  CHECK(decide_with(context, {unlimited.get()}).retained_rows == 4800);  // 4 * 150 * 2 * 4
  CHECK(received(decide_with(context, {limited.get()})) == 700);
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 2;
  const auto memfine = make_memfine(chunked, 0);
  CHECK(received(decide_with(context, {memfine.get(), limited.get()})) == 1401);  // floor(2 * 700.9)
  // The floor on retained rows wins: half of 4,800 rows over 4 members of which none may keep more than 10.
  settings.min_retained = 0.5;
  const auto floor = make_lrmoe(settings, 10);
  CHECK(decide_with(context, {floor.get()}).retained_rows >= 2400);
  CHECK(decide_with(context, {floor.get()}).retained_rows < 2400 + 4);
}

TEST_CASE("the seed changes which pairs are kept, not how many") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.min_rows = 16;
  const auto one = make_lrmoe(settings, kNoMemoryLimit), again = make_lrmoe(settings, kNoMemoryLimit);
  settings.seed = 2;
  const auto two = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision a = decide_with(context, {one.get()});
  const LayerDecision b = decide_with(context, {again.get()});
  const LayerDecision c = decide_with(context, {two.get()});
  CHECK(a.backward_rows[0].matrix == b.backward_rows[0].matrix);
  CHECK(a.retained_score == b.retained_score);
  CHECK(a.retained_rows == c.retained_rows);
  CHECK(a.retained_score != c.retained_score);
  CHECK(one->name() == "lrmoe");
}
