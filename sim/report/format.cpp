#include "report/format.h"

#include <fmt/core.h>

#include <cmath>

#include "base/units.h"
#include "routing/shape.h"

namespace moeplan::report {
namespace {

// Where the '/' before the last part of a path stands. "FILE.EXT#PART" is one part, though PART may hold slashes.
std::size_t last_part(std::string_view path) {
  const std::size_t mark = path.rfind('#');
  if (mark != std::string_view::npos && mark > 0) {
    const std::size_t start = path.substr(0, mark).rfind('/');
    if (start != std::string_view::npos && path.substr(start, mark - start).find('.') != std::string_view::npos)
      return start;
  }
  return path.rfind('/');
}

bool ends_word(char c) {
  return c == ' ' || c == '\n' || c == '\'' || c == '"' || c == '(' || c == ')' || c == ',' || c == '=';
}

}  // namespace

std::string gib(std::int64_t bytes) { return base::format_gib(static_cast<double>(bytes)); }
std::string gib(double bytes) { return base::format_gib(bytes); }

std::string percent(double fraction) {
  const double value = 100.0 * fraction;
  return std::fabs(value) < 9.95 ? fmt::format("{:.1f} %", value) : fmt::format("{:.0f} %", value);
}

std::string percent_change(double value, double base) {
  if (!(base > 0.0) || !std::isfinite(value)) return "-";
  const double change = 100.0 * (value / base - 1.0);
  return std::fabs(change) < 9.95 ? fmt::format("{:+.1f} %", change) : fmt::format("{:+.0f} %", change);
}

std::string thousands(std::int64_t value) { return routing::with_thousands(value); }

std::string ratio(double value) { return fmt::format("{:.2f}", value); }

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

bool by_closed_form(const search::Evaluation& evaluation) {
  return evaluation.scenario->memory.accounting == scenario::Accounting::closed_form;
}

std::string verdict_sentence(const search::Evaluation& evaluation) {
  const search::Fit& fit = evaluation.fit;
  const std::string what = by_closed_form(evaluation)
                               ? fmt::format("rank {} takes {} by the closed form (memory.accounting)",
                                             evaluation.closed_form_rank, gib(fit.device_bytes))
                               : fmt::format("rank {} peaks at {}", evaluation.worst.rank, gib(fit.device_bytes));
  if (fit.device_bytes > fit.usable_bytes) {
    return fmt::format("{}, {} above the {} usable", what, gib(fit.device_bytes - fit.usable_bytes),
                       gib(fit.usable_bytes));
  }
  return fmt::format("{} of {} usable ({} headroom)", what, gib(fit.usable_bytes), percent(fit.headroom_fraction));
}

std::string peak_place(const memory::Peak& peak) {
  std::string text(memory::phase_name(peak.phase));
  if (!peak.direction.empty()) text += ", " + peak.direction;
  if (peak.layer >= 0) text += fmt::format("{}layer {}", peak.direction.empty() ? ", " : " of ", peak.layer);
  if (peak.microbatch >= 0) text += fmt::format(", microbatch {}", peak.microbatch);
  if (!peak.op.empty()) text += ", at " + peak.op;
  return text;
}

std::string without_absolute_paths(std::string_view text) {
  std::string result;
  bool starts_word = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool path = starts_word && text[i] == '/' && i + 1 < text.size() && !ends_word(text[i + 1]);
    if (path) {
      std::size_t end = i;
      while (end < text.size() && !ends_word(text[end])) ++end;
      while (end > i + 1 && text[end - 1] == '/') --end;
      i = last_part(text.substr(0, end));
      starts_word = false;
      continue;
    }
    starts_word = ends_word(text[i]);
    result += text[i];
  }
  return result;
}

}  // namespace moeplan::report
