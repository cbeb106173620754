#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "base/csv.h"
#include "measurements/fields.h"
#include "measurements/read_table.h"

namespace moeplan::measurements {
namespace {

constexpr std::int64_t kMostMatrixRanks = 4096;

// A name that says what was timed, without its remarks: "moe_layer_fwd(gate_up ...)" is moe_layer_fwd.
std::string head_of(const std::string& name) { return name.substr(0, name.find_first_of(" (")); }

void set_precision(Fields& fields, Measurement& row) {
  constexpr std::array<std::pair<const char*, cost::Precision>, 16> kTypes = {
      {{"", cost::Precision::bf16},
       {"bf16", cost::Precision::bf16},
       {"bfloat16", cost::Precision::bf16},
       {"fp16", cost::Precision::bf16},  // the same units at the same rate
       {"float16", cost::Precision::bf16},
       {"half", cost::Precision::bf16},
       {"fp8", cost::Precision::fp8},
       {"fp8_block", cost::Precision::fp8},
       {"fp8_blockwise", cost::Precision::fp8},
       {"fp8_rowwise", cost::Precision::fp8},
       {"fp8_tensorwise", cost::Precision::fp8},
       {"fp8_e4m3", cost::Precision::fp8},
       {"mxfp8", cost::Precision::mxfp8},
       {"nvfp4", cost::Precision::nvfp4},
       {"e4m3", cost::Precision::fp8},
       {"fp8_per_tensor", cost::Precision::fp8}}};
  const std::string type = head_of(row.dtype);
  for (const auto& [name, precision] : kTypes) {
    if (type != name) continue;
    row.precision = precision;
    return;
  }
  fields.skip(fmt::format("no cost model has the type '{}'", base::shown_cell(row.dtype)));
}

// Pass by its name, or by the layout of the operands: TN forward, NN dgrad, NT wgrad.
bool set_pass(const std::string& name, const std::string& layout, Measurement& row) {
  const auto ends = [&](const char* end) { return name.ends_with(end); };
  if (layout.starts_with("NN") || ends("dgrad") || name == "bwd_grad_act") {
    row.pass = cost::GemmPass::dgrad;
  } else if (layout.starts_with("NT") || ends("wgrad") || name == "bwd_grad_w") {
    row.pass = cost::GemmPass::wgrad;
  } else if (layout.starts_with("TN") || ends("fwd") || name == "gemm" || name == "matmul" || name.empty()) {
    row.pass = cost::GemmPass::forward;
  } else {
    return false;
  }
  return true;
}

// What a weight gradient reads and writes an element: added to fp32 or bf16, or written alone. "bf16 out=fp32" of a
// type and "acc=False" of a layout say it as the packed keys do.
void set_gradient(Fields& fields, Measurement& row) {
  if (row.pass != cost::GemmPass::wgrad) return;
  std::string out = fields.first_text({"main_grad_dtype", "out_dtype"});
  const std::size_t at = row.dtype.find("out=");
  if (out.empty() && at != std::string::npos) out = row.dtype.substr(at + 4);
  const bool alone =
      fields.text("accumulate") == "False" || fields.text("layout").find("acc=False") != std::string::npos;
  const double element = out == "bf16" ? 2 : 4;
  row.gradient_bytes = alone ? element : 2 * element;
}

void unknown_kind(Fields& fields, const Measurement& row) {
  fields.skip(fmt::format("no cost model describes '{}'", base::shown_cell(row.kind)));
}

void read_gemm(Fields& fields, Measurement& row) {
  row.family = Family::gemm;
  if (!set_pass(head_of(row.kind), fields.text("layout"), row)) return unknown_kind(fields, row);
  set_precision(fields, row);
  row.shape.m = fields.needed("m");
  row.shape.n = fields.needed("n");
  row.shape.k = fields.needed("k");
  set_gradient(fields, row);
  if (fields.integer("b").value_or(1) != 1) fields.skip("a batch of products");
}

// Rows of each group, from a list, or evenly where the table says that they are.
void read_groups(Fields& fields, Measurement& row, std::int64_t rows, std::int64_t groups) {
  row.group_rows = fields.integers("group_rows");
  if (!row.group_rows.empty() &&
      std::all_of(row.group_rows.begin(), row.group_rows.end(), [](std::int64_t count) { return count == 0; }))
    return fields.fault("group_rows", "expected a group with rows, got 0 for all");
  if (!row.group_rows.empty() || row.status != Status::ok) return;
  const std::string& spread = row.distribution;
  if (!spread.empty() && spread != "balanced" && spread != "uniform") {
    return fields.skip(fmt::format("the distribution '{}' does not give the rows of each group", spread));
  }
  if (groups > 0) row.group_rows = even_rows(rows, std::min<std::int64_t>(groups, 1 << 20));
}

void read_grouped(Fields& fields, Measurement& row) {
  row.family = Family::grouped_gemm;
  const std::string stage = fields.text("stage");
  if (!set_pass(stage.empty() ? head_of(row.kind) : stage, "", row)) return unknown_kind(fields, row);
  set_precision(fields, row);
  const bool packed = !fields.text("ng").empty();
  const bool stated = !fields.first_text({"main_grad_dtype", "out_dtype"}).empty();
  if (packed || stated) set_gradient(fields, row);
  // The gradients' bytes are most of the time: added to bf16 they take little more than half as long as to fp32. Lines
  // of moeplan-device are of fp32.
  if (row.pass == cost::GemmPass::wgrad && !packed && !stated && fields.text("schema").empty())
    fields.skip("main_grad_dtype is not stated: the type that the weight gradient is added to");
  row.shape.n = fields.needed(packed ? "N" : "n");
  row.shape.k = fields.needed(packed ? "K" : "k");
  if (!fields.text("group_rows").empty()) return read_groups(fields, row, 0, 0);
  const std::int64_t groups = fields.needed(packed ? "ng" : "groups");
  const std::int64_t each = fields.needed(packed ? "M" : "m_per_group");
  read_groups(fields, row, each * groups, groups);
}

// Gate and up in one product, the activation, down, and the permutations around them.
void read_moe_layer(Fields& fields, Measurement& row) {
  row.family = Family::moe_layer;
  set_precision(fields, row);
  row.shape.tokens = fields.needed("tokens");
  row.shape.n = fields.needed("n");
  row.shape.hidden = row.shape.k = fields.needed("k");
  row.shape.top_k = fields.needed("topk");
  row.shape.experts = fields.needed("experts");
  if (fields.integer("ep").value_or(1) != 1) {
    return fields.skip("with ep > 1 every rank goes through all tokens: no time of its own rows");
  }
  read_groups(fields, row, row.shape.tokens * row.shape.top_k, row.shape.experts);
}

void read_attention(Fields& fields, Measurement& row) {
  row.family = Family::attention;
  std::string direction = fields.text("direction");
  if (direction.empty()) direction = row.kind == "sdp_bwd" || row.kind.ends_with("bwd") ? "bwd" : "fwd";
  if (direction != "fwd" && direction != "bwd")
    return fields.skip("direction '" + direction + "' is neither fwd nor bwd");
  row.backward = direction == "bwd";
  set_precision(fields, row);
  if (row.status == Status::ok && row.precision != cost::Precision::bf16) fields.skip("attention is modelled in bf16");
  const bool packed = !fields.text("qk_head_dim").empty();
  row.causal = fields.text("causal") != "0";
  if (!row.causal) fields.skip("only causal attention is modelled");
  row.shape.batch = fields.needed("batch");
  row.shape.seq = fields.needed(packed ? "seq_len" : "seqlen");
  row.shape.heads = fields.needed(packed ? "head_num" : "heads");
  row.shape.kv_heads = fields.integer(packed ? "kv_head_num" : "kv_heads").value_or(row.shape.heads);
  row.shape.qk_dim = fields.needed(packed ? "qk_head_dim" : "head_dim");
  row.shape.v_dim = fields.integer("v_head_dim").value_or(row.shape.qk_dim);
  row.cache_write = fields.text("note").find("KV-cache write") != std::string::npos;
}

void read_memory(Fields& fields, Measurement& row) {
  row.family = Family::memory;
  const std::string name = head_of(row.kind);
  constexpr std::array<const char*, 11> kStreams = {"fp8_static_quant",
                                                    "hbm_stream_copy",
                                                    "hbm_stream_add",
                                                    "hbm_stream_triad",
                                                    "hbm_stream_mul",
                                                    "copy",
                                                    "cast",
                                                    "swiglu",
                                                    "rmsnorm",
                                                    "swiglu_backward",
                                                    "adam"};
  const bool known = std::find(kStreams.begin(), kStreams.end(), name) != kStreams.end() ||
                     name.starts_with("moe_permute") || name.starts_with("permute") || name == "unpermute" ||
                     name == "cross_entropy";
  if (!known) return unknown_kind(fields, row);
  row.shape.bytes = static_cast<double>(fields.needed("bytes", kMostBytes));
}

void read_dispatch(Fields& fields, Measurement& row) {
  row.family = Family::dispatch;
  const std::string name = head_of(row.kind);
  if (name.ends_with("_ll")) return fields.skip("low-latency kernels are for decoding");
  row.backward = name == "ep_combine";
  row.shape.tokens = fields.needed("tokens_per_rank");
  row.shape.hidden = fields.needed("hidden");
  row.shape.top_k = fields.needed("topk");
  row.shape.experts = fields.needed("experts");
  row.shape.sms = fields.integer("comm_sms").value_or(0);
  const bool bf16 = row.kind.ends_with("bf16") || row.backward;  // DeepEP's benchmark sends fp8 and sums bf16
  row.precision = bf16 ? cost::Precision::bf16 : cost::Precision::fp8;
}

// "3-9": the lower rank first.
void read_pair(Fields& fields, Measurement& row) {
  row.pair = fields.text("pair");
  if (row.pair.empty()) return;
  constexpr std::int64_t kMostRank = std::int64_t{1} << 24;
  const auto rank_of = [](std::string_view text) {
    std::int64_t rank = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), rank);
    const bool whole = code == std::errc() && end == text.data() + text.size() && text.front() != '-';
    return whole && rank <= kMostRank ? rank : -1;
  };
  const std::size_t dash = row.pair.find('-');
  const std::string_view text = row.pair;
  const bool parted = dash != std::string::npos && dash > 0 && dash + 1 < text.size();
  const std::int64_t lower = parted ? rank_of(text.substr(0, dash)) : -1;
  const std::int64_t higher = parted ? rank_of(text.substr(dash + 1)) : -1;
  if (lower < 0 || higher <= lower)
    fields.fault("pair", fmt::format("expected two ranks, the lower one first, such as 0-3, got '{}'",
                                     base::shown_cell(row.pair)));
}

