#include <nlohmann/json.hpp>

#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/peak_json.h"
#include "report/report.h"
#include "report/time_json.h"
#include "report/version.h"

// Keys and units: docs/json.md. Key order is the order of writing, so that equal results are equal bytes.
namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using search::Evaluation;

Json by_kind(const plan::BytesByKind& bytes) {
  Json json = Json::object();
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind) {
    json[std::string(plan::tensor_kind_name(static_cast<plan::TensorKind>(kind)))] = bytes[kind];
  }
  return json;
}

Json fit_json(const Evaluation& evaluation) {
  return {{"accounting", by_closed_form(evaluation) ? "closed_form" : "replay"},
          {"device_bytes", evaluation.fit.device_bytes},
          {"usable_bytes", evaluation.fit.usable_bytes},
          {"capacity_bytes", evaluation.fit.capacity_bytes},
          {"headroom_fraction", evaluation.fit.headroom_fraction}};
}

// How the worst rank gets on with PyTorch's allocator.
Json allocator_json(const Evaluation& evaluation) {
  Json json = {{"expandable_segments", evaluation.scenario->memory.expandable_segments},
               {"retries", evaluation.worst.retries},
               {"failure", nullptr}};
  if (!evaluation.failure) return json;
  const memory::AllocationFailure& failure = *evaluation.failure;
  json["failure"] = {{"iteration", failure.iteration < 0 ? Json() : Json(failure.iteration)},
                     {"phase", memory::phase_name(failure.phase)},
                     {"op", failure.op.empty() ? Json() : Json(failure.op)},
                     {"layer", failure.layer < 0 ? Json() : Json(failure.layer)},
                     {"microbatch", failure.microbatch < 0 ? Json() : Json(failure.microbatch)},
                     {"tensor", failure.tensor},
                     {"bytes", failure.bytes},
                     {"allocated_bytes", failure.allocated_bytes},
                     {"reserved_bytes", failure.reserved_bytes}};
  return json;
}

Json peak_memory(const Evaluation& evaluation) {
  const memory::RankMemory& worst = evaluation.worst;
  const memory::Peak& peak = worst.peak;
  const double usable = static_cast<double>(evaluation.fit.usable_bytes);
  Json json = peak_place_json(evaluation);
  json["headroom_fraction"] = (usable - static_cast<double>(worst.device_bytes())) / usable;
  Json breakdown = by_kind(peak.by_kind);
  breakdown["context"] = worst.outside_bytes;
  breakdown["fragmentation"] = worst.fragmentation_bytes();
  json["breakdown"] = std::move(breakdown);
  json["allocator"] = allocator_json(evaluation);
  json["static_bytes"] = worst.static_bytes;
  json["static_breakdown"] = by_kind(static_by_kind(evaluation));
  json["alive"] = Json::array();
  for (const memory::AliveTensor& tensor : evaluation.alive) {
    json["alive"].push_back({{"name", tensor.name},
                             {"kind", plan::tensor_kind_name(tensor.kind)},
                             {"count", tensor.count},
                             {"bytes", tensor.bytes}});
  }
  return json;
}

Json phases(const std::array<std::int64_t, memory::kPhases>& bytes) {
  Json json = Json::object();
  for (std::size_t phase = 0; phase < memory::kPhases; ++phase) {
    json[std::string(memory::phase_name(static_cast<memory::Phase>(phase)))] = bytes[phase];
  }
  return json;
}

Json ranks_json(const Evaluation& evaluation) {
  Json json = Json::array();
  for (const memory::RankMemory& rank : evaluation.ranks) {
    json.push_back({{"rank", rank.rank},
                    {"pipeline_stage", rank.stage},
                    {"peak_allocated_bytes", rank.peak.allocated_bytes},
                    {"peak_reserved_bytes", rank.has_reserved() ? Json(rank.reserved_bytes) : Json()},
                    {"device_bytes", rank.device_bytes()},
                    {"static_bytes", rank.static_bytes},
                    {"routed_peak_bytes", rank.routed_peak_bytes},
                    {"phase", memory::phase_name(rank.peak.phase)},
                    {"phase_peak_bytes", phases(rank.phase_peak_bytes)},
                    {"phase_reserved_bytes", rank.has_reserved() ? phases(rank.phase_reserved_bytes) : Json()}});
  }
  return json;
}

