#include "search/option_pairs.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "search/validate.h"

namespace moeplan::search {

namespace {

// The first column is the one that both rows must state.
struct Option {
  const char* name;
  std::array<std::string_view, 3> columns;
};
constexpr std::array<Option, 11> kOptions = {{{"recompute", {"recompute", "recompute_modules", "recompute_layers"}},
                                              {"dispatcher", {"dispatcher", "dispatcher_sms"}},
                                              {"ep_overlap", {"ep_overlap", "delayed_wgrad"}},
                                              {"cuda_graph", {"cuda_graph", "cuda_graph_scope"}},
                                              {"tp_comm_overlap", {"tp_comm_overlap"}},
                                              {"grad_overlap", {"grad_overlap"}},
                                              {"offload_modules", {"offload_modules"}},
                                              {"permute_fusion", {"permute_fusion"}},
                                              {"routing", {"routing", "capacity_factor", "paged_stash"}},
                                              {"precision", {"precision"}},
                                              {"optimizer", {"optimizer", "sharding", "shard_group"}}}};

// What was measured, and what is said about the row.
bool describes(std::string_view column) {
  constexpr std::array<std::string_view, 15> kOthers = {"id",
                                                        "grade",
                                                        "use",
                                                        "step_time_s",
                                                        "tokens_per_s_per_gpu",
                                                        "model_tflops_per_gpu",
                                                        "peak_allocated_gib",
                                                        "peak_reserved_gib",
                                                        "peak_device_gib",
                                                        "memory_scope",
                                                        "peak_allocated_mib_by_rank",
                                                        "peak_reserved_mib_by_rank",
                                                        "derived",
                                                        "source",
                                                        "notes"};
  return std::find(kOthers.begin(), kOthers.end(), column) == kOthers.end();
}

std::string text_of(const runs::Run& run, std::string_view column) {
  const auto cell = run.cells.find(column);
  return cell == run.cells.end() ? std::string() : cell->second.text;
}

std::set<std::string, std::less<>> differences(const runs::Run& a, const runs::Run& b) {
  std::set<std::string, std::less<>> result;
  for (const auto* run : {&a, &b})
    for (const auto& [column, cell] : run->cells)
      if (describes(column) && text_of(a, column) != text_of(b, column)) result.insert(column);
  return result;
}

std::string words(const runs::Run& run, const Option& option) {
  std::string result;
  for (const std::string_view column : option.columns) {
    const std::string text = column.empty() ? "" : text_of(run, column);
    if (!text.empty()) result += (result.empty() ? "" : " ") + text;
  }
  return result;
}

const Option* only_option(const runs::Run& a, const runs::Run& b) {
  const auto differ = differences(a, b);
  if (differ.empty()) return nullptr;
  for (const Option& option : kOptions) {
    const bool within = std::all_of(differ.begin(), differ.end(), [&](const std::string& column) {
      return std::find(option.columns.begin(), option.columns.end(), column) != option.columns.end();
    });
    if (!within) continue;
    const bool stated = !text_of(a, option.columns[0]).empty() && !text_of(b, option.columns[0]).empty();
    return stated ? &option : nullptr;
  }
  return nullptr;
}

bool counts(const ValidationRow& row) {
  return row.status == runs::RunStatus::ok && row.run.use != "mem" && !row.run.group.empty() &&
         row.step_time_s.error().has_value();
}

}  // namespace

std::vector<OptionPair> option_pairs(const std::vector<ValidationRow>& rows) {
  std::map<std::string, std::vector<const ValidationRow*>> groups;
  std::vector<OptionPair> result;
  for (const ValidationRow& to : rows) {
    if (!counts(to)) continue;
    auto& group = groups[to.run.group];
    for (const ValidationRow* from : group) {
      const Option* option = only_option(from->run, to.run);
      if (option == nullptr) continue;
      OptionPair pair;
      pair.option = option->name;
      pair.from_id = from->run.id;
      pair.to_id = to.run.id;
      pair.from = words(from->run, *option);
      pair.to = words(to.run, *option);
      pair.measured = *to.step_time_s.measured / *from->step_time_s.measured - 1;
      pair.predicted = *to.step_time_s.predicted / *from->step_time_s.predicted - 1;
      pair.tells = pair.measured >= kLeastChange || pair.measured <= -kLeastChange;
      pair.right = pair.measured * pair.predicted > 0;
      result.push_back(std::move(pair));
    }
    group.push_back(&to);
  }
  return result;
}

}  // namespace moeplan::search
