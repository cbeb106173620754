#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/run_tables.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using search::Evaluation;

// "optimizer 12.00 GiB, activations_moe 8.40 GiB, ...": the four largest kinds.
std::string top_kinds(const plan::BytesByKind& bytes) {
  std::vector<std::size_t> order;
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind) {
    if (bytes[kind] > 0) order.push_back(kind);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  if (order.size() > 4) order.resize(4);
  std::vector<std::string> parts;
  for (const std::size_t kind : order) {
    parts.push_back(
        fmt::format("{} {}", plan::tensor_kind_name(static_cast<plan::TensorKind>(kind)), gib(bytes[kind])));
  }
  return joined(parts, ", ");
}

std::string layout_line(const scenario::Scenario& scenario) {
  const topology::Layout& layout = scenario.layout;
  const scenario::Training& training = scenario.training;
  return fmt::format(
      "{} on {} x {}: TP {} PP {} CP {} EP {} ETP {} DP {} EDP {}, MBS {} GBS {} ({} microbatches), SEQ {}, {}",
      scenario.model.id, layout.world, scenario.hardware.id, layout.tp, layout.pp, layout.cp, layout.ep, layout.etp,
      layout.dp(), layout.edp(), training.micro_batch_size, training.global_batch_size, scenario.microbatches(),
      training.seq_length, training.schedule);
}

// " (0.98 s to 1.21 s at 90 %)"; "" where no range was worked out.
std::string step_range(const Evaluation& evaluation) {
  if (!evaluation.uncertainty) return "";
  const search::Range& range = evaluation.uncertainty->step_s;
  return fmt::format(" ({} to {} at {:.0f} %)", base::format_time(range.low), base::format_time(range.high),
                     100 * search::kCoverage);
}

// Whether fair sharing of the links is worth showing beside the fullest link.
bool shows_l1(double l0_s, double l1_s) { return l1_s >= 1.02 * l0_s; }

// What binds each kind of exchange between expert ranks most often; "" where there is none.
std::string exchanges_line(const Evaluation& evaluation) {
  std::vector<std::string> kinds;
  for (const engine::ExchangeKind& kind : evaluation.exchanges) {
    const engine::ExchangeKind::Bound& bound = kind.bounds.front();
    std::string shared;
    if (shows_l1(kind.mean_s, kind.l1_mean_s) || shows_l1(kind.worst_s, kind.l1_worst_s))
      shared = fmt::format("; L0 {} / L1 {}, worst {} / {}", base::format_time(kind.mean_s),
                           base::format_time(kind.l1_mean_s), base::format_time(kind.worst_s),
                           base::format_time(kind.l1_worst_s));
    kinds.push_back(fmt::format("{} {} ({} of {}, slack {}{})", kind.name, bound.resource, bound.count, kind.count,
                                base::format_time(bound.slack_s), shared));
  }
  return kinds.empty() ? "" : wrapped("Exchanges bound by  ", joined(kinds, "; "));
}

