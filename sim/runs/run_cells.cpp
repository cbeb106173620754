#include "runs/run_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <variant>

#include "base/csv.h"
#include "base/nearest.h"
#include "schedule/schedule.h"

namespace moeplan::runs {
namespace {

using Text = std::string Run::*;
using Words = std::vector<std::string> Run::*;
using Integer = std::optional<std::int64_t> Run::*;
using Real = std::optional<double> Run::*;
using Flag = std::optional<bool> Run::*;
using Reals = std::vector<double> Run::*;

struct Column {
  const char* name;
  std::variant<Text, Words, Integer, Real, Flag, Reals> field;
  std::vector<std::string> choices = {};  // of a text or of words: what else is a fault
};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const schedule::ScheduleEntry& entry : schedule::schedule_table()) names.push_back(entry.name);
  return names;
}

const std::vector<Column>& columns() {
  static const std::vector<std::string> dtypes = {"fp32", "bf16", "fp16", "fp8"};
  static const std::vector<Column> table = {
      {"id", &Run::id},
      {"group", &Run::group},
      {"grade", &Run::grade},
      {"use", &Run::use, {"time", "mem", "time+mem", "indicative", "ratio ladder"}},
      {"framework", &Run::framework},
      {"release", &Run::release},
      {"workload", &Run::workload},
      {"model", &Run::model},
      {"arch", &Run::arch},
      {"gpu", &Run::gpu},
      {"gpus", &Run::gpus},
      {"tp", &Run::tp},
      {"pp", &Run::pp},
      {"vpp", &Run::vpp},
      {"cp", &Run::cp},
      {"ep", &Run::ep},
      {"etp", &Run::etp},
      {"mbs", &Run::mbs},
      {"gbs", &Run::gbs},
      {"seq_len", &Run::seq_len},
      {"pp_layout", &Run::pp_layout},
      {"schedule", &Run::schedule, schedule_names()},
      {"precision",
       &Run::precision,
       {"bf16", "fp16", "fp8_tensorwise", "fp8_rowwise", "fp8_blockwise", "mxfp8", "nvfp4"}},
      {"recompute", &Run::recompute, {"none", "selective", "full", "selective_op"}},
      {"recompute_modules",
       &Run::recompute_modules,
       {"core_attn", "layernorm", "mla_up_proj", "moe_act", "mlp", "moe", "shared_experts", "uniform", "block"}},
      {"recompute_layers", &Run::recompute_layers},
      {"offload_modules",
       &Run::offload_modules,
       {"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"}},
      {"optimizer", &Run::optimizer, {"adam", "muon", "sgd"}},
      {"sharding", &Run::sharding, {"ddp", "zero1", "zero2", "zero3", "fsdp2", "megatron_fsdp"}},
      {"shard_group", &Run::shard_group},
      {"moments_dtype", &Run::moments_dtype, dtypes},
      {"main_grads_dtype", &Run::main_grads_dtype, dtypes},
      {"grad_reduce_dtype", &Run::grad_reduce_dtype, dtypes},
      {"dispatcher", &Run::dispatcher, {"none", "alltoall", "allgather", "deepep", "hybridep"}},
      {"dispatcher_sms", &Run::dispatcher_sms},
      {"ep_overlap", &Run::ep_overlap},
      {"delayed_wgrad", &Run::delayed_wgrad},
      {"cuda_graph", &Run::cuda_graph, {"none", "local", "transformer_engine", "full_iteration"}},
      {"cuda_graph_scope",
       &Run::cuda_graph_scope,
       {"attn", "mlp", "moe", "moe_router", "moe_preprocess", "shared_experts", "mamba", "full_iteration"}},
      {"tp_comm_overlap", &Run::tp_comm_overlap},
      {"grad_overlap", &Run::grad_overlap},
      {"permute_fusion", &Run::permute_fusion},
      {"capacity_factor", &Run::capacity_factor},
      {"paged_stash", &Run::paged_stash},
      {"routing", &Run::routing, {"balanced", "natural", "drop", "dense"}},
      {"step_time_s", &Run::step_time_s},
      {"tokens_per_s_per_gpu", &Run::tokens_per_s_per_gpu},
      {"model_tflops_per_gpu", &Run::model_tflops_per_gpu},
      {"peak_allocated_gib", &Run::peak_allocated_gib},
      {"peak_reserved_gib", &Run::peak_reserved_gib},
      {"peak_device_gib", &Run::peak_device_gib},
      {"memory_scope", &Run::memory_scope},
      {"peak_allocated_mib_by_rank", &Run::peak_allocated_mib_by_rank},
      {"peak_reserved_mib_by_rank", &Run::peak_reserved_mib_by_rank},
      {"derived", &Run::derived},
      {"source", &Run::source},
      {"notes", &Run::notes},
  };
  return table;
}

