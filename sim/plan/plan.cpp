#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "plan/replica_costs.h"

namespace moeplan::plan {

namespace {

// Runs work(i) for i in [0, count) on a few threads; results go to their own places, so the order does not matter. The
// first exception by index is rethrown.
template <class Work>
void parallel_for(std::size_t count, int threads, const Work& work) {
  const std::size_t workers = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), count);
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t failed_at = count;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> pool;
    for (std::size_t w = 0; w < workers; ++w)
      pool.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) {
          try {
            work(i);
          } catch (...) {
            const std::lock_guard lock(mutex);
            if (i < failed_at) {
              failed_at = i;
              failure = std::current_exception();
            }
          }
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
}

class Writer {
 public:
  explicit Writer(Plan& plan) : plan_(plan) {}

  void write() {
    const auto& scenario = *plan_.scenario;
    dense_ = add(make_dense_layer_block_if_needed());
    embedding_ = add(make_embedding_block(scenario, plan_.shape));
    head_ = add(make_head_block(scenario, plan_.shape));
    receive_ = add(make_receive_block(scenario, plan_.shape));
    send_ = add(make_send_block(scenario, plan_.shape));
    for (std::int64_t stage = 0; stage < scenario.layout.pp; ++stage) {
      const std::int32_t optimizer = add(make_optimizer_block(scenario, stage_parameters(scenario, stage)));
      for (std::int64_t group = 0; group < plan_.groups_per_stage(); ++group)
        plan_.programs.push_back(program(stage, group, optimizer));
    }
  }

 private:
  Block make_dense_layer_block_if_needed() {
    const auto& scenario = *plan_.scenario;
    if (scenario.model.moe_layer_count() == scenario.model.layer_count()) return Block{};
    return make_dense_layer_block(scenario, plan_.shape);
  }

  std::int32_t add(Block block) {
    plan_.blocks.push_back(std::move(block));
    return static_cast<std::int32_t>(plan_.blocks.size() - 1);
  }

  std::int32_t moe_block(const policy::LayerDecision& decision) {
    const Treatment treatment = treatment_of(decision);
    const auto found = moe_blocks_.find(treatment);
    if (found != moe_blocks_.end()) return found->second;
    const std::int32_t index = add(make_moe_layer_block(*plan_.scenario, plan_.shape, treatment));
    moe_blocks_.emplace(treatment, index);
    return index;
  }

  Program program(std::int64_t stage, std::int64_t group, std::int32_t optimizer) {
    const auto& scenario = *plan_.scenario;
    const std::int64_t per_stage = scenario.layers_per_stage();
    const bool first = stage == 0, last = stage == scenario.layout.pp - 1;
    Program program;
    program.stage = stage;
    // One entry a block of the stage, in forward order; `layer` of the others is -1.
    struct Entry {
      std::int32_t block, layer, moe_layer;
    };
    std::vector<Entry> entries;
    if (first)
      entries.push_back({embedding_, -1, -1});
    else
      entries.push_back({receive_, -1, -1});
    std::int32_t moe_layer = 0;
    for (std::int64_t l = 0; l < stage * per_stage; ++l)
      if (scenario.model.layers[static_cast<std::size_t>(l)] == model::LayerKind::moe) ++moe_layer;
    for (std::int64_t l = stage * per_stage; l < (stage + 1) * per_stage; ++l) {
      const bool moe = scenario.model.layers[static_cast<std::size_t>(l)] == model::LayerKind::moe;
      entries.push_back({dense_, static_cast<std::int32_t>(l), moe ? moe_layer++ : -1});
    }
    entries.push_back({last ? head_ : send_, -1, -1});
    program.slots = static_cast<std::int64_t>(entries.size());

    const auto* schedule = schedule::find_schedule(scenario.training.schedule);
    MOEPLAN_CHECK(schedule != nullptr, "schedule was checked when the scenario was read");
    for (const schedule::Slot& slot : schedule->slots(stage, scenario.layout.pp, scenario.microbatches())) {
      const auto visit = [&](std::size_t i) {
        const Entry& entry = entries[i];
        Visit v;
        v.block =
            entry.moe_layer >= 0 ? moe_block(plan_.decision(entry.moe_layer, slot.microbatch, group)) : entry.block;
        v.direction = slot.direction;
        v.slot = static_cast<std::int32_t>(i);
        v.layer = entry.layer;
        v.moe_layer = entry.moe_layer;
        v.microbatch = static_cast<std::int32_t>(slot.microbatch);
        program.visits.push_back(v);
      };
      if (slot.direction == schedule::Direction::forward)
        for (std::size_t i = 0; i < entries.size(); ++i) visit(i);
      else
        for (std::size_t i = entries.size(); i-- > 0;) visit(i);
    }
    Visit step;
    step.block = optimizer;
    step.slot = static_cast<std::int32_t>(program.slots++);
    program.visits.push_back(step);
    return program;
  }

