#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/checked.h"
#include "model/parameters.h"
#include "plan/replica_costs.h"
#include "plan/side_streams.h"

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

// MoE layers with those of the MTP blocks behind them: every one has its own decisions.
std::int64_t routed_layers(const scenario::Scenario& scenario) {
  const bool mtp_routes = scenario.model.mtp_layers > 0 && scenario.model.mtp_kind() == model::LayerKind::moe;
  return scenario.model.moe_layer_count() + (mtp_routes ? scenario.model.mtp_layers : 0);
}

class Writer {
 public:
  explicit Writer(Plan& plan) : plan_(plan) {}

  void write() {
    const auto& scenario = *plan_.scenario;
    const std::int64_t vocabulary = plan_.shape.vocab_rank * scenario.model.hidden;
    embedding_ = add(finished(make_embedding_block(scenario, plan_.shape), {vocabulary, 0}));
    head_ = add(finished(make_head_block(scenario, plan_.shape), {vocabulary, 0}));
    receive_ = add(finished(make_receive_block(scenario, plan_.shape), {}));
    send_ = add(finished(make_send_block(scenario, plan_.shape), {}));
    if (scenario.model.mtp_layers > 0)
      mtp_ =
          add(finished(make_mtp_block(scenario, plan_.shape), {2 * scenario.model.hidden * scenario.model.hidden, 0}));
    for (std::int64_t stage = 0; stage < scenario.layout.pp; ++stage) {
      const std::int32_t optimizer = add(
          make_optimizer_block(scenario, stage_parameters(scenario, stage), stage_linear_parameters(scenario, stage)));
      for (std::int64_t group = 0; group < plan_.groups_per_stage(); ++group)
        plan_.programs.push_back(program(stage, group, optimizer));
    }
  }

 private:
  // One block of a virtual stage, in forward order; `layer` of blocks that are no layer is -1, `moe_layer` of those
  // that route nothing.
  struct Entry {
    std::int32_t block = -1, layer = -1, moe_layer = -1;
    LayerTraits traits{};
  };

  std::int32_t add(Block block) {
    plan_.blocks.push_back(std::move(block));
    return static_cast<std::int32_t>(plan_.blocks.size() - 1);
  }

  Block finished(Block block, const BlockParameters& parameters) {
    offload_activations(block, *plan_.scenario);
    divide_parameters(block, *plan_.scenario, parameters);
    capture_graphs(block, *plan_.scenario);
    return block;
  }

  BlockParameters layer_parameters(model::LayerKind kind) const {
    const auto& layout = plan_.scenario->layout;
    const auto p = model::rank_layer_parameters(plan_.scenario->model, kind, {layout.tp, layout.ep, layout.etp});
    return {p.dense, p.experts};
  }

  std::int32_t dense_block(const LayerTraits& traits) {
    const auto found = dense_blocks_.find(traits);
    if (found != dense_blocks_.end()) return found->second;
    return dense_blocks_[traits] = add(finished(make_dense_layer_block(*plan_.scenario, plan_.shape, traits),
                                                layer_parameters(model::LayerKind::dense)));
  }

  std::int32_t moe_block(const policy::LayerDecision& decision, const LayerTraits& traits) {
    const auto key = std::make_pair(traits, treatment_of(decision));
    const auto found = moe_blocks_.find(key);
    if (found != moe_blocks_.end()) return found->second;
    return moe_blocks_[key] = add(finished(make_moe_layer_block(*plan_.scenario, plan_.shape, key.second, traits),
                                           layer_parameters(model::LayerKind::moe)));
  }

  std::vector<Entry> entries_of(const scenario::StageChunk& chunk) {
    const auto& model = plan_.scenario->model;
    std::vector<Entry> entries;
    entries.push_back({chunk.embedding ? embedding_ : receive_});
    const auto layer_entry = [&](std::int32_t layer, model::LayerKind kind, std::int32_t moe_layer,
                                 const LayerTraits& traits) {
      if (kind == model::LayerKind::moe) return Entry{-1, layer, moe_layer, traits};
      return Entry{dense_block(traits), layer, -1, traits};
    };
    const auto& block_layers = plan_.scenario->recompute.block_layers;
    std::int64_t position = 0;  // in the virtual stage
    const auto traits_of = [&](std::size_t layer) {
      return LayerTraits{model.window(layer), block_layers && position++ >= *block_layers};
    };
    for (const std::int32_t layer : chunk.layers) {
      const auto kind = model.layers[static_cast<std::size_t>(layer)];
      const auto before = std::count(model.layers.begin(), model.layers.begin() + layer, model::LayerKind::moe);
      entries.push_back(
          layer_entry(layer, kind, static_cast<std::int32_t>(before), traits_of(static_cast<std::size_t>(layer))));
    }
    for (std::int32_t m = 0; m < chunk.mtp; ++m) {
      entries.push_back({mtp_});
      entries.push_back(layer_entry(static_cast<std::int32_t>(model.layer_count()) + m, model.mtp_kind(),
                                    static_cast<std::int32_t>(model.moe_layer_count()) + m,
                                    traits_of(model.layers.size() - 1)));
      entries.push_back({head_});
    }
    entries.push_back({chunk.loss ? head_ : send_});
    return entries;
  }