Json stages_json(const Evaluation& evaluation) {
  Json json = Json::array();
  for (const search::StageSummary& stage : evaluation.stages) {
    Json ranks = {stage.first_rank, stage.last_rank};
    Json layers = stage.layer_count == 0 ? Json::array() : Json{stage.first_layer, stage.last_layer};
    json.push_back({{"pipeline_stage", stage.stage},
                    {"ranks", std::move(ranks)},
                    {"layers", std::move(layers)},
                    {"layer_ranges", stage.layer_ranges},
                    {"static_bytes", stage.static_bytes},
                    {"peak_allocated_bytes", stage.peak_allocated_bytes},
                    {"peak_reserved_bytes", stage.peak_reserved_bytes},
                    {"phase_peak_bytes", phases(stage.phase_allocated_bytes)},
                    {"phase_reserved_bytes", phases(stage.phase_reserved_bytes)},
                    {"peak_rank", stage.peak_rank},
                    {"busy_s", stage.busy_s},
                    {"bubble_s", stage.bubble_s},
                    {"s_max_rows", evaluation.scenario->policies.memfine ? Json(stage.s_max_rows) : Json()}});
  }
  return json;
}

Json time_json(const engine::TimeParts& mean) {
  const auto family = [&](plan::Family which) { return mean.family_s[static_cast<std::size_t>(which)]; };
  Json json;
  json["compute"] = {{"attention_s", family(plan::Family::attention)},
                     {"expert_s", family(plan::Family::expert)},
                     {"dense_s", family(plan::Family::dense)},
                     {"router_permute_s", family(plan::Family::router_permute)},
                     {"loss_s", family(plan::Family::loss)},
                     {"optimizer_s", family(plan::Family::optimizer)},
                     {"recompute_s", mean.recompute_s}};
  json["exposed"] = {{"ep_s", mean.exposed_ep_s},
                     {"tp_s", mean.exposed_tp_s},
                     {"pp_s", mean.exposed_pp_s},
                     {"dp_s", mean.exposed_dp_s},
                     {"offload_s", mean.exposed_offload_s}};
  json["bubble_s"] = mean.bubble_s;
  json["imbalance_wait_s"] = mean.imbalance_wait_s;
  json["host_s"] = mean.host_s;
  json["sum_s"] = mean.total();
  return json;
}

Json routing_json(const search::RoutingSummary& routing) {
  const bool routed = !routing.layers.empty();
  Json json = {{"source", without_absolute_paths(routing.source)},
               {"tokens", routing.tokens},
               {"uses_of_each_token", routing.repeats},
               {"max_over_mean_expert", routed ? Json(routing.max_over_mean_expert) : Json()},
               {"max_over_mean_rank", routed ? Json(routing.max_over_mean_rank) : Json()},
               {"worst_max_over_mean_expert", routed ? Json(routing.worst_max_over_mean_expert) : Json()},
               {"worst_max_over_mean_rank", routed ? Json(routing.worst_max_over_mean_rank) : Json()},
               {"retained_row_share", routing.retained_row_share},
               {"dropped_share", routing.dropped_share},
               {"moved_bytes", routing.moved_bytes},
               {"retained_score_share", routing.retained_score_share}};
  json["layers"] = Json::array();
  for (const search::LayerRouting& layer : routing.layers) {
    json["layers"].push_back({{"layer", layer.layer},
                              {"max_over_mean_expert", layer.max_over_mean_expert},
                              {"max_over_mean_rank", layer.max_over_mean_rank},
                              {"max_received_rows", layer.max_received_rows},
                              {"max_received_rank", layer.max_received_rank},
                              {"max_received_over_mean", layer.max_received_over_mean},
                              {"chunks_by_microbatch", layer.chunks_by_microbatch}});
  }
  return json;
}

Json iterations_json(const Evaluation& evaluation) {
  const search::Distribution& step = evaluation.step_distribution;
  const search::Distribution& peak = evaluation.peak_distribution;
  return {{"count", evaluation.iterations},
          {"step_time_s", {{"p50", step.p50}, {"p95", step.p95}, {"p99", step.p99}, {"max", step.max}}},
          {"peak_device_bytes",
           {{"p50", whole_bytes(peak.p50)},
            {"p95", whole_bytes(peak.p95)},
            {"p99", whole_bytes(peak.p99)},
            {"max", whole_bytes(peak.max)}}},
          {"overflow_probability", evaluation.overflow_probability}};
}