// The fabric that a text on the network between hosts speaks of: "EFAv2 32x100G per node".
std::string fabric_named(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::array<std::pair<const char*, const char*>, 6> kFabrics = {{{"efa", "efa"},
                                                                            {"tcpxo", "tcpxo"},
                                                                            {"pollara", "pollara"},
                                                                            {"infiniband", "infiniband"},
                                                                            {"ib ", "infiniband"},
                                                                            {"roce", "roce"}}};
  for (const auto& [part, name] : kFabrics)
    if (text.find(part) != std::string::npos) return name;
  return {};
}

void read_collective(Fields& fields, Measurement& row) {
  row.family = Family::collective;
  row.fabric = fields.text("fabric");
  if (row.fabric.empty()) row.fabric = fabric_named(fields.text("inter"));
  row.algorithm = fields.text("algo");
  const std::string name = head_of(row.kind);
  row.shape.nodes = fields.integer("n_nodes").value_or(1);
  row.shape.ranks = fields.needed(fields.text("ranks").empty() ? "n_gpus" : "ranks");
  if (const auto rate = fields.positive("nic_GBps_per_gpu")) row.nic_bandwidth = *rate * 1e9;
  if (name == "ep_dispatch" || name == "ep_combine" || name.ends_with("_ll")) return read_dispatch(fields, row);
  constexpr std::array<const char*, 8> kNames = {"all_reduce", "all_gather", "reduce_scatter", "alltoall",
                                                 "all2all",    "p2p",        "sendrecv",       "alltoallv"};
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) return unknown_kind(fields, row);
  read_pair(fields, row);
  if (name == "alltoallv") {
    row.byte_matrix = fields.integers("byte_matrix", kMostBytes);
    const auto ranks = static_cast<std::size_t>(std::min<std::int64_t>(row.shape.ranks, kMostMatrixRanks));
    if (row.byte_matrix.size() != ranks * ranks)
      fields.skip("alltoallv without a byte_matrix of one number a pair of ranks");
  }
  const char* size = fields.text("size_bytes").empty() ? "bytes" : "size_bytes";
  if (fields.text(size).empty()) return fields.skip("size_bytes is not stated");
  row.shape.bytes = static_cast<double>(fields.integer(size, 0, kMostBytes).value_or(0));
}