  Program program(std::int64_t stage, std::int64_t group, std::int32_t optimizer) {
    const auto& scenario = *plan_.scenario;
    Program program;
    program.stage = stage;
    std::vector<std::vector<Entry>> chunks;
    std::vector<std::int32_t> first_slot;
    for (std::int64_t v = 0; v < scenario.stages.vpp(); ++v) {
      chunks.push_back(entries_of(scenario.stages.chunk(stage, v)));
      first_slot.push_back(static_cast<std::int32_t>(program.slots));
      program.slots += static_cast<std::int64_t>(chunks.back().size());
    }
    const auto* schedule = schedule::find_schedule(scenario.training.schedule);
    MOEPLAN_CHECK(schedule != nullptr, "schedule was checked when the scenario was read");
    for (const schedule::Slot& slot :
         schedule->slots(stage, scenario.layout.pp, scenario.microbatches(), scenario.stages.vpp())) {
      const auto chunk = static_cast<std::size_t>(slot.chunk);
      const auto visit = [&](std::size_t i) {
        const Entry& entry = chunks[chunk][i];
        Visit v;
        v.block = entry.moe_layer >= 0
                      ? moe_block(plan_.decision(entry.moe_layer, slot.microbatch, group), entry.traits)
                      : entry.block;
        v.direction = slot.direction;
        v.slot = first_slot[chunk] + static_cast<std::int32_t>(i);
        v.layer = entry.layer;
        v.moe_layer = entry.moe_layer;
        v.microbatch = static_cast<std::int32_t>(slot.microbatch);
        program.visits.push_back(v);
      };
      if (slot.direction == schedule::Direction::forward)
        for (std::size_t i = 0; i < chunks[chunk].size(); ++i) visit(i);
      else
        for (std::size_t i = chunks[chunk].size(); i-- > 0;) visit(i);
    }
    Visit step;
    step.block = optimizer;
    step.slot = static_cast<std::int32_t>(program.slots++);
    program.visits.push_back(step);
    return program;
  }

  Plan& plan_;
  std::int32_t embedding_ = 0, head_ = 0, receive_ = 0, send_ = 0, mtp_ = -1;
  std::map<LayerTraits, std::int32_t> dense_blocks_;
  std::map<std::pair<LayerTraits, Treatment>, std::int32_t> moe_blocks_;
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

std::int64_t mtp_stage(const scenario::Scenario& scenario) {
  for (std::int64_t stage = 0; stage < scenario.layout.pp; ++stage)
    if (scenario.stages.mtp_on(stage) > 0) return stage;
  MOEPLAN_CHECK(false, "MTP blocks have a stage");
}

void decide_all(Plan& plan, int threads) {
  const auto& scenario = *plan.scenario;
  const auto& layout = scenario.layout;
  const std::int64_t moe_layers = routed_layers(scenario), microbatches = scenario.microbatches(),
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
    const std::int64_t routed = i / groups / microbatches;
    // An MTP block routes like the last layer: traces have no rows of its own.
    context.moe_layer = std::min(routed, scenario.model.moe_layer_count() - 1);
    context.experts = scenario.model.moe.experts;
    context.top_k = scenario.model.moe.top_k;
    const std::int64_t stage = routed < scenario.model.moe_layer_count()
                                   ? scenario.stages.stage_of_layer(layer_ids[static_cast<std::size_t>(routed)])
                                   : mtp_stage(scenario);
    for (std::int64_t member = 0; member < layout.ep; ++member) {
      // Expert tensor parallel peers are neighbours, so their slices of a sequence are one.
      const auto place = layout.place(stage * layout.stage_size() + (context.group * layout.ep + member) * layout.etp);
      const std::int64_t first = (place.cp * layout.tp + place.tp) * slice;
      context.sources.push_back({place.dp, first, first + layout.etp * slice});
    }
    std::vector<const policy::Policy*> policies;
    for (const auto& p : by_stage[static_cast<std::size_t>(stage)]) policies.push_back(p.get());
    plan.decisions[index] = policy::decide(context, policies);
  });
}

// A share of rows is a quotient of whole numbers' products: what is whole must not be rounded up.
constexpr double kRounding = 1e-6;

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
  const std::int64_t etp = scenario->layout.etp;
  switch (which.kind) {
    case Rows::Kind::received:
      return rows.received(member_of(rank));
    case Rows::Kind::arrived:
      return base::ceil_div(rows.received(member_of(rank)), etp);
    case Rows::Kind::distinct:
      return static_cast<std::int64_t>(
          std::ceil(static_cast<double>(rows.received(member_of(rank))) * distinct_share - kRounding));
    default:
      return base::ceil_div(rows.sent(member_of(rank)), etp);
  }
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
            .distinct_share = distinct_share(*scenario),
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
