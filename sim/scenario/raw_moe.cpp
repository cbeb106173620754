#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>

#include "scenario/raw_sections.h"

// The sections `moe` and `routing`.
namespace moeplan::scenario {
namespace {

constexpr std::int64_t kMaxChunks = 4096;
constexpr std::int64_t kMaxSeed = std::int64_t{1} << 62;
constexpr std::int64_t kMaxInstances = 64;

std::uint64_t read_seed(config::Reader& reader) {
  return static_cast<std::uint64_t>(reader.integer_or("seed", 1, {0, kMaxSeed}));
}

void read_bins(config::Reader& reader, policy::MemfineSettings& settings) {
  if (!reader.has("bins")) return;
  const std::size_t before = reader.faults().size();
  settings.bins = reader.integers("bins", {1, kMaxChunks});
  if (reader.faults().size() != before) return;
  if (settings.bins.empty()) reader.fault("bins", "expected at least one count of chunks, such as [1, 2, 4, 8]");
  if (!std::is_sorted(settings.bins.begin(), settings.bins.end(), std::less_equal<>())) {
    reader.fault("bins", "expected counts that grow, such as [1, 2, 4, 8]");
  }
}

policy::MemfineSettings read_memfine(config::Reader reader, Raw& raw) {
  constexpr std::string_view kPath = "moe.policies.memfine";
  declare_keys(reader, kPath, raw.places);
  const std::array<std::string, 2> rules = {"fixed", "adaptive"};
  const std::array<std::string, 2> recomputes = {"moe", "layer"};
  policy::MemfineSettings settings;
  const std::size_t before = reader.faults().size();
  settings.rule = static_cast<policy::MemfineSettings::Rule>(reader.choice_or("rule", rules, 1));
  settings.chunks = reader.integer_or("chunks", 1, {1, kMaxChunks});
  if (reader.faults().size() == before) {
    const bool fixed = settings.rule == policy::MemfineSettings::Rule::fixed;
    if (fixed && !reader.has("chunks")) {
      reader.faults().add(reader.where("rule"), "the fixed rule needs 'chunks'", "add chunks: 4");
    } else if (!reader.has("rule") && reader.has("chunks")) {
      reader.fault("chunks", "chunks are of the fixed rule, and no rule is stated", "add rule: fixed");
    }
  }
  read_bins(reader, settings);
  settings.alpha = reader.real_or("alpha", settings.alpha, {0.0, 1.0, true});
  const config::RealRange sizes{0.0, kMaxDeviceBytes, true};
  settings.planning_capacity_bytes =
      reader.quantity_if("planning_capacity", base::Dimension::bytes, sizes).value_or(0.0);
  settings.bytes_per_row = reader.quantity_if("bytes_per_row", base::Dimension::bytes, sizes).value_or(0.0);
  settings.recompute = static_cast<policy::MemfineSettings::Recompute>(reader.choice_or("recompute", recomputes, 0));
  settings.pipelined = reader.flag_or("pipelined", settings.pipelined);
  reader.finish();
  return settings;
}

policy::LrmoeSettings read_lrmoe(config::Reader reader, Raw& raw) {
  declare_keys(reader, "moe.policies.lrmoe", raw.places);
  using Settings = policy::LrmoeSettings;
  const std::array<std::string, 2> modes = {"B", "A"};
  const std::array<std::string, 2> replicas = {"none", "greedy"};
  Settings settings;
  settings.tau = reader.real_or("tau", settings.tau, {1.0, 1e6});
  settings.min_rows = reader.integer_or("min_rows", settings.min_rows, {0, std::int64_t{1} << 31});
  settings.min_retained = reader.real_or("min_retained", settings.min_retained, {0.0, 1.0});
  settings.score_sigma = reader.real_or("score_sigma", settings.score_sigma, {0.0, 10.0});
  settings.seed = read_seed(reader);
  settings.mode = static_cast<Settings::Mode>(reader.choice_or("mode", modes, 0));
  settings.replicas = static_cast<Settings::Replicas>(reader.choice_or("replicas", replicas, 0));
  settings.max_instances = reader.integer_or("max_instances", settings.max_instances, {1, kMaxInstances});
  reader.finish();
  return settings;
}

policy::CapacitySettings read_capacity(config::Reader reader, Raw& raw) {
  declare_keys(reader, "moe.policies.capacity", raw.places);
  const std::array<std::string, 2> drops = {"probs", "position"};
  policy::CapacitySettings settings;
  settings.factor = reader.real_or("factor", settings.factor, {0.0, 1e6, true});
  settings.pad = reader.flag_or("pad", settings.pad);
  settings.drop_policy = static_cast<policy::CapacitySettings::DropPolicy>(reader.choice_or("drop_policy", drops, 0));
  reader.finish();
  return settings;
}

void read_policies(config::Reader reader, Raw& raw) {
  declare_keys(reader, "moe.policies", raw.places);
  if (const auto capacity = reader.map_if("capacity")) raw.policies.capacity = read_capacity(*capacity, raw);
  if (const auto memfine = reader.map_if("memfine")) raw.policies.memfine = read_memfine(*memfine, raw);
  if (const auto lrmoe = reader.map_if("lrmoe")) raw.policies.lrmoe = read_lrmoe(*lrmoe, raw);
  for (const std::string later : {"symi", "flexmoe", "fastermoe", "eplb"}) {
    if (reader.has(later)) refuse(reader, later, "this policy", "capacity, memfine or lrmoe");
  }
  reader.finish();
}

// Of the four ways to state routing exactly one may be there.
void read_kind(config::Reader& reader, RawRouting& stated) {
  const std::array<std::string, 3> kinds = {"trace", "balanced", "lognormal"};
  std::string first;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (!reader.has(kinds[i])) continue;
    if (first.empty()) {
      first = kinds[i];
      stated.kind = static_cast<RawRouting::Kind>(i + 1);
      continue;
    }
    reader.faults().add(
        reader.where(kinds[i]), fmt::format("'{}' and '{}' both state the routing: give one of them", first, kinds[i]),
        "to replace it by an option, set the whole section: --set 'routing={ balanced: true }'", {reader.where(first)});
  }
  if (reader.has("preset")) {
    refuse(reader, "preset", "a preset of routing", "trace, balanced or lognormal");
    reader.has("iteration");
  } else if (first.empty()) {
    reader.faults().add(reader.where(), "expected one of trace, balanced, lognormal");
  }
}

// map: { layers: cyclic } or { layers: [0, 7, 15, ..] }, layers of the trace by their numbers there.
void read_map(config::Reader reader, Raw& raw) {
  declare_keys(reader, "routing.map", raw.places);
  routing::TraceMap& map = raw.routing.map;
  const std::optional<config::Node> layers = reader.node_if("layers");
  if (layers && layers->kind() == config::Node::Kind::list) {
    map.kind = routing::TraceMap::Kind::listed;
    map.layers = reader.integers("layers", {0, std::int64_t{1} << 40});
  } else if (layers && layers->kind() == config::Node::Kind::scalar && layers->scalar() == "cyclic") {
    map.kind = routing::TraceMap::Kind::cyclic;
  } else {
    reader.fault("layers", layers ? "expected 'cyclic' or a list of layers of the trace, got " + layers->describe()
                                  : "missing key 'layers'");
  }
  reader.finish();
}

void read_dispatch(config::Reader& reader, Dispatch& dispatch) {
  dispatch.kind = static_cast<Dispatcher>(reader.choice_or("dispatcher", dispatcher_names(), 0));
  dispatch.sms = reader.integer_or("dispatcher_sms", 0, {1, 1024});
  if (dispatch.sms > 0 && !dispatch.deduplicates()) {
    reader.fault("dispatcher_sms", "only the kernels of deepep and hybridep are given multiprocessors");
  }
  dispatch.overlap = reader.flag_or("overlap_moe_expert_parallel_comm", false);
  dispatch.delay_wgrad = reader.flag_or("delay_wgrad_compute", false);
  if (dispatch.delay_wgrad && !dispatch.overlap) {
    reader.fault("delay_wgrad_compute", "weight gradients are delayed only to hide communication",
                 "add overlap_moe_expert_parallel_comm: true");
  }
  dispatch.permute_fusion = reader.flag_or("permute_fusion", true);
  dispatch.router_fusion = reader.flag_or("router_fusion", false);
  dispatch.op_fuser = reader.flag_or("use_transformer_engine_op_fuser", false);
  dispatch.grouped_gemm = reader.flag_or("grouped_gemm", true);
  dispatch.rank_capacity_factor = reader.real_or("expert_rank_capacity_factor", 0.0, {0.0, 1e6, true});
  dispatch.paged_stash = reader.flag_or("paged_stash", false);
  if (dispatch.paged_stash && dispatch.rank_capacity_factor == 0) {
    reader.fault("paged_stash", "pages hold rows of buffers of a fixed size", "add expert_rank_capacity_factor: 1.5");
  }
}

}  // namespace