constexpr double kLongestSeconds = 86400;  // no single operation takes a day

void read_time(Fields& fields, Measurement& row) {
  constexpr std::array<std::pair<const char*, double>, 5> kTimes = {
      {{"time_us", 1e-6}, {"oop_us", 1e-6}, {"time_ms_derived", 1e-3}, {"time_ms", 1e-3}, {"time_s", 1.0}}};
  for (const auto& [column, unit] : kTimes) {
    if (fields.text(column).empty()) continue;
    const auto value = fields.positive(column);
    if (!value) return;
    row.seconds = *value * unit;
    if (row.seconds > kLongestSeconds)
      fields.fault(column, fmt::format("expected at most a day, {:g} in this column, got '{}'", kLongestSeconds / unit,
                                       base::shown_cell(fields.text(column))));
    return;
  }
  // A rate and the FLOPs of the shape give the time. SimuMax counts attention without halving it.
  const auto teraflops = fields.positive("tflops"), efficiency = fields.positive("efficiency"),
             peak = fields.positive("peak_tflops");
  const double rate = efficiency && peak ? *efficiency * *peak * 1e12 : teraflops.value_or(0) * 1e12;
  if (row.status != Status::ok || !row.faults.empty()) return;
  const bool whole = row.family == Family::attention && fields.text("source").find("SimuMax") != std::string::npos;
  const double flop = flop_of(row) * (whole ? 2 : 1);
  if (rate > 0 && flop > 0) {
    row.seconds = flop / rate;
    row.from_rate = true;
    if (row.seconds > kLongestSeconds) fields.skip("the rate makes it last for more than a day");
  } else {
    fields.skip("no time is stated");
  }
}

