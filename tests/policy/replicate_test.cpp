#include "policy/replicate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "policy/memfine.h"
#include "small_loads.h"

using namespace moeplan;
using namespace moeplan::policy;
using moeplan::policy::test::context_of;
using moeplan::policy::test::SkewedLoads;
using moeplan::policy::test::WrittenLoads;

namespace {

routing::StepShape skewed_shape() {
  routing::StepShape shape;
  shape.seq_length = 150;
  shape.micro_batch_size = 2;
  shape.data_parallel = 4;
  shape.microbatches = 1;
  shape.moe_layers = 1;
  shape.experts = 16;
  shape.top_k = 4;
  return shape;
}

LrmoeSettings greedy(LrmoeSettings::Mode mode, std::int64_t max_instances = 2) {
  LrmoeSettings settings;
  settings.mode = mode;
  settings.replicas = LrmoeSettings::Replicas::greedy;
  settings.max_instances = max_instances;
  settings.min_rows = 16;
  return settings;
}
constexpr auto kA = LrmoeSettings::Mode::kept;
constexpr auto kB = LrmoeSettings::Mode::redispatch;

RowCaps no_memory_limit(std::int64_t rows) {
  RowCaps caps;
  caps.compute_rows = rows;
  return caps;
}

LayerDecision decide_with(const GroupContext& context, const std::vector<const Policy*>& policies) {
  return decide(context, policies);
}

// Two members, two experts each; all rows of 800 + 0 + 100 + 100 come half from each member.
const std::vector<std::int64_t> kHotCounts = {400, 0, 50, 50, 400, 0, 50, 50};

}  // namespace

TEST_CASE("rows on one host each are placed at home, byte for byte") {
  const SkewedLoads loads(skewed_shape(), 2, 5);
  const std::vector<std::int64_t> counts = chunk_counts(context_of(loads, 4), 0, 1);
  const RoutedRows rows = place_on_hosts(counts, home_hosts(4, 16), 4, 0);
  const RoutedRows home = place_at_home(counts, 4, 16);
  CHECK(rows.matrix == home.matrix);
  CHECK(rows.instance_rows == home.instance_rows);
  CHECK(rows.instance_begin == home.instance_begin);
  CHECK(rows.instance_experts.empty());
  CHECK(rows.expert_of(5) == 5);
}

