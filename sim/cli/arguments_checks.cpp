#include "cli/arguments_checks.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "cli/arguments_words.h"

namespace moeplan::cli {

void check_files(const CLI::App& command, const Arguments& arguments) {
  const CLI::Option* json = command.get_option_no_throw("--json");
  if (json != nullptr && json->count() > 0 && arguments.json.empty())
    refuse_arguments("--json: expected a path or '-'");
  for (const char* name : {"--csv", "--jsonl", "--markdown", "--memory-timeline"}) {
    const CLI::Option* rows = command.get_option_no_throw(name);
    if (rows == nullptr || rows->count() == 0) continue;
    const std::string path = rows->as<std::string>();
    if (path.empty() || path == "-")
      refuse_arguments(std::string(name) + ": expected a path" +
                       (path.empty() ? "" : ", got '-'; --json alone takes it"));
  }
  const std::pair<const char*, const std::string&> files[] = {{"--json", arguments.json},
                                                              {"--csv", arguments.csv},
                                                              {"--jsonl", arguments.jsonl},
                                                              {"--markdown", arguments.markdown},
                                                              {"--memory-timeline", arguments.memory_timeline}};
  for (std::size_t i = 0; i < std::size(files); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (files[i].second.empty() || files[i].second != files[j].second) continue;
      refuse_arguments(std::string(files[j].first) + " and " + files[i].first + " name the same file");
    }
  }
  const CLI::Option* oom = command.get_option_no_throw("--oom-line");
  if (oom != nullptr && oom->count() > 0 && arguments.oom_line.empty())
    refuse_arguments("--oom-line: expected PyTorch's out-of-memory text, got nothing");
}

void check_values(const Texts& texts, Arguments& arguments) {
  base::Faults faults;
  const auto collect = [&](const auto& action) {
    try {
      action();
    } catch (const base::Error& error) {
      faults.add(error);
    }
  };
  arguments.options.overrides = scenario::split_overrides(texts.set, "--set", faults);
  for (const std::string& text : texts.filters) {
    collect([&] { arguments.filters.push_back(scenario::split_override(text, "--filter")); });
  }
  if (arguments.command == Command::chunks) {
    collect([&] { arguments.counts = parse_integers(texts.counts, "--counts", kMostChunks); });
    std::sort(arguments.counts.begin(), arguments.counts.end());
  }
  if (arguments.command == Command::compare) {
    collect([&] { arguments.policies = parse_names(texts.policies, "--policies"); });
    arguments.default_policies = texts.policies == Texts{}.policies;
  }
  if (arguments.command == Command::trace_info) {
    collect([&] { arguments.ep = parse_integers(texts.ep, "--ep", kMostRanks); });
  }
  if (!arguments.operators_hardware.empty() && !arguments.operators && !arguments.layer)
    faults.add({"--hardware", 0, 0, {}}, "goes with --operators or --layer: measured runs name their own");
  if (arguments.layer && !arguments.filters.empty())
    faults.add({"--filter", 0, 0, {}}, "goes with tables of rows, not with --layer");
  if (arguments.threads < 0 || arguments.threads > 4096) {
    faults.add({"--threads", 0, 0, {}}, "expected an integer from 0 to 4096, got " + std::to_string(arguments.threads));
  }
  if (!(arguments.options.limit > 0) || !std::isfinite(arguments.options.limit)) {
    faults.add({"--limit", 0, 0, {}}, fmt::format("expected a number > 0, got {}", arguments.options.limit));
  }
  if (arguments.top_k < 0 || arguments.top_k > 64) {
    faults.add({"--top-k", 0, 0, {}}, "expected an integer from 0 to 64, got " + std::to_string(arguments.top_k));
  }
  if (arguments.rank && arguments.memory_timeline.empty()) {
    faults.add({"--rank", 0, 0, {}}, "a rank is chosen for a timeline", "add --memory-timeline FILE");
  }
  if (arguments.pairs < 0 || arguments.pairs > 64) {
    faults.add({"--pairs", 0, 0, {}}, "expected an integer from 0 to 64, got " + std::to_string(arguments.pairs));
  }
  if (arguments.top < 1 || arguments.top > 10'000) {
    faults.add({"--top", 0, 0, {}}, "expected an integer from 1 to 10000, got " + std::to_string(arguments.top));
  }
  faults.throw_if_any();
}

}  // namespace moeplan::cli