void read_kind(Fields& fields, Measurement& row) {
  fields.unpack("shape");
  row.gpu = fields.first_text({"gpu", "gpu_as_commented"});
  if (fields.text("gpu").empty()) row.gpu = row.gpu.substr(0, row.gpu.find(" ("));  // a comment's own remark
  row.kind = fields.first_text({"collective", "kind", "op", "title"});
  if (row.kind.ends_with("_nccl_test")) row.kind.resize(row.kind.size() - 10);
  row.dtype = fields.text("dtype");
  row.library = fields.first_text({"library", "kernel", "source"});  // a table of one library may name its source only
  row.distribution = fields.text("distribution");
  row.slowdown = fields.text("slowdown");
  row.sm_mhz = fields.positive("sm_mhz").value_or(0);
  const std::string name = head_of(row.kind);
  const bool attention = name.starts_with("sdp_") || name.starts_with("attention") || !fields.text("head_dim").empty();
  const bool grouped = name.starts_with("grouped_gemm") || name == "group_matmul";
  const bool moe_columns = row.cells.contains("m_per_group") || row.cells.contains("groups");
  if (!fields.text("collective").empty() || !fields.text("title").empty()) return read_collective(fields, row);
  if (attention || (row.kind.empty() && row.cells.contains("head_dim"))) return read_attention(fields, row);
  if (grouped) return read_grouped(fields, row);
  if (name == "moe_layer_fwd") return read_moe_layer(fields, row);
  if (moe_columns) {
    row.family = Family::grouped_gemm;
    return unknown_kind(fields, row);
  }
  if (!fields.text("kind").empty() && fields.text("n").empty()) return read_memory(fields, row);
  read_gemm(fields, row);
}

}  // namespace