TEST_CASE("an instance takes its own member's rows first, then those of its node") {
  // Four members on two nodes, one expert each. Expert 0 has 8 rows, two from each member; the others have none. Hosts
  // 0 and 2 share them: four each. Host 0 takes 2 of its own and 2 of member 1, host 2 its own and member 3's.
  std::vector<std::int64_t> counts(16, 0);
  for (std::size_t source = 0; source < 4; ++source) counts[source * 4] = 2;
  Hosts hosts = home_hosts(4, 4);
  hosts[0] = {0, 2};
  const RoutedRows rows = place_on_hosts(counts, hosts, 4, 2);
  CHECK(rows.matrix == std::vector<std::int32_t>{2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0});
  // Instances: expert 0 on member 0; 1 on 1; 2 and the guest 0 on 2; 3 on 3.
  CHECK(rows.instance_begin == std::vector<std::int32_t>{0, 1, 2, 4, 5});
  CHECK(rows.instance_experts == std::vector<std::int32_t>{0, 1, 2, 0, 3});
  CHECK(rows.instance_rows == std::vector<std::int64_t>{4, 0, 0, 4, 0});
  CHECK(rows.expert_of(3) == 0);
  CHECK(replica_matrix(hosts, 4) == std::vector<std::int32_t>{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(replica_matrix(home_hosts(4, 4), 4).empty());
}

TEST_CASE("a hot expert gets an instance on the emptier member") {
  // Loads 800 and 200: with an instance of expert 0 on member 1 both have 500.
  const Hosts hosts = replicate_greedily(kHotCounts, 2, greedy(kB), {}, no_memory_limit(550));
  CHECK(hosts == Hosts{{0, 1}, {0}, {1}, {1}});
  CHECK(extra_instances_of(hosts, 2) == std::vector<std::int64_t>{0, 1});
  const RoutedRows rows = place_on_hosts(kHotCounts, hosts, 2, 0);
  CHECK(rows.received(0) == 500);
  CHECK(rows.received(1) == 500);
  // Of the 800, 500 stay at home: 400 of member 0 and 100 of member 1, whose other 300 stay with its new instance.
  CHECK(rows.matrix == std::vector<std::int32_t>{400, 100, 100, 400});
}

TEST_CASE("an instance is accepted where the rows it saves take longer than its transfers") {
  // Forward: largest load 800 -> 500. Backward under a cap of 550: 550 -> 500. Gain: 300 + 50 rows of 1 us = 350 us.
  // Mode B sends weights twice and gradients once: 2 * 100 + 150 = 350 bytes; at 1e6 bytes/s 350 us, not less.
  ReplicaCosts costs;
  costs.forward_row_s = costs.backward_row_s = 1e-6;
  costs.weight_bytes = 100;
  costs.gradient_bytes = 150;
  costs.bytes_per_s = 0.99e6;
  CHECK(replicate_greedily(kHotCounts, 2, greedy(kB), costs, no_memory_limit(550)) == home_hosts(2, 4));
  costs.bytes_per_s = 1.01e6;
  CHECK(replicate_greedily(kHotCounts, 2, greedy(kB), costs, no_memory_limit(550)) != home_hosts(2, 4));
  // Mode A sends weights once: 250 bytes.
  costs.bytes_per_s = 0.72e6;
  CHECK(replicate_greedily(kHotCounts, 2, greedy(kA), costs, no_memory_limit(550)) != home_hosts(2, 4));
  costs.bytes_per_s = 0.71e6;
  CHECK(replicate_greedily(kHotCounts, 2, greedy(kA), costs, no_memory_limit(550)) == home_hosts(2, 4));
}

TEST_CASE("an instance that takes more rows of memory than it lets be kept is not accepted") {
  // Memory for 500 rows a member: at home 500 + 200 are kept. With an instance of x rows on member 1: 500 + (500 - x).
  // The group keeps no fewer while x <= 300.
  RowCaps caps = no_memory_limit(10000);
  caps.memory_rows = 500;
  LrmoeSettings settings = greedy(kB);
  settings.min_retained = 0.01;
  caps.instance_rows = 300;
  CHECK(replicate_greedily(kHotCounts, 2, settings, {}, caps) != home_hosts(2, 4));
  caps.instance_rows = 301;
  CHECK(replicate_greedily(kHotCounts, 2, settings, {}, caps) == home_hosts(2, 4));
  // And none that does not fit at all.
  CHECK(caps.admits(1));
  CHECK_FALSE(caps.admits(2));
  CHECK(caps.of(std::vector<std::int64_t>{0, 1}) == std::vector<std::int64_t>{500, 199});
}

TEST_CASE("no member hosts more instances than it may, and every list starts at home") {
  for (int number = 0; number < 12; ++number) {
    const SkewedLoads loads(skewed_shape(), 1 + number % 4, static_cast<std::uint64_t>(number));
    const std::vector<std::int64_t> counts = chunk_counts(context_of(loads, 4), 0, 1);
    const std::int64_t slots = 1 + number % 3;
    const Hosts hosts = replicate_greedily(counts, 4, greedy(kB, slots), {}, no_memory_limit(1320));
    for (const std::int64_t extra : extra_instances_of(hosts, 4)) REQUIRE(extra <= slots);
    for (std::size_t e = 0; e < hosts.size(); ++e) {
      REQUIRE(hosts[e].front() == static_cast<std::int32_t>(e / 4));
      for (std::size_t i = 1; i < hosts[e].size(); ++i) {
        REQUIRE(hosts[e][i] != hosts[e].front());
        if (i > 1) REQUIRE(hosts[e][i] > hosts[e][i - 1]);
      }
    }
  }
}

TEST_CASE("rows go to hosts of their expert alone, none is lost, forward and backward, in both modes") {
  bool replicated = false;
  for (int number = 0; number < 24; ++number) {
    const SkewedLoads loads(skewed_shape(), 1 + number % 4, static_cast<std::uint64_t>(number),
                            number % 3 == 0 ? 4 : 0);
    GroupContext context = context_of(loads, 4);
    context.sources[3].begin = 40;
    const std::vector<std::int64_t> counts = chunk_counts(context, 0, 1);
    LrmoeSettings settings = greedy(number % 2 == 0 ? kA : kB);
    settings.tau = 0.8 + 0.1 * (number % 5);
    ReplicaCosts costs;
    costs.members_per_node = number % 4 == 0 ? 2 : 0;
    costs.instance_rows = 40;
    const auto lrmoe = make_lrmoe(settings, number % 3 == 1 ? 1200 : 0, costs);
    MemfineSettings chunked;
    chunked.rule = MemfineSettings::Rule::fixed;
    chunked.chunks = 1 + number % 3;
    const auto memfine = make_memfine(chunked, 0);
    const LayerDecision decision = decide_with(context, {memfine.get(), lrmoe.get()});
    const LayerDecision again = decide_with(context, {memfine.get(), lrmoe.get()});
    std::vector<std::int64_t> forward(16, 0), backward(16, 0), sent(4, 0);
    for (std::size_t chunk = 0; chunk < decision.forward_rows.size(); ++chunk) {
      const RoutedRows& f = decision.forward_rows[chunk];
      const RoutedRows& b = decision.backward_rows[chunk];
      REQUIRE(f.matrix == again.forward_rows[chunk].matrix);
      REQUIRE(b.matrix == again.backward_rows[chunk].matrix);
      for (std::int64_t member = 0; member < 4; ++member) {
        for (const RoutedRows* rows : {&f, &b}) {
          const auto on = rows->rows_on(member);
          REQUIRE(std::accumulate(on.begin(), on.end(), std::int64_t{0}) == rows->received(member));
          const std::int64_t first = rows->instance_begin[static_cast<std::size_t>(member)];
          std::int64_t guests = 0;
          for (std::size_t i = 0; i < on.size(); ++i) {
            const std::int64_t expert = rows->expert_of(first + static_cast<std::int64_t>(i));
            if (expert / 4 != member) ++guests;
            (rows == &f ? forward : backward)[static_cast<std::size_t>(expert)] += on[i];
          }
          REQUIRE(guests == decision.extra_instances(member));
          REQUIRE(guests <= 2);
        }
        sent[static_cast<std::size_t>(member)] += f.sent(member);
      }
      if (settings.mode == kA) {  // retained rows stay where forward computed them
        for (std::size_t i = 0; i < f.matrix.size(); ++i) REQUIRE(b.matrix[i] <= f.matrix[i]);
        for (std::size_t i = 0; i < f.instance_rows.size(); ++i) REQUIRE(b.instance_rows[i] <= f.instance_rows[i]);
      }
    }
    std::vector<std::int64_t> by_expert(16, 0), by_source(4, 0);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      by_expert[i % 16] += counts[i];
      by_source[i / 16] += counts[i];
    }
    REQUIRE(forward == by_expert);
    REQUIRE(sent == by_source);
    for (std::size_t e = 0; e < 16; ++e) REQUIRE(backward[e] <= forward[e]);
    REQUIRE(static_cast<double>(std::accumulate(backward.begin(), backward.end(), std::int64_t{0})) ==
            decision.retained_rows);
    REQUIRE(decision.retained_rows >= 0.5 * decision.routed_rows - 1);
    std::int64_t hosted = 0, lent = 0;
    for (std::int64_t member = 0; member < 4; ++member) {
      hosted += decision.extra_instances(member);
      lent += decision.lent_instances(member);
    }
    REQUIRE(hosted == lent);
    replicated = replicated || hosted > 0;
  }
  CHECK(replicated);
}

TEST_CASE("instances lower the largest load of forward, and where nothing is replicated the decision is as without") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings plain = greedy(kB);
  plain.replicas = LrmoeSettings::Replicas::none;
  const auto without = make_lrmoe(plain, kNoMemoryLimit), with = make_lrmoe(greedy(kB), kNoMemoryLimit);
  const LayerDecision a = decide_with(context, {without.get()}), b = decide_with(context, {with.get()});
  CHECK(b.max_received < a.max_received);
  CHECK(b.retained_rows >= a.retained_rows);
  CHECK(b.plan_placement);
  CHECK_FALSE(a.plan_placement);
  ReplicaCosts slow;
  slow.forward_row_s = slow.backward_row_s = 1e-9;
  slow.weight_bytes = slow.gradient_bytes = 1e9;
  slow.bytes_per_s = 1e9;
  const auto never = make_lrmoe(greedy(kB), kNoMemoryLimit, slow);
  const LayerDecision c = decide_with(context, {never.get()});
  CHECK(c.replicas.empty());
  CHECK(c.forward_rows[0].matrix == a.forward_rows[0].matrix);
  CHECK(c.backward_rows[0].matrix == a.backward_rows[0].matrix);
  CHECK(c.backward_rows[0].instance_rows == a.backward_rows[0].instance_rows);
  CHECK(c.retained_score == a.retained_score);
}

