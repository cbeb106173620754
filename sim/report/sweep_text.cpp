#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "report/format.h"
#include "report/report.h"
#include "report/table.h"

// The table is printed as rows finish, so every column's width is known before the first row.
namespace moeplan::report {
namespace {

struct FixedColumn {
  const char* head;
  std::size_t width;
};
constexpr FixedColumn kFixed[] = {{"fits", 5},      {"peak alloc.", 11}, {"headroom", 8}, {"step", 9},
                                  {"tok/s/GPU", 9}, {"TFLOP/s/GPU", 11}, {"MFU", 6}};

std::string line(const std::vector<search::Axis>& axes, const std::vector<std::string>& keys, const std::string& rest) {
  std::string text;
  for (std::size_t a = 0; a < axes.size(); ++a) {
    std::size_t width = text_width(axes[a].key);
    for (const std::string& value : axes[a].values) width = std::max(width, text_width(value));
    text += padded(keys[a], width, Align::right) + "  ";
  }
  return text + rest + "\n";
}

std::string fixed_cells(const std::vector<std::string>& cells) {
  std::string text;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    if (c > 0) text += "  ";
    text += padded(cells[c], kFixed[c].width, c == 0 ? Align::left : Align::right);
  }
  return text;
}

// The first line of a refusal; the JSON has all of it.
std::string first_line(const std::string& error) {
  const std::size_t end = error.find('\n');
  return end == std::string::npos ? error : error.substr(0, end) + " ...";
}

}  // namespace

std::string sweep_header(const std::vector<search::Axis>& axes) {
  std::vector<std::string> keys, heads;
  for (const search::Axis& axis : axes) keys.push_back(axis.key);
  for (const FixedColumn& column : kFixed) heads.emplace_back(column.head);
  return line(axes, keys, fixed_cells(heads));
}

std::string sweep_row(const std::vector<search::Axis>& axes, const search::SweepRow& row) {
  if (!row.evaluation) return line(axes, row.values, "refused: " + first_line(without_absolute_paths(row.error)));
  const search::Evaluation& e = *row.evaluation;
  return line(axes, row.values,
              fixed_cells({search::verdict_name(e.fit.verdict), gib(e.worst.peak.allocated_bytes),
                           percent(e.fit.headroom_fraction), base::format_time(e.step_s),
                           fmt::format("{:.0f}", e.tokens_per_s_per_gpu),
                           fmt::format("{:.1f}", e.model_flops_per_gpu / 1e12), percent(e.mfu)}));
}

}  // namespace moeplan::report
