#include "memory/replay.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "memory/walk.h"

namespace moeplan::memory {

namespace {

std::int64_t sum(const plan::BytesByKind& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

plan::BytesByKind add(const plan::BytesByKind& a, const plan::BytesByKind& b) {
  plan::BytesByKind result{};
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = a[i] + b[i];
  return result;
}

struct Best {
  std::int64_t bytes = -1;
  std::size_t visit = 0, op = 0;
  plan::BytesByKind by_kind{};
};

bool is_step(const plan::Plan& plan, const plan::Visit& visit) {
  return plan.blocks[static_cast<std::size_t>(visit.block)].name == "optimizer";
}

}  // namespace

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::load:
      return "load";
    case Phase::first_iteration:
      return "first iteration";
    case Phase::first_optimizer_step:
      return "first optimizer step";
    case Phase::steady_iteration:
      return "steady iteration";
    case Phase::steady_optimizer_step:
      return "steady optimizer step";
    case Phase::kCount:
      break;
  }
  return "";
}

std::int64_t allocation_bytes(std::int64_t bytes) { return base::round_up(bytes, 512); }

RankMemory replay(const plan::Plan& plan, std::int64_t rank) {
  RankMemory memory;
  memory.rank = rank;
  memory.stage = plan.stage_of(rank);
  const plan::StaticMemory& statics = plan.statics[static_cast<std::size_t>(memory.stage)];
  const plan::BytesByKind steady = add(statics.load, statics.moments);
  memory.static_bytes = sum(steady);
  memory.outside_bytes = statics.context_bytes + statics.communicator_bytes + statics.dispatcher_bytes;

  // The first iteration and a steady one run the same ops over the same rows; they differ by the optimizer moments, so
  // one walk serves both.
  const plan::Program& program = plan.program_of(rank);
  Best iteration, step;
  Walk walk(plan, rank);
  std::size_t visit_now = program.visits.size();
  bool in_step = false;  // of visit_now
  walk.run([&](std::size_t v, std::size_t o, const Walk::Live& live) {
    if (v != visit_now) {
      visit_now = v;
      in_step = is_step(plan, program.visits[v]);
    }
    Best& best = in_step ? step : iteration;
    if (live.bytes > best.bytes) best = Best{live.bytes, v, o, live.by_kind};
    memory.host_bytes = std::max(memory.host_bytes, live.host_bytes);
    memory.routed_peak_bytes = std::max(memory.routed_peak_bytes, live.routed_bytes);
  });
  memory.host_bytes += statics.host_bytes;
  auto at = [&](Phase phase) -> std::int64_t& { return memory.phase_peak_bytes[static_cast<std::size_t>(phase)]; };
  const std::int64_t load = sum(statics.load);
  at(Phase::load) = load;
  at(Phase::first_iteration) = load + std::max<std::int64_t>(iteration.bytes, 0);
  at(Phase::first_optimizer_step) = memory.static_bytes + std::max<std::int64_t>(step.bytes, 0);
  at(Phase::steady_iteration) = memory.static_bytes + std::max<std::int64_t>(iteration.bytes, 0);
  at(Phase::steady_optimizer_step) = at(Phase::first_optimizer_step);

  std::size_t best_phase = 0;
  for (std::size_t phase = 1; phase < kPhases; ++phase)
    if (memory.phase_peak_bytes[phase] > memory.phase_peak_bytes[best_phase]) best_phase = phase;
  Peak& peak = memory.peak;
  peak.phase = static_cast<Phase>(best_phase);
  peak.allocated_bytes = memory.phase_peak_bytes[best_phase];
  const bool in_iteration = peak.phase == Phase::first_iteration || peak.phase == Phase::steady_iteration;
  const Best& best = in_iteration ? iteration : step;
  peak.by_kind = peak.phase == Phase::load || peak.phase == Phase::first_iteration ? statics.load : steady;
  if (peak.phase != Phase::load && best.bytes >= 0) {
    peak.by_kind = add(peak.by_kind, best.by_kind);
    const plan::Visit& visit = program.visits[best.visit];
    const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    const bool forward = visit.direction == schedule::Direction::forward;
    peak.op = plan::ops_of(block, visit.direction)[best.op].name;
    peak.layer = visit.layer;
    if (in_iteration) {
      peak.direction = forward ? "forward" : "backward";
      peak.microbatch = visit.microbatch;
    }
  }
  return memory;
}