TEST_CASE("mode A selects by the router weight alone, mode B with sigma 0 picks the same pairs") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.min_rows = 16;
  settings.mode = kA;
  settings.score_sigma = 0.5;
  const auto kept = make_lrmoe(settings, kNoMemoryLimit);
  settings.mode = kB;
  const auto noisy = make_lrmoe(settings, kNoMemoryLimit);
  settings.score_sigma = 0;
  const auto plain = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision a = decide_with(context, {kept.get()});
  CHECK(a.backward == RoutedBackward::kept_retained);
  CHECK(a.select);
  CHECK(a.retained_rows < a.routed_rows);
  CHECK(a.backward_rows[0].matrix == decide_with(context, {plain.get()}).backward_rows[0].matrix);
  CHECK(a.retained_score == decide_with(context, {plain.get()}).retained_score);
  CHECK(a.total_score != decide_with(context, {noisy.get()}).total_score);
}

TEST_CASE("memory caps rows of all chunks together where forward keeps them") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.mode = kA;
  settings.tau = 100;
  settings.min_rows = 1;
  settings.min_retained = 0.01;
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 2;
  const auto memfine = make_memfine(chunked, 0);
  const auto lrmoe = make_lrmoe(settings, 700);
  const LayerDecision decision = decide_with(context, {memfine.get(), lrmoe.get()});
  std::int64_t most = 0;
  for (std::int64_t member = 0; member < 4; ++member) {
    std::int64_t rows = 0;
    for (const RoutedRows& chunk : decision.backward_rows) rows += chunk.received(member);
    most = std::max(most, rows);
  }
  CHECK(most == 700);
}

TEST_CASE("rows that members hold already count in the levels that routing evens out") {
  // Ten rows over hosts 0 and 1, of which host 0 holds four: 3 and 7 make both 7.
  const std::vector<std::int64_t> rows = {10}, held = {4, 0};
  CHECK(capacity_aware_routing(rows, Hosts{{0, 1}}, 2, held) == std::vector<std::vector<std::int64_t>>{{3, 7}});
  // Caps 8 and 4 of at most 10 rows: the second counts as filled by 4, a cap above all rows as all rows.
  CHECK(cap_levels(std::vector<std::int64_t>{8, 4}, 10) == std::vector<std::int64_t>{0, 4});
  CHECK(cap_levels(std::vector<std::int64_t>{std::int64_t{1} << 62, 4}, 10) == std::vector<std::int64_t>{0, 6});
}
