#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/run_tables.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using search::Evaluation;
using search::Lever;

std::string kinds_line(const Evaluation& e) {
  std::vector<std::size_t> kinds;
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind)
    if (e.worst.peak.by_kind[kind] > 0) kinds.push_back(kind);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](std::size_t a, std::size_t b) { return e.worst.peak.by_kind[a] > e.worst.peak.by_kind[b]; });
  std::vector<std::string> parts;
  for (const std::size_t kind : kinds)
    parts.push_back(fmt::format("{} {}", plan::tensor_kind_name(static_cast<plan::TensorKind>(kind)),
                                gib(e.worst.peak.by_kind[kind])));
  parts.push_back("fragmentation " + gib(e.worst.fragmentation_bytes()));
  parts.push_back("outside the allocator " + gib(e.worst.outside_bytes));
  return joined(parts, ", ");
}

std::string advice_line(const search::Explanation& explanation) {
  const Evaluation& base = explanation.base;
  if (base.fit.verdict == search::Verdict::fits) return wrapped("      advice   ", "it fits; nothing needs to change");
  const Lever* lever = explanation.advice();
  if (lever == nullptr)
    return wrapped("      advice   ",
                   base.fit.verdict == search::Verdict::tight
                       ? "no single change or pair of changes gives 5 % headroom"
                       : "no single change or pair of changes makes it fit: more GPUs, or several changes together");
  // The line of options is not wrapped: it is there to be copied.
  return wrapped("      advice   ",
                 fmt::format("{}: {} with {} ({} headroom), step {}", lever->name, search::verdict_name(lever->verdict),
                             gib(lever->device_bytes), percent(lever->headroom_fraction),
                             percent_change(lever->step_s, base.step_s))) +
         "               " + lever->set + "\n";
}

std::string levers_table(const std::string& heading, const std::vector<Lever>& levers, const Evaluation& base,
                         std::size_t top) {
  if (levers.empty()) return "";
  Table table({{"change", Align::left},
               {"allocated"},
               {"reserved"},
               {"device"},
               {"saving"},
               {"step"},
               {"change"},
               {"fits", Align::left},
               {"to paste", Align::left}});
  std::size_t shown = 0, idle = 0;
  for (const Lever& lever : levers) {
    if (!search::saves(lever, base.fit.device_bytes)) {
      ++idle;
      continue;
    }
    if (shown >= top) continue;
    ++shown;
    table.add({lever.name, gib(lever.allocated_bytes), lever.reserved_bytes > 0 ? gib(lever.reserved_bytes) : "-",
               gib(lever.device_bytes), gib(lever.saving_bytes), base::format_time(lever.step_s),
               percent_change(lever.step_s, base.step_s), search::verdict_name(lever.verdict), lever.set});
  }
  std::string text = "\n" + heading + "\n";
  if (!table.empty()) text += table.text();
  const std::size_t more = levers.size() - shown - idle;
  if (more > 0) text += fmt::format("  {} more with --top {}\n", more, shown + more);
  std::vector<std::string> names;
  for (const Lever& lever : levers)
    if (!search::saves(lever, base.fit.device_bytes)) names.push_back(lever.name);
  if (!names.empty()) text += wrapped("  saves nothing here: ", joined(names, "; "));
  // What a change that would do brings with it: host memory, rows beyond a capacity.
  for (const Lever& lever : levers)
    if (lever.verdict != search::Verdict::oom && search::saves(lever, base.fit.device_bytes))
      for (const std::string& warning : lever.warnings)
        text += wrapped("  - ", fmt::format("{}: {}", lever.name, warning));
  return text;
}

std::string refused_block(const std::vector<Lever>& refused) {
  std::string text;
  for (const Lever& lever : refused)
    text += wrapped("  - ", fmt::format("{}: {}", lever.name, without_absolute_paths(lever.refused)));
  return text.empty() ? "" : "\nNot possible here\n" + text;
}

std::string candidate_line(const search::OomCandidate& c) {
  std::string text = c.name;
  switch (c.match) {
    case search::OomCandidate::Match::exact:
      text += fmt::format(": {}", gib(c.bytes));
      break;
    case search::OomCandidate::Match::near:
      text += fmt::format(": {}, {:+.2f} % off", gib(c.bytes), 100.0 * c.error_fraction);
      break;
    case search::OomCandidate::Match::rows:
      text += fmt::format(
          ": the size of {} rows; this plan's ranks have {} to {} (nearest: rank {}, layer {}, "
          "microbatch {})",
          thousands(c.implied.value_or(0)), thousands(c.least.value_or(0)), thousands(c.most.value_or(0)), c.rank,
          c.layer, c.microbatch);
      break;
    case search::OomCandidate::Match::tokens:
      text += fmt::format(": the size for {} tokens, of {}", thousands(c.implied.value_or(0)),
                          thousands(c.most.value_or(0)));
      break;
  }
  if (!c.derivation.empty()) text += " = " + c.derivation;
  if (!c.also.empty()) {
    std::vector<std::string> names = c.also;
    if (names.size() > 2) names.resize(2);
    text += "; or " + joined(names, ", or ");
    if (c.also.size() > 2) text += fmt::format(", or {} more of this size", c.also.size() - 2);
  }
  return text;
}

std::string oom_block(const search::OomDecoding& decoding) {
  const std::string size = gib(decoding.line.tried.bytes);
  std::string text = "\nThe out-of-memory text: " + size + " were asked for\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(decoding.candidates.size(), 5); ++i) {
    const search::OomCandidate& c = decoding.candidates[i];
    text += wrapped(i == 0 ? "  tensor   " : "  or       ", candidate_line(c));
    if (i == 0 || c.source != decoding.candidates[i - 1].source) text += wrapped("           lever: ", c.lever);
  }
  for (const std::string& note : decoding.notes) text += wrapped("  - ", note);
  return text;
}

}  // namespace

std::string explain_text(const search::Explanation& explanation, std::size_t top) {
  const Evaluation& base = explanation.base;
  std::string text = fmt::format("{:<5} {}\n", search::verdict_name(base.fit.verdict), verdict_sentence(base));
  text += wrapped("      peak     ",
                  fmt::format("rank {}, stage {}: {}", base.worst.rank, base.worst.stage, peak_place(base.worst.peak)));
  text += wrapped("      held by  ", kinds_line(base));
  text += wrapped("      step     ", base::format_time(base.step_s));
  text += advice_line(explanation);
  if (explanation.oom) text += oom_block(*explanation.oom);
  text += "\n" + alive_table(base);
  text += levers_table(
      "What single changes would do, each simulated (those that fit first, the fastest first; then by saving)",
      explanation.singles, base, top);
  text += levers_table("Pairs of the best, simulated together", explanation.pairs, base, top);
  text += refused_block(explanation.refused);
  text += "\n" + wrapped("Routing     ", without_absolute_paths(base.routing.source));
  text += wrapped("Provenance  ", fmt::format("moeplan {}, profile {}, seed {}", kVersion, base.scenario->hardware.id,
                                              base.scenario->seed));
  for (const std::string& warning : short_warnings_of(base)) text += wrapped("Warning     ", warning);
  return text;
}

}  // namespace moeplan::report