const std::vector<std::string>& known_columns() {
  static const std::vector<std::string> names = {"case_id",
                                                 "id",
                                                 "gpu",
                                                 "gpu_as_commented",
                                                 "op",
                                                 "kind",
                                                 "collective",
                                                 "title",
                                                 "dtype",
                                                 "library",
                                                 "kernel",
                                                 "source",
                                                 "m",
                                                 "n",
                                                 "k",
                                                 "layout",
                                                 "b",
                                                 "groups",
                                                 "m_per_group",
                                                 "group_rows",
                                                 "tokens",
                                                 "topk",
                                                 "experts",
                                                 "ep",
                                                 "distribution",
                                                 "stage",
                                                 "ng",
                                                 "M",
                                                 "N",
                                                 "K",
                                                 "direction",
                                                 "causal",
                                                 "batch",
                                                 "seqlen",
                                                 "heads",
                                                 "kv_heads",
                                                 "head_dim",
                                                 "v_head_dim",
                                                 "shape",
                                                 "bytes",
                                                 "size_bytes",
                                                 "ranks",
                                                 "n_gpus",
                                                 "n_nodes",
                                                 "nic_GBps_per_gpu",
                                                 "fabric",
                                                 "inter",
                                                 "algo",
                                                 "tokens_per_rank",
                                                 "hidden",
                                                 "comm_sms",
                                                 "time_us",
                                                 "oop_us",
                                                 "time_ms_derived",
                                                 "time_ms",
                                                 "time_s",
                                                 "tflops",
                                                 "efficiency",
                                                 "note",
                                                 "accumulate",
                                                 "out_dtype",
                                                 "main_grad_dtype",
                                                 "peak_tflops"};
  return names;
}

const std::vector<std::string>& device_columns() {
  static const std::vector<std::string> names = {
      "schema",      "record",        "program",     "driver",     "cuda",         "p10_us",  "p90_us",
      "uncertainty", "stopped",       "repetitions", "graph",      "graph_reason", "cold_us", "memory_mhz",
      "power_w",     "temperature_c", "samples_us",  "rotation",   "elements",     "rows",    "ffn",
      "slowdown",    "sm_mhz",        "pair",        "byte_matrix"};
  return names;
}

void read_fields(Measurement& row) {
  Fields fields(row);
  if (row.status != Status::ok) return;  // set aside before its cells were read
  read_kind(fields, row);
  if (row.gpu.empty() && row.faults.empty()) fields.fault("gpu", "expected the GPU, got an empty cell");
  read_time(fields, row);
  if (row.faults.empty()) return;
  row.status = Status::error;
  row.reason.clear();
  for (const base::Fault& fault : row.faults)
    row.reason += (row.reason.empty() ? "" : "; ") + base::format_fault(fault);
}

}  // namespace moeplan::measurements
