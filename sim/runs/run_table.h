#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The table of measured runs: one line a training run, what it ran and what was measured (docs/runs.md lists the
// columns). CSV with a header; columns in any order; an empty cell means that the source does not state it.
namespace moeplan::runs {

struct Cell {
  std::string text;
  base::Where where;
};

struct Run {
  base::Where where;  // the line
  std::string id, group, grade, use, framework, release, workload, model, arch, gpu;
  std::optional<std::int64_t> gpus, tp, pp, vpp, cp, ep, etp, mbs, gbs, seq_len;
  std::string pp_layout, schedule, precision, recompute;
  std::vector<std::string> recompute_modules;  // "uniform" or "block" where recompute is full
  std::optional<std::int64_t> recompute_layers;
  std::vector<std::string> offload_modules;
  std::string optimizer, sharding;
  std::optional<std::int64_t> shard_group;
  std::string moments_dtype, main_grads_dtype, grad_reduce_dtype;
  std::string dispatcher;
  std::optional<std::int64_t> dispatcher_sms;
  std::optional<bool> ep_overlap, delayed_wgrad;
  std::string cuda_graph;
  std::vector<std::string> cuda_graph_scope;
  std::optional<bool> tp_comm_overlap, grad_overlap, permute_fusion;
  std::optional<double> capacity_factor;
  std::optional<bool> paged_stash;
  std::string routing;
  std::optional<double> step_time_s, tokens_per_s_per_gpu, model_tflops_per_gpu;
  std::optional<double> peak_allocated_gib, peak_reserved_gib, peak_device_gib;
  std::string memory_scope;
  std::vector<double> peak_allocated_mib_by_rank, peak_reserved_mib_by_rank;  // in rank order, or empty
  std::string derived, source, notes;

  std::map<std::string, Cell, std::less<>> cells;  // as written, by column
  std::vector<base::Fault> faults;                 // of this line: cells that cannot be read, a wrong number of cells

  // The place of a cell, or of the line where the table has no such column.
  base::Where place(std::string_view column) const;
};

struct RunTable {
  std::string file;
  std::vector<std::string> columns;  // of the header, in its order
  std::vector<std::string> notes;    // columns that nobody reads
  std::vector<Run> runs;
};

// Throws base::Error for what makes the whole table unusable: no header, columns that are missing (all of them in one
// message) or stand twice, quotes that do not close, no rows.
RunTable parse_runs(std::string_view text, const std::string& file);
RunTable read_runs(const std::string& path);

// Keeps the rows whose cell in `column` is `value`. Throws base::Error for a column that the table does not have.
void keep_where(RunTable& table, const std::string& column, const std::string& value, const std::string& option);

}  // namespace moeplan::runs