std::string verdict_block(const Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  const memory::RankMemory& worst = evaluation.worst;
  std::string text =
      fmt::format("{:<5} {}\n", search::verdict_name(evaluation.fit.verdict), verdict_sentence(evaluation));
  text += wrapped("      memory   ",
                  fmt::format("{} allocated + {} fragmentation + {} outside the allocator; {} of capacity",
                              gib(worst.peak.allocated_bytes), gib(worst.fragmentation_bytes()),
                              gib(worst.outside_bytes), gib(evaluation.fit.capacity_bytes)));
  if (worst.host_bytes > 0) {
    text += wrapped("      host     ", fmt::format("{} of rank {} in host memory", gib(worst.host_bytes), worst.rank));
  }
  text +=
      wrapped("      peak     ", fmt::format("rank {}, stage {}: {}", worst.rank, worst.stage, peak_place(worst.peak)));
  text += wrapped("      largest  ", top_kinds(worst.peak.by_kind));
  std::string routing = without_absolute_paths(evaluation.routing.source);
  if (evaluation.routing.repeats > 0) {
    routing += fmt::format("; each token is used {:.1f} times a step", evaluation.routing.repeats);
  }
  if (!evaluation.routing.layers.empty()) {
    routing +=
        fmt::format("; busiest expert {}, busiest rank {} times the mean",
                    ratio(evaluation.routing.max_over_mean_expert), ratio(evaluation.routing.max_over_mean_rank));
  }
  text += wrapped("      routing  ", routing);
  text += wrapped(
      "      step     ",
      fmt::format("{}{}: {:.0f} tokens/s/GPU, {:.1f} TFLOP/s/GPU, MFU {} of {:.0f} TFLOP/s dense {}",
                  base::format_time(evaluation.step_s), step_range(evaluation), evaluation.tokens_per_s_per_gpu,
                  evaluation.model_flops_per_gpu / 1e12, percent(evaluation.mfu), evaluation.mfu_peak_flops / 1e12,
                  cost::precision_name(scenario::cost_precision(scenario.training.precision))));
  if (evaluation.step_l1_s && shows_l1(evaluation.step_s, *evaluation.step_l1_s))
    text += wrapped("      step L1  ", fmt::format("{} with every all-to-all by fair sharing of the links",
                                                   base::format_time(*evaluation.step_l1_s)));
  const WholeRun run = whole_run(evaluation);
  if (run.total_tokens > 0) {
    text += wrapped("      run      ", fmt::format("{:.4g} tokens: {:.0f} steps, {:.1f} days, {:.0f} GPU-hours",
                                                   run.total_tokens, run.steps, run.days, run.gpu_hours));
  }
  text += wrapped("      layout   ", layout_line(scenario));
  std::vector<std::string> degraded;
  for (const topology::DegradedLink& link : scenario.hardware.degraded) degraded.push_back(degraded_text(link));
  if (!degraded.empty()) text += wrapped("      degraded ", joined(degraded, "; "));
  return text;
}

std::string closed_form_block(const Evaluation& evaluation) {
  return "Closed form beside replay\n" +
         wrapped("  ", fmt::format("rank {}: activations {} by MemFine's equation 2, {} replayed, gap {:+.1f} %; with "
                                   "static memory {} by the closed form",
                                   evaluation.closed_form_rank, gib(evaluation.closed_form_activation_bytes),
                                   gib(evaluation.replay_activation_bytes), 100.0 * closed_form_gap(evaluation),
                                   gib(evaluation.closed_form_total_bytes)));
}

std::string list_block(const char* heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = std::string("\n") + heading + "\n";
  for (const std::string& line : lines) text += wrapped("  - ", line);
  return text;
}

std::vector<std::string> family_names(const scenario::Scenario& scenario) {
  std::vector<std::string> names;
  for (const cost::FamilyEvidence& family :
       cost::family_evidence(scenario.hardware, scenario::cost_precision(scenario.training.precision))) {
    names.push_back(fmt::format("{} {}", family.family, topology::evidence_name(family.evidence)));
  }
  return names;
}

std::string provenance_block(const Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  return "\n" + wrapped("Provenance  ",
                        fmt::format("moeplan {}, profile {}, seed {}; evidence behind the times: {}", kVersion,
                                    scenario.hardware.id, scenario.seed, joined(family_names(scenario), ", ")));
}

}  // namespace

std::string run_text(const Evaluation& evaluation) {
  std::string text = verdict_block(evaluation);
  const std::string tables[] = {stages_table(evaluation),        ranks_table(evaluation),
                                breakdown_table(evaluation),     alive_table(evaluation),
                                time_table(evaluation),          exchanges_line(evaluation),
                                sensitivities_table(evaluation), routing_table(evaluation),
                                iterations_table(evaluation),    closed_form_block(evaluation)};
  for (const std::string& table : tables) {
    if (!table.empty()) text += "\n" + table;
  }
  text += list_block("Assumptions", assumptions_of(evaluation));
  text += list_block("Warnings", short_warnings_of(evaluation));
  return text + provenance_block(evaluation);
}

}  // namespace moeplan::report