template <class Enum>
const std::string& name_of(std::span<const std::string> names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

Json layout_json(const scenario::Scenario& scenario) {
  const topology::Layout& layout = scenario.layout;
  const scenario::Training& training = scenario.training;
  return {{"model", scenario.model.id},
          {"gpus", layout.world},
          {"tensor_model_parallel_size", layout.tp},
          {"pipeline_model_parallel_size", layout.pp},
          {"context_parallel_size", layout.cp},
          {"expert_model_parallel_size", layout.ep},
          {"expert_tensor_parallel_size", layout.etp},
          {"data_parallel_size", layout.dp()},
          {"expert_data_parallel_size", layout.edp()},
          {"micro_batch_size", training.micro_batch_size},
          {"global_batch_size", training.global_batch_size},
          {"microbatches", scenario.microbatches()},
          {"seq_length", training.seq_length},
          {"schedule", training.schedule},
          {"precision", name_of(scenario::precision_names(), training.precision)},
          {"sharding", name_of(scenario::sharding_names(), scenario.optimizer.sharding)},
          {"dispatcher", name_of(scenario::dispatcher_names(), scenario.dispatch.kind)}};
}

Json degraded_json(const std::vector<topology::DegradedLink>& links) {
  Json json = Json::array();
  for (const topology::DegradedLink& link : links) {
    using What = topology::DegradedLink::What;
    const char* kind = link.what == What::nic ? "nic" : link.what == What::rail ? "rail" : "pod";
    json.push_back({{kind, link.which}, {"share", link.share}});
  }
  return json;
}

Json provenance_json(const Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  Json evidence = Json::object();
  for (const cost::FamilyEvidence& family :
       cost::family_evidence(scenario.hardware, scenario::cost_precision(scenario.training.precision))) {
    evidence[family.family] = {{"evidence", topology::evidence_name(family.evidence)},
                               {"weakest_key", family.weakest_key}};
  }
  return {
      {"scenario", without_absolute_paths(scenario.name)},
      {"profile", scenario.hardware.id},
      {"trace", scenario.routing_label == "trace" ? Json(without_absolute_paths(evaluation.routing.source)) : Json()},
      {"version", kVersion},
      {"seed", scenario.seed},
      {"evidence", std::move(evidence)}};
}

Json whole_run_json(const Evaluation& evaluation) {
  const WholeRun run = whole_run(evaluation);
  if (!(run.total_tokens > 0)) return nullptr;
  return {{"total_tokens", run.total_tokens}, {"steps", run.steps}, {"days", run.days}, {"gpu_hours", run.gpu_hours}};
}

}  // namespace

std::string run_json(const Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  Json json;
  json["schema"] = "moeplan.run/1";
  json["verdict"] = search::verdict_name(evaluation.fit.verdict);
  json["step_time_s"] = evaluation.step_s;
  json["tokens_per_s_per_gpu"] = evaluation.tokens_per_s_per_gpu;
  json["model_tflops_per_gpu"] = evaluation.model_flops_per_gpu / 1e12;
  json["mfu"] = evaluation.mfu;
  json["mfu_peak_tflops"] = evaluation.mfu_peak_flops / 1e12;
  json["mfu_precision"] = cost::precision_name(scenario::cost_precision(scenario.training.precision));
  json["peak_bf16_tflops"] = scenario.hardware.device.peak_bf16.value / 1e12;
  json["model_flops_per_token"] = evaluation.flops_per_token;
  json["layout"] = layout_json(scenario);
  if (!scenario.hardware.degraded.empty()) json["degraded"] = degraded_json(scenario.hardware.degraded);
  json["fit"] = fit_json(evaluation);
  json["peak_memory"] = peak_memory(evaluation);
  json["stages"] = stages_json(evaluation);
  json["ranks"] = ranks_json(evaluation);
  json["time"] = time_json(evaluation.mean);
  json["time"]["step_time_l1_s"] = evaluation.step_l1_s ? Json(*evaluation.step_l1_s) : Json();
  json["time"]["nic_overlap_s"] = nic_overlap_json(evaluation.nic_overlap);
  json["time"]["exchanges"] = exchanges_json(evaluation.exchanges);
  json["routing"] = routing_json(evaluation.routing);
  json["closed_form"] = {{"rank", evaluation.closed_form_rank},
                         {"activation_bytes", whole_bytes(evaluation.closed_form_activation_bytes)},
                         {"replay_activation_bytes", evaluation.replay_activation_bytes},
                         {"gap_fraction", closed_form_gap(evaluation)},
                         {"total_bytes", whole_bytes(evaluation.closed_form_total_bytes)}};
  json["iterations"] = iterations_json(evaluation);
  json["whole_run"] = whole_run_json(evaluation);
  json["uncertainty"] = uncertainty_json(evaluation);
  if (!evaluation.sensitivities.empty()) json["sensitivities"] = sensitivities_json(evaluation.sensitivities);
  json["warnings"] = warnings_of(evaluation);
  json["assumptions"] = assumptions_of(evaluation);
  json["provenance"] = provenance_json(evaluation);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