std::vector<AliveTensor> alive_at_peak(const plan::Plan& plan, const RankMemory& memory) {
  std::map<std::pair<plan::TensorKind, std::string>, AliveTensor> by_name;
  auto count = [&](plan::TensorKind kind, const std::string& name, std::int64_t bytes) {
    if (bytes <= 0) return;
    AliveTensor& entry = by_name[{kind, name}];
    entry.kind = kind;
    entry.name = name;
    entry.bytes += bytes;
    ++entry.count;
  };
  const plan::StaticMemory& statics = plan.statics[static_cast<std::size_t>(memory.stage)];
  const bool moments = memory.peak.phase != Phase::load && memory.peak.phase != Phase::first_iteration;
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind)
    count(static_cast<plan::TensorKind>(kind), std::string(plan::tensor_kind_name(static_cast<plan::TensorKind>(kind))),
          statics.load[kind] + (moments ? statics.moments[kind] : 0));

  const std::int64_t transient =
      memory.peak.allocated_bytes - (moments ? memory.static_bytes : memory.phase_peak_bytes[0]);
  bool taken = transient <= 0;
  Walk walk(plan, memory.rank);
  walk.run([&](std::size_t, std::size_t, const Walk::Live& live) {
    if (taken || live.bytes != transient) return;
    taken = true;
    walk.each_live([&](const plan::Tensor& tensor, std::int64_t bytes) {
      // Chunks of one tensor are one row of the table.
      count(tensor.kind, tensor.name.substr(0, tensor.name.find(" (chunk ")), bytes);
    });
  });
  std::vector<AliveTensor> list;
  for (auto& [key, entry] : by_name) list.push_back(std::move(entry));
  std::stable_sort(list.begin(), list.end(),
                   [](const AliveTensor& a, const AliveTensor& b) { return a.bytes > b.bytes; });
  return list;
}

double closed_form_activation_bytes(const plan::Plan& plan, std::int64_t rank) {
  const auto& scenario = *plan.scenario;
  const std::int64_t stage = plan.stage_of(rank), member = plan.member_of(rank), group = plan.group_of(rank);
  const auto layer_ids = scenario.model.moe_layer_ids();
  const bool full = scenario.recompute.granularity == scenario::RecomputeGranularity::full;
  const bool module = scenario.recompute.granularity == scenario::RecomputeGranularity::selective &&
                      scenario.recompute.has(scenario::RecomputeModule::moe);
  std::vector<std::size_t> own_layers;
  for (std::size_t l = 0; l < layer_ids.size(); ++l)
    if (scenario.stages.holds(stage, layer_ids[l])) own_layers.push_back(l);
  double largest_chunk = 0, largest_sum = 0;
  bool kept = false;
  for (std::int64_t mb = 0; mb < scenario.microbatches(); ++mb) {
    double sum_of_layers = 0;
    for (const std::size_t l : own_layers) {
      const std::size_t number = plan.decision_number(static_cast<std::int64_t>(l), mb, group);
      const auto& decision = plan.decisions[number];
      const bool retained = decision.backward == policy::RoutedBackward::kept_retained;
      if (decision.backward == policy::RoutedBackward::kept || retained) kept = true;
      double rows = 0;
      const std::size_t chunks = (retained ? decision.backward_rows : decision.forward_rows).size();
      for (std::size_t chunk = 0; chunk < chunks; ++chunk)
        rows += static_cast<double>(plan.summed_rows(
            number, {plan::Rows::Kind::received, retained, static_cast<std::int16_t>(chunk)}, member, false));
      sum_of_layers += rows;
      largest_chunk = std::max(largest_chunk, rows / static_cast<double>(decision.chunks));
    }
    largest_sum = std::max(largest_sum, sum_of_layers);
  }
  const bool recomputed = full || module || !kept;
  return plan::closed_form_activation_bytes(scenario, stage, recomputed ? largest_chunk : largest_sum, recomputed);
}

std::vector<TimelinePoint> timeline(const plan::Plan& plan, std::int64_t rank) {
  std::vector<TimelinePoint> points;
  const RankMemory memory = replay(plan, rank);
  Walk walk(plan, rank);
  walk.run([&](std::size_t v, std::size_t o, const Walk::Live& live) {
    points.push_back({static_cast<std::int32_t>(v), static_cast<std::int32_t>(o), memory.static_bytes + live.bytes});
  });
  return points;
}

}  // namespace moeplan::memory
