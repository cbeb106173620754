#include <doctest/doctest.h>

#include <algorithm>

#include "plan/blocks.h"
#include "plan/plan.h"
#include "plan/side_streams.h"
#include "plan/write_programs.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

plan::Op op(const char* name, plan::Stream stream = plan::Stream::compute) {
  plan::Op result;
  result.name = name;
  result.stream = stream;
  return result;
}

// Names of the ops of merged visits, in order.
std::string order(const std::vector<plan::Visit>& visits, const std::vector<plan::Block>& blocks) {
  std::string text;
  for (const auto& visit : visits) {
    const auto& block = blocks[static_cast<std::size_t>(visit.block)];
    const auto& ops = visit.direction == schedule::Direction::forward ? block.forward : block.backward;
    for (std::size_t o = visit.first_op; o < std::min<std::size_t>(visit.end_op, ops.size()); ++o)
      text += (text.empty() ? "" : " ") + ops[o].name;
  }
  return text;
}

std::shared_ptr<scenario::Scenario> overlapping(Small small) {
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->dispatch.overlap = true;
  return scenario;
}

}  // namespace

TEST_CASE("two microbatches take turns at every exchange, the backward one first") {
  plan::Block block;
  block.forward = {op("router"), op("dispatch", plan::Stream::ep), op("experts"), op("combine", plan::Stream::ep),
                   op("add")};
  block.backward = {op("combine-b", plan::Stream::ep), op("experts-b"), op("dispatch-b", plan::Stream::ep),
                    op("router-b")};
  plan::Visit forward, backward;
  backward.direction = schedule::Direction::backward;
  CHECK(order(plan::take_turns({forward}, {backward}, {block}), {block}) ==
        "combine-b router dispatch experts-b dispatch-b experts combine router-b add");
  // What runs beside an exchange is issued with it; a notify that the host reads is no turn.
  block.backward[3].beside_exchange = true;
  block.forward[1].host_sync = true;
  CHECK(order(plan::take_turns({forward}, {backward}, {block}), {block}) ==
        "combine-b router dispatch experts combine experts-b dispatch-b router-b add");
}

TEST_CASE("an exchange at the end of a visit gives the turn with the next visit, and no op is lost or doubled") {
  plan::Block block;
  block.forward = {op("a"), op("x", plan::Stream::ep)};
  plan::Visit first, second;
  second.microbatch = 1;
  plan::Visit backward;
  backward.direction = schedule::Direction::backward;
  block.backward = {op("b")};
  CHECK(order(plan::take_turns({first, second}, {backward}, {block}), {block}) == "b a x a x");
}

TEST_CASE("one more forward runs ahead, and every op of the program runs once as without turns") {
  Small small;  // pp 1: 1F1B without overlap runs F0 B0 F1 B1
  const auto plain = plan::make_plan(small.make(), 0, 1), merged = plan::make_plan(overlapping(small), 0, 1);
  const auto count = [](const plan::Plan& plan) {
    std::size_t ops = 0;
    for (const auto& visit : plan.programs[0].visits) {
      const auto& block = plan.blocks[static_cast<std::size_t>(visit.block)];
      const auto& list = visit.direction == schedule::Direction::forward ? block.forward : block.backward;
      ops += std::min<std::size_t>(visit.end_op, list.size()) - visit.first_op;
    }
    return ops;
  };
  CHECK(count(plain) == count(merged));
  const auto slots = plan::stage_slots(*merged.scenario, 0);
  CHECK(slots[0].direction == schedule::Direction::forward);
  CHECK(slots[1].direction == schedule::Direction::forward);
  CHECK(slots[2].direction == schedule::Direction::backward);
  CHECK(slots[2].microbatch == 0);
  CHECK(schedule::most_in_flight(slots) == 2);
}

TEST_CASE("delayed weight gradients of experts run beside the exchange behind them") {
  const auto scenario = Small().make();
  plan::Block block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
  const std::size_t ops = block.backward.size();
  plan::delay_expert_wgrads(block);
  REQUIRE(block.backward.size() == ops);
  std::size_t exchange = 0;
  while (block.backward[exchange].name != "dispatch backward") ++exchange;
  CHECK(block.backward[exchange + 1].name == "expert down wgrad");
  CHECK(block.backward[exchange + 2].name == "expert gate-up wgrad");
  CHECK(block.backward[exchange + 1].beside_exchange);
}

TEST_CASE("edges of a step: parameters arrive with the first forward, gradients leave with the last backward") {
  Small small;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.overlap_grad_reduce = scenario->training.overlap_param_gather = true;
  const auto plan = plan::make_plan(scenario, 0, 1);
  const auto bytes = [&](const plan::Visit& visit, plan::Stream stream) {
    const auto& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    std::int64_t sum = 0;
    for (const auto& o : visit.direction == schedule::Direction::forward ? block.forward : block.backward)
      if (o.stream == stream) sum += o.size.bytes;
    return sum;
  };
  std::int64_t gathered = 0, reduced = 0;
  const std::int64_t last = scenario->microbatches() - 1;
  for (const auto& visit : plan.programs[0].visits) {
    const auto g = bytes(visit, plan::Stream::gather), r = bytes(visit, plan::Stream::reduce);
    if (g > 0) CHECK((visit.microbatch == 0 && visit.direction == schedule::Direction::forward));
    if (r > 0) CHECK((visit.microbatch == last && visit.direction == schedule::Direction::backward));
    gathered += g;
    reduced += r;
  }
  // All parameters but the final norm (64), once each: 2 bytes gathered, 4 reduced.
  const auto p = plan::stage_parameters(*scenario, 0);
  CHECK(gathered == 2 * (p.dense + p.experts - 64));
  CHECK(reduced == 4 * (p.dense + p.experts - 64));
}