void read_moe(config::Reader reader, Raw& raw) {
  declare_keys(reader, "moe", raw.places);
  read_dispatch(reader, raw.dispatch);
  if (const auto policies = reader.map_if("policies")) read_policies(*policies, raw);
  reader.finish();
}

void read_routing(config::Reader reader, Raw& raw) {
  declare_keys(reader, "routing", raw.places);
  RawRouting& stated = raw.routing;
  read_kind(reader, stated);
  if (reader.has("trace")) stated.trace = reader.text("trace");
  if (const auto map = reader.map_if("map")) read_map(*map, raw);
  if (!reader.flag_or("balanced", true)) reader.fault("balanced", "expected true, or no such key", {});
  const std::array<std::string, 2> resamples = {"lines", "tokens"};
  stated.resample = static_cast<routing::Resample>(reader.choice_or("resample", resamples, 0));
  stated.seed = read_seed(reader);
  if (std::optional<config::Reader> lognormal = reader.map_if("lognormal")) {
    declare_keys(*lognormal, "routing.lognormal", raw.places);
    stated.sigma = lognormal->real("sigma", {0.0, 10.0});
    stated.seed = read_seed(*lognormal);
    stated.draws = lognormal->integer_or("draws", 1, {1, 1000});
    lognormal->finish();
  }
  for (const std::string_view key : {"resample", "seed", "map"}) {
    if (reader.has(key) && !reader.has("trace") && !reader.has("preset")) {
      reader.fault(key, fmt::format("'{}' is a key of routing by a trace", key),
                   reader.has("lognormal") ? "the seed of a log-normal is lognormal.seed" : "");
    }
  }
  reader.finish();
}

}  // namespace moeplan::scenario