  Plan& plan_;
  std::int32_t dense_ = 0, embedding_ = 0, head_ = 0, receive_ = 0, send_ = 0;
  std::map<Treatment, std::int32_t> moe_blocks_;
};

std::vector<std::unique_ptr<policy::Policy>> stage_policies(const scenario::Scenario& scenario, std::int64_t stage) {
  std::vector<std::unique_ptr<policy::Policy>> list;
  if (scenario.policies.capacity) list.push_back(policy::make_capacity(*scenario.policies.capacity));
  if (scenario.policies.memfine)
    list.push_back(policy::make_memfine(*scenario.policies.memfine,
                                        memfine_max_rows(scenario, *scenario.policies.memfine, stage)));
  if (scenario.policies.lrmoe)
    list.push_back(policy::make_lrmoe(*scenario.policies.lrmoe, lrmoe_memory_rows(scenario, stage),
                                      replica_costs(scenario, stage)));
  return list;
}

void decide_all(Plan& plan, int threads) {
  const auto& scenario = *plan.scenario;
  const auto& layout = scenario.layout;
  const std::int64_t moe_layers = scenario.model.moe_layer_count(), microbatches = scenario.microbatches(),
                     groups = plan.groups_per_stage();
  if (moe_layers == 0) return;
  std::vector<std::vector<std::unique_ptr<policy::Policy>>> by_stage;
  for (std::int64_t stage = 0; stage < layout.pp; ++stage) by_stage.push_back(stage_policies(scenario, stage));
  const std::vector<int> layer_ids = scenario.model.moe_layer_ids();
  plan.decisions.resize(static_cast<std::size_t>(moe_layers * microbatches * groups));
  const std::int64_t slice = scenario.training.seq_length / (layout.tp * layout.cp);
  parallel_for(plan.decisions.size(), threads, [&](std::size_t index) {
    const auto i = static_cast<std::int64_t>(index);
    policy::GroupContext context;
    context.loads = scenario.loads.get();
    context.iteration = plan.iteration;
    context.group = i % groups;
    context.microbatch = i / groups % microbatches;
    context.moe_layer = i / groups / microbatches;
    context.experts = scenario.model.moe.experts;
    context.top_k = scenario.model.moe.top_k;
    const std::int64_t stage = layer_ids[static_cast<std::size_t>(context.moe_layer)] / scenario.layers_per_stage();
    for (std::int64_t member = 0; member < layout.ep; ++member) {
      const auto place = layout.place(stage * layout.stage_size() + context.group * layout.ep + member);
      context.sources.push_back({place.dp, place.tp * slice, (place.tp + 1) * slice});
    }
    std::vector<const policy::Policy*> policies;
    for (const auto& p : by_stage[static_cast<std::size_t>(stage)]) policies.push_back(p.get());
    plan.decisions[index] = policy::decide(context, policies);
  });
}

}  // namespace

const Program& Plan::program_of(std::int64_t rank) const { return programs[static_cast<std::size_t>(group_of(rank))]; }

const policy::LayerDecision& Plan::decision(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const {
  const std::int64_t groups = groups_per_stage();
  return decisions[static_cast<std::size_t>((moe_layer * scenario->microbatches() + microbatch) * groups +
                                            group % groups)];
}

std::int64_t Plan::rows(const Rows& which, const Visit& visit, std::int64_t rank) const {
  if (which.kind == Rows::Kind::none) return 0;
  const auto& d = decision(visit.moe_layer, visit.microbatch, group_of(rank));
  if (which.kind == Rows::Kind::hosted) return d.extra_instances(member_of(rank));
  if (which.kind == Rows::Kind::lent) return d.lent_instances(member_of(rank));
  const auto& chunks = which.backward ? d.rows_of_backward() : d.forward_rows;
  const auto& rows = chunks[static_cast<std::size_t>(which.chunk)];
  return which.kind == Rows::Kind::received ? rows.received(member_of(rank)) : rows.sent(member_of(rank));
}

std::int64_t Plan::bytes(const Size& size, const Visit& visit, std::int64_t rank) const {
  return size.bytes + (size.bytes_per_row == 0 ? 0 : size.bytes_per_row * rows(size.rows, visit, rank));
}

Plan make_plan(std::shared_ptr<const scenario::Scenario> scenario, std::int64_t iteration, int threads) {
  Plan plan{.scenario = scenario,
            .shape = make_shape(*scenario),
            .cluster = topology::Cluster(scenario->hardware, scenario->layout.world),
            .iteration = iteration,
            .blocks = {},
            .programs = {},
            .statics = {},
            .memfine_max_rows = {},
            .decisions = {}};
  for (std::int64_t stage = 0; stage < scenario->layout.pp; ++stage) {
    plan.statics.push_back(static_memory(*scenario, stage));
    if (scenario->policies.memfine)
      plan.memfine_max_rows.push_back(memfine_max_rows(*scenario, *scenario->policies.memfine, stage));
  }
  decide_all(plan, threads);
  Writer(plan).write();
  return plan;
}

}  // namespace moeplan::plan