// The parts between separators; empty ones are left out.
std::vector<std::string> parts(const std::string& text, char separator) {
  std::vector<std::string> result;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) result.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return result;
}

template <typename Number>
bool parse(const std::string& text, Number& value) {
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && stop == text.data() + text.size();
}

class Filler {
 public:
  Filler(Run& run, const Column& column, const Cell& cell) : run_(run), column_(column), cell_(cell) {}

  void operator()(Text field) {
    if (known(cell_.text)) run_.*field = cell_.text;
  }
  void operator()(Words field) {
    for (std::string& word : parts(cell_.text, ' ')) {
      if (known(word)) (run_.*field).push_back(std::move(word));
    }
  }
  void operator()(Integer field) {
    std::int64_t value = 0;
    if (!parse(cell_.text, value) || value < 1) return fault("expected a whole number >= 1");
    run_.*field = value;
  }
  void operator()(Real field) {
    double value = 0;
    if (positive(cell_.text, value)) run_.*field = value;
  }
  void operator()(Flag field) {
    if (cell_.text != "on" && cell_.text != "off") return fault("expected on or off");
    run_.*field = cell_.text == "on";
  }
  void operator()(Reals field) {
    std::vector<double> values;
    for (const std::string& part : parts(cell_.text, ';')) {
      if (!positive(part, values.emplace_back())) return;
    }
    run_.*field = std::move(values);
  }

 private:
  bool known(const std::string& word) {
    const std::vector<std::string>& choices = column_.choices;
    if (choices.empty() || std::find(choices.begin(), choices.end(), word) != choices.end()) return true;
    fault("expected one of " + base::join_names(choices), word, base::nearest_hint(word, choices));
    return false;
  }
  bool positive(const std::string& text, double& value) {
    if (parse(text, value) && std::isfinite(value) && value > 0) return true;
    fault("expected a number > 0");
    return false;
  }
  void fault(const std::string& expected) { fault(expected, cell_.text, {}); }
  // `found`: the word of the cell that is wrong, or all of it.
  void fault(const std::string& expected, const std::string& found, std::string hint) {
    run_.faults.push_back(
        {cell_.where, fmt::format("{}, got '{}'", expected, base::shown_cell(found)), std::move(hint), {}});
  }

  Run& run_;
  const Column& column_;
  const Cell& cell_;
};

}  // namespace

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const Column& column : columns()) names.emplace_back(column.name);
  return names;
}

void read_cells(Run& run) {
  for (const Column& column : columns()) {
    const auto cell = run.cells.find(std::string_view(column.name));
    if (cell != run.cells.end() && !cell->second.text.empty()) {
      std::visit(Filler(run, column, cell->second), column.field);
    }
  }
  for (const char* column : {"peak_allocated_mib_by_rank", "peak_reserved_mib_by_rank"}) {
    const std::vector<double>& list = std::string_view(column) == "peak_allocated_mib_by_rank"
                                          ? run.peak_allocated_mib_by_rank
                                          : run.peak_reserved_mib_by_rank;
    if (list.empty() || !run.gpus || static_cast<std::int64_t>(list.size()) == *run.gpus) continue;
    run.faults.push_back({run.place(column),
                          fmt::format("expected a figure a rank, got {} for {} GPUs", list.size(), *run.gpus),
                          {},
                          {}});
  }
  if (run.id.empty()) run.faults.push_back({run.place("id"), "expected an id, got an empty cell", {}, {}});
}

}  // namespace moeplan::runs
