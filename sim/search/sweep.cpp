#include "search/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "config/document.h"
#include "search/in_order.h"

namespace moeplan::search {

namespace {

constexpr double kMaxCombinations = 100'000;

// Cuts at commas that stand outside brackets, braces and quotes.
std::vector<std::string> split_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  for (std::string& value : values) {
    const auto first = value.find_first_not_of(' ');
    value = first == std::string::npos ? "" : value.substr(first, value.find_last_not_of(' ') - first + 1);
  }
  return values;
}

SweepRow run_row(const std::string& path, const scenario::Options& base_options, const std::vector<Axis>& axes,
                 std::int64_t index, const std::shared_ptr<scenario::TraceCache>& cache, int threads) {
  SweepRow row;
  row.values.resize(axes.size());
  for (std::size_t a = axes.size(); a-- > 0;) {
    const auto size = static_cast<std::int64_t>(axes[a].values.size());
    row.values[a] = axes[a].values[static_cast<std::size_t>(index % size)];
    index /= size;
  }
  scenario::Options options = base_options;
  for (std::size_t a = 0; a < axes.size(); ++a) options.overrides.emplace_back(axes[a].key, row.values[a]);
  try {
    auto scenario = std::make_shared<scenario::Scenario>(scenario::load_scenario(path, options, cache));
    row.evaluation = evaluate(std::move(scenario), threads);
  } catch (const base::Error& error) {
    row.error = error.what();
  }
  return row;
}

}  // namespace

Axis parse_axis(const std::string& text) {
  const std::string option = "--vary " + text;
  const auto [key, values] = scenario::split_override(text, "--vary");
  Axis axis{key, split_values(values)};
  scenario::scenario_path(key, option);  // unknown keys are refused here
  std::set<std::string> seen;
  for (const std::string& value : axis.values) {
    if (value.empty()) throw base::Error({option, 0, 0, key}, "expected values separated by commas, got an empty one");
    if (!seen.insert(value).second)
      throw base::Error({option, 0, 0, key}, fmt::format("value '{}' stands twice", value));
  }
  return axis;
}

std::vector<SweepRow> run_sweep(const std::string& scenario_path, const scenario::Options& options,
                                const std::vector<Axis>& axes, const std::function<void(const SweepRow&)>& finished,
                                int threads) {
  double combinations = 1;
  std::set<std::string> paths;
  for (const Axis& axis : axes) {
    combinations *= static_cast<double>(axis.values.size());
    if (!paths.insert(scenario::scenario_path(axis.key, "--vary " + axis.key)).second)
      throw base::Error({"--vary " + axis.key, 0, 0, axis.key}, "this key is varied twice");
  }
  if (combinations > kMaxCombinations * options.limit)
    throw base::Error(
        {"--vary", 0, 0, ""},
        fmt::format("{:.0f} combinations are more than {:.0f}", combinations, kMaxCombinations * options.limit),
        "--limit raises the bound");
  // A file that cannot be read or parsed is one fault, not one a row.
  config::load_yaml(scenario_path);
  const auto cache = scenario::make_trace_cache();
  std::vector<SweepRow> rows(static_cast<std::size_t>(combinations));
  rows_in_order(
      rows, threads,
      [&](std::size_t i) { return run_row(scenario_path, options, axes, static_cast<std::int64_t>(i), cache, 1); },
      [&](SweepRow& row) {
        finished(row);
        // A large grid on a large cluster must not keep every rank of every row.
        if (row.evaluation) {
          std::vector<memory::RankMemory>().swap(row.evaluation->ranks);
          std::vector<memory::AliveTensor>().swap(row.evaluation->alive);
        }
      });
  return rows;
}

}  // namespace moeplan::search
