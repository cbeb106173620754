#include "scenario/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "scenario/policy_rules.h"
#include "schedule/schedule.h"

namespace moeplan::scenario {
namespace {

using base::Where;

constexpr char kTp[] = "parallel.tensor_model_parallel_size";
constexpr char kPp[] = "parallel.pipeline_model_parallel_size";
constexpr char kCp[] = "parallel.context_parallel_size";
constexpr char kEtp[] = "parallel.expert_tensor_parallel_size";
constexpr char kVpp[] = "parallel.virtual_pipeline_model_parallel_size";
constexpr char kEp[] = "parallel.expert_model_parallel_size";
constexpr char kGpus[] = "cluster.gpus";
constexpr char kMbs[] = "training.micro_batch_size";
constexpr char kGbs[] = "training.global_batch_size";
constexpr char kSeq[] = "training.seq_length";

// `size` at `path` must divide a number of another place.
void must_divide(const Sides& sides, const char* path, std::int64_t size, std::int64_t number, const char* what,
                 Where other, base::Faults& faults) {
  if (number % size == 0) return;
  faults.add(sides.raw.places.where(path), fmt::format("expected a divisor of the {} {}, got {}", number, what, size),
             {}, {std::move(other)});
}

// The groups must fit the cluster, each by Megatron's rules. True when they do.
bool check_groups(const Raw& raw, base::Faults& faults) {
  const auto broken = topology::layout_faults(raw.layout);
  for (const auto& [key, message] : broken) {
    const std::string path = "parallel." + key;
    const bool stated = raw.places.stated(path);
    std::vector<Where> also;
    if (stated) also.push_back(raw.places.where(kGpus));
    faults.add(raw.places.where(stated ? path : kGpus), message, {}, std::move(also));
  }
  return broken.empty();
}

void check_batch(const Raw& raw, base::Faults& faults) {
  const Training& training = raw.training;
  const std::int64_t dp = raw.layout.dp();
  const std::int64_t samples = training.micro_batch_size * dp;  // at most 2^12 * 2^17
  if (training.global_batch_size % samples == 0) return;
  faults.add(raw.places.where(kGbs),
             fmt::format("expected a multiple of micro_batch_size x data-parallel size = {} x {} = {}, got {}",
                         training.micro_batch_size, dp, samples, training.global_batch_size),
             {}, {raw.places.where(kMbs), raw.places.where(kGpus)});
}

void check_tensor_parallel(const Sides& sides, base::Faults& faults) {
  const std::int64_t tp = sides.raw.layout.tp;
  const model::Architecture& arch = sides.arch;
  const auto divide = [&](std::int64_t number, const char* what, Where other) {
    must_divide(sides, kTp, tp, number, what, std::move(other), faults);
  };
  divide(arch.attention.heads, "attention heads of the model",
         model_key(sides.model_file, "attention", {"num_attention_heads", "heads"}));
  if (arch.attention.kind == model::AttentionKind::gqa && arch.attention.kv_heads != arch.attention.heads) {
    divide(arch.attention.kv_heads, "key and value heads of the model",
           model_key(sides.model_file, "attention", {"num_query_groups", "kv_heads"}));
  }
  if (arch.moe_layer_count() < arch.layer_count()) {
    divide(arch.dense_ffn, "columns of the model's dense feed-forward",
           model_key(sides.model_file, "", {"ffn_hidden_size", "dense_ffn"}));
  }
  if (arch.moe_layer_count() > 0) {
    divide(arch.moe.shared_ffn, "columns of the model's shared expert",
           model_key(sides.model_file, "moe", {"moe_shared_expert_intermediate_size", "shared_ffn"}));
  }
  const topology::Layout& layout = sides.raw.layout;
  const std::int64_t seq = sides.raw.training.seq_length;
  if (layout.cp == 1) {
    divide(seq, "positions of a sequence (sequence parallelism)", sides.raw.places.where(kSeq));
  } else if (seq % (tp * layout.cp) != 0 || seq % (2 * layout.cp) != 0) {
    faults.add(sides.raw.places.where(kCp),
               fmt::format("expected tensor x context parallel size (and twice the context parallel size) to divide "
                           "the {} positions of a sequence, got {} x {}",
                           seq, tp, layout.cp),
               {}, {sides.raw.places.where(kSeq)});
  }
  if (tp * layout.cp % layout.etp != 0 && arch.moe_layer_count() > 0) {
    faults.add(sides.raw.places.where(kEtp),
               fmt::format("an expert tensor parallel size that does not divide tensor x context parallel size ({} x "
                           "{}) is not supported in this version, got {}",
                           tp, layout.cp, layout.etp));
  }
  if (arch.moe_layer_count() > 0) {
    must_divide(sides, kEtp, layout.etp, arch.moe.ffn, "columns of the model's experts",
                model_key(sides.model_file, "moe", {"moe_ffn_hidden_size", "expert_ffn"}), faults);
  }
}

void check_experts(const Sides& sides, base::Faults& faults) {
  const model::Architecture& arch = sides.arch;
  const std::int64_t ep = sides.raw.layout.ep;
  if (arch.moe_layer_count() > 0) {
    must_divide(sides, kEp, ep, arch.moe.experts, "experts of the model", arch.where_experts, faults);
  } else if (ep > 1) {
    faults.add(sides.raw.places.where(kEp), fmt::format("expected 1: the model has no MoE layers, got {}", ep), {},
               {arch.where_layers});
  }
}

// Every count that the rule may choose must leave each chunk of a source at least one position.
void check_chunks(const Sides& sides, const policy::MemfineSettings& memfine, base::Faults& faults) {
  const Raw& raw = sides.raw;
  const bool fixed = memfine.rule == policy::MemfineSettings::Rule::fixed;
  const std::int64_t most = fixed ? memfine.chunks : memfine.bins.back();
  const std::int64_t positions = raw.training.seq_length / (raw.layout.tp * raw.layout.cp);
  if (most <= positions) return;
  faults.add(raw.places.where(fixed ? "moe.policies.memfine.chunks" : "moe.policies.memfine.bins"),
             fmt::format("expected at most {} chunks: a rank has {} / {} positions of a sequence, got {}", positions,
                         raw.training.seq_length, raw.layout.tp * raw.layout.cp, most),
             {}, {raw.places.where(kSeq), raw.places.where(kTp)});
}

// Conflicts of policies with one setting, at the setting.
void add_conflicts(const Raw& raw, const char* setting, base::Faults& faults) {
  for (const PolicyConflict& conflict : policy_conflicts(raw.policies, raw.dispatch.kind, raw.layout)) {
    if (conflict.setting != setting) continue;
    faults.add(raw.places.where(setting), conflict.message, {}, {raw.places.where(conflict.policy)});
  }
}

}  // namespace

Where model_key(const config::Node& model_file, const std::string& section, const std::vector<std::string>& names) {
  config::Node node = model_file;
  if (!section.empty()) {
    if (!node.has(section)) return node.where();
    node = node.at(section);
  }
  if (node.kind() != config::Node::Kind::map) return node.where();
  for (const std::string& name : names) {
    if (node.has(name)) return node.at(name).where();
  }
  return node.where();
}

void check_layout(const Sides& sides, base::Faults& faults) {
  const Raw& raw = sides.raw;
  const bool groups_fit = check_groups(raw, faults);
  check_experts(sides, faults);
  check_tensor_parallel(sides, faults);
  if (groups_fit) check_batch(raw, faults);
}

void check_moe(const Sides& sides, base::Faults& faults) {
  const Raw& raw = sides.raw;
  const model::Architecture& arch = sides.arch;
  if (arch.moe_layer_count() > 0) {
    if (raw.routing.kind == RawRouting::Kind::none) {
      faults.add(raw.places.where(""), "missing key 'routing': the model has MoE layers",
                 "routing: { balanced: true } is the simplest", {arch.where_layers});
    }
    if (raw.policies.memfine) check_chunks(sides, *raw.policies.memfine, faults);
    add_conflicts(raw, kEtp, faults);
    return;
  }
  for (const char* path :
       {"moe.policies.capacity", "moe.policies.memfine", "moe.policies.lrmoe", "routing.trace", "routing.lognormal"}) {
    if (!raw.places.stated(path)) continue;
    faults.add(raw.places.where(path), "the model has no MoE layers", {}, {arch.where_layers});
  }
}

void check_recompute(const Sides& sides, base::Faults& faults) {
  const Raw& raw = sides.raw;
  const auto mla = raw.modules.find(RecomputeModule::mla_up_proj);
  if (mla != raw.modules.end() && sides.arch.attention.kind != model::AttentionKind::mla) {
    faults.add(mla->second, "mla_up_proj needs a model with multi-head latent attention (MLA)", {},
               {model_key(sides.model_file, "attention", {"kind"})});
  }
  if (raw.granularity == RecomputeGranularity::selective_op && raw.training.framework != Framework::torchtitan) {
    const bool stated = raw.places.stated("training.framework");
    faults.add(raw.places.where("memory.recompute_granularity"),
               "selective_op is torchtitan's checkpointing; expected none, selective or full with Megatron",
               "training.framework: torchtitan",
               stated ? std::vector<Where>{raw.places.where("training.framework")} : std::vector<Where>{});
  }
  const bool by_layer =
      raw.policies.memfine && raw.policies.memfine->recompute == policy::MemfineSettings::Recompute::layer;
  if (by_layer && raw.granularity && *raw.granularity != RecomputeGranularity::full) {
    faults.add(raw.places.where("moe.policies.memfine.recompute"),
               "recompute by layer needs 'recompute_granularity: full'", {},
               {raw.places.where("memory.recompute_granularity")});
  }
}

void check_settings(const Sides& sides, base::Faults& faults) {
  const Raw& raw = sides.raw;
  const std::int64_t replicas = raw.layout.dp() * raw.layout.cp, group = raw.optimizer.shard_group;
  if (group > 0 && replicas % group != 0) {
    faults.add(raw.places.where("optimizer.shard_group"),
               fmt::format("expected a divisor of the data-parallel group of {} ranks (data x context), got {}",
                           replicas, group),
               {}, {raw.places.where(kGpus)});
  }
  add_conflicts(raw, "moe.dispatcher", faults);
}

namespace {

// A V has two virtual stages on each of several ranks; its first rank holds the last stage too.
bool check_v_shape(const Raw& raw, const std::string& name, base::Faults& faults) {
  const Where schedule = raw.places.where("training.schedule");
  bool holds = true;
  const auto fault = [&](const std::string& key, const std::string& message, const std::string& hint) {
    faults.add(raw.places.where(key), message, hint, {schedule});
    holds = false;
  };
  if (raw.places.stated(kVpp) && raw.layout.vpp != 2)
    fault(kVpp, fmt::format("{} places two virtual stages on each rank: expected 2, got {}", name, raw.layout.vpp), {});
  if (raw.layout.pp < 2) fault(kPp, fmt::format("{} needs 2 or more pipeline stages, got {}", name, raw.layout.pp), {});
  for (const char* key : {"parallel.decoder_first_pipeline_num_layers", "parallel.decoder_last_pipeline_num_layers"}) {
    if (raw.places.stated(key))
      fault(key, fmt::format("{} puts the first and the last stage on one rank: no count for one of them", name),
            "pipeline_model_parallel_layout");
  }
  return holds;
}

// What a schedule demands of the number of stages and of microbatches.
void check_pipeline(const Raw& raw, const schedule::ScheduleEntry& entry, std::int64_t microbatches,
                    base::Faults& faults) {
  const std::int64_t pp = raw.layout.pp;
  const Where pp_at = raw.places.where(kPp), gbs_at = raw.places.where(kGbs);
  if (entry.interleaves && microbatches % pp != 0) {
    faults.add(gbs_at,
               fmt::format("the interleaved schedule needs microbatches in multiples of the {} stages, got {}", pp,
                           microbatches),
               {}, {pp_at});
  }
  if (entry.even && pp % 2 != 0)
    faults.add(pp_at, fmt::format("{} needs an even number of pipeline stages, got {}", entry.name, pp), {},
               {raw.places.where("training.schedule")});
  if (entry.even && microbatches % 2 != 0)
    faults.add(gbs_at,
               fmt::format("{} runs half of the microbatches from each end: expected an even number, got {}",
                           entry.name, microbatches),
               {}, {raw.places.where("training.schedule")});
  if (microbatches < entry.least_per_stage * pp)
    faults.add(gbs_at,
               fmt::format("{} needs at least {} x {} stages = {} microbatches, got {}", entry.name,
                           entry.least_per_stage, pp, entry.least_per_stage * pp, microbatches),
               {}, {pp_at});
}

// What does not go with weight gradients that come later.
void check_split(const Raw& raw, const schedule::ScheduleEntry& entry, base::Faults& faults) {
  const Where where = raw.places.where("training.schedule");
  if (raw.optimizer.shards_gradients()) {
    const bool stated = raw.places.stated("optimizer.sharding");
    faults.add(stated ? raw.places.where("optimizer.sharding") : where,
               fmt::format("{} computes weight gradients apart from backward: expected ddp or zero1, got {}",
                           entry.name, sharding_names()[static_cast<std::size_t>(raw.optimizer.sharding)]),
               {}, stated ? std::vector<Where>{where} : std::vector<Where>{});
  }
  if (raw.uniform_layers > 1)
    faults.add(raw.places.where("memory.recompute_num_layers"),
               fmt::format("{} computes weight gradients apart from backward, which recomputes single layers only: "
                           "expected 1, got {}",
                           entry.name, raw.uniform_layers),
               {}, {where});
  if (entry.placement == schedule::Placement::mirrored && raw.optimizer.orthogonalises())
    faults.add(raw.places.where("optimizer.kind"),
               fmt::format("{} has every matrix on two ranks, which Muon does not divide: expected adam", entry.name),
               {}, {where});
  const bool pairs = entry.least_per_stage > 0;  // DualPipe's own steps
  if (raw.dispatch.overlap && !pairs) {
    faults.add(raw.places.where("moe.overlap_moe_expert_parallel_comm"),
               fmt::format("{} has no forward and backward that take turns", entry.name),
               "schedule: 1f1b, interleaved, dualpipe or dualpipe_v", {where});
  }
}

}  // namespace

StageMap resolve_stages(const Sides& sides, base::Faults& faults) {
  const Raw& raw = sides.raw;
  StageRules rules = raw.stage_rules;
  rules.pp = raw.layout.pp;
  rules.vpp = raw.layout.vpp;
  const schedule::ScheduleEntry* entry = schedule::find_schedule(raw.training.schedule);
  const bool v_shape = entry->placement == schedule::Placement::v_shape;
  if (v_shape) {
    if (!check_v_shape(raw, entry->name, faults)) return {};
    rules.vpp = 2;
  }
  rules.layers = sides.arch.layer_count();
  rules.mtp = sides.arch.mtp_layers;
  const bool plain =
      !rules.first_layers && !rules.last_layers && !rules.account_for_embedding && !rules.account_for_loss;
  auto [map, broken] = raw.stage_layout.empty() ? even_stages(rules) : parse_stages(raw.stage_layout, rules);
  for (const auto& [key, message] : broken) {
    std::string path = "parallel." + key;
    if (!raw.places.stated(path)) path = kPp;
    std::string hint;
    if (raw.stage_layout.empty() && plain)
      hint =
          "pipeline_model_parallel_layout, decoder_first/last_pipeline_num_layers or "
          "account_for_embedding/loss_in_pipeline_split divide unevenly";
    const bool divisor = raw.stage_layout.empty() && plain && rules.vpp == 1;
    faults.add(raw.places.where(path),
               divisor ? fmt::format("expected a divisor of the {} layers of the model, got {}", rules.layers, rules.pp)
                       : message,
               hint, {sides.arch.where_layers});
  }
  if (!broken.empty()) return {};
  if (!raw.stage_layout.empty() && raw.places.stated(kVpp) && map.vpp() != rules.vpp) {
    faults.add(raw.places.where("parallel.pipeline_model_parallel_layout"),
               fmt::format("expected {} x {} virtual stages, got {}", rules.pp, rules.vpp, rules.pp * map.vpp()), {},
               {raw.places.where(kVpp)});
    return map;
  }
  if (map.vpp() == (v_shape ? 2 : 1)) {
    map.place(entry->placement);
  } else if (v_shape) {
    faults.add(raw.places.where("parallel.pipeline_model_parallel_layout"),
               fmt::format("expected 2 x {} virtual stages, two on each rank, got {}", rules.pp, rules.pp * map.vpp()),
               {}, {raw.places.where("training.schedule")});
  }
  return map;
}

std::string resolve_schedule(const Sides& sides, const StageMap& stages, base::Faults& faults) {
  const Raw& raw = sides.raw;
  std::string name = raw.training.schedule;
  if (!raw.schedule_stated && stages.vpp() > 1) name = "interleaved";
  const schedule::ScheduleEntry* entry = schedule::find_schedule(name);
  const Where where = raw.places.where(raw.schedule_stated ? "training.schedule" : kPp);
  const bool takes_virtual = entry->interleaves || entry->placement == schedule::Placement::v_shape;
  if (takes_virtual != (stages.vpp() > 1)) {
    faults.add(where,
               takes_virtual ? "the interleaved schedule needs more than one virtual stage a rank"
                             : fmt::format("{} does not take {} virtual stages a rank", name, stages.vpp()),
               takes_virtual ? "virtual_pipeline_model_parallel_size" : "schedule: interleaved");
    return name;
  }
  const std::int64_t samples = raw.training.micro_batch_size * raw.layout.dp();
  check_pipeline(raw, *entry, raw.training.global_batch_size / samples, faults);
  if (entry->splits) check_split(raw, *entry, faults);
  return name;
}

}  // namespace moeplan::scenario
