#include <fmt/core.h>

#include "base/units.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/table.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

// What stands first: the fastest policy that fits.
std::string verdict_line(const std::vector<search::PolicyResult>& results) {
  const search::PolicyResult* best = nullptr;
  std::size_t fit = 0;
  for (const search::PolicyResult& result : results) {
    if (result.evaluation.fit.verdict == search::Verdict::oom) continue;
    ++fit;
    if (best == nullptr || result.evaluation.step_s < best->evaluation.step_s) best = &result;
  }
  if (best == nullptr) return fmt::format("OOM  none of {} sets of policies fits\n", results.size());
  return fmt::format("{}  {} of {} sets of policies fit; fastest: {} with {} a step\n",
                     search::verdict_name(best->evaluation.fit.verdict), fit, results.size(), best->name,
                     base::format_time(best->evaluation.step_s));
}

}  // namespace

std::string compare_text(const std::vector<search::PolicyResult>& results) {
  if (results.empty()) return "";
  Table table({{"policies", Align::left},
               {"fits", Align::left},
               {"peak alloc."},
               {"step"},
               {"change"},
               {"exp. EP"},
               {"imbalance"},
               {"recompute"},
               {"rows kept"},
               {"score kept"}});
  bool selects = false;
  for (const search::PolicyResult& result : results) {
    const search::Evaluation& e = result.evaluation;
    selects = selects || e.routing.selects;
    table.add({result.name, search::verdict_name(e.fit.verdict), gib(e.worst.peak.allocated_bytes),
               base::format_time(e.step_s), percent_change(e.step_s, results.front().evaluation.step_s),
               base::format_time(e.mean.exposed_ep_s), base::format_time(e.mean.imbalance_wait_s),
               base::format_time(e.mean.recompute_s), fmt::format("{:.2f} %", 100.0 * e.routing.retained_row_share),
               fmt::format("{:.2f} %", 100.0 * e.routing.retained_score_share)});
  }
  const search::Evaluation& first = results.front().evaluation;
  std::string text = verdict_line(results) + "\n" + table.text();
  text += wrapped("  ", "change: of step time against '" + results.front().name +
                            "'; times are means over ranks; imbalance: waiting for slower members of a group");
  if (by_closed_form(first)) text += wrapped("  ", "fits: static memory plus the closed form (memory.accounting)");
  if (selects) {
    text += wrapped("  ",
                    "LRMoE is moeplan's own formulation (see docs/models.md); backward is approximate where less than "
                    "100 % is kept");
  }
  text += "\n" + wrapped("Routing     ", without_absolute_paths(first.routing.source));
  text += wrapped("Provenance  ", fmt::format("moeplan {}, profile {}, seed {}", kVersion, first.scenario->hardware.id,
                                              first.scenario->seed));
  for (const std::string& warning : short_warnings_of(first)) text += wrapped("Warning     ", warning);
  return text;
}

}  // namespace moeplan::report
