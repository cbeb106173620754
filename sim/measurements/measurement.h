#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/kernels.h"

// One timed operation of a GPU, as tables of single-kernel timings state it (docs/operators.md lists the columns).
namespace moeplan::measurements {

constexpr double real(std::int64_t value) { return static_cast<double>(value); }

enum class Family { gemm, grouped_gemm, moe_layer, attention, memory, collective, dispatch };
const char* family_name(Family family);  // "gemm", "grouped_gemm", "moe_layer", ...

enum class Status { ok, skipped, error };
const char* status_name(Status status);

struct Cell {
  std::string text;
  base::Where where;
};
using Cells = std::map<std::string, Cell, std::less<>>;  // as written, by column

// Sizes that the kind of operation does not have stay 0.
struct Shape {
  std::int64_t m = 0, n = 0, k = 0;  // gemm: C[m,n] = A[m,k] B[k,n]; grouped: one weight [k, n] a group
  std::int64_t tokens = 0, hidden = 0, inter = 0, top_k = 0, experts = 0;  // moe_layer, dispatch (tokens of one rank)
  std::int64_t batch = 0, heads = 0, kv_heads = 0, seq = 0, qk_dim = 0, v_dim = 0;  // attention
  double bytes = 0;  // memory: read plus written; collective: as nccl-tests counts them
  std::int64_t ranks = 0, nodes = 0, sms = 0;
};

struct Measurement {
  base::Where where;  // the line
  std::string id, gpu, kind, dtype, library, distribution;
  Family family = Family::gemm;
  cost::Precision precision = cost::Precision::bf16;
  cost::GemmPass pass = cost::GemmPass::forward;  // gemm and grouped_gemm
  double gradient_bytes = cost::kGradientBytes;   // wgrad: read and written an element
  bool backward = false, causal = true;           // attention; dispatch: backward is combine
  bool cache_write = false;                       // attention that also writes keys and values to a paged cache
  Shape shape;
  std::vector<std::int64_t> group_rows;   // grouped_gemm and moe_layer: rows of each group on this GPU
  std::optional<double> nic_bandwidth;    // bytes/s a GPU, where the row states it
  std::string fabric;                     // between hosts, by the name that profiles use; empty: not stated
  std::string algorithm;                  // of the collective library, as written
  double seconds = 0;                     // > 0 where status is ok
  bool from_rate = false;                 // seconds come from a rate and the FLOPs of the shape
  std::vector<std::int64_t> byte_matrix;  // alltoallv: bytes from rank i to rank j at [i * ranks + j]
  std::string pair;                       // sendrecv: which two ranks of a larger job, "0-3"
  double sm_mhz = 0;                      // clock while it ran; 0: not told
  std::string slowdown;                   // what held the clock down meanwhile, as the driver calls it
  Status status = Status::ok;
  std::string reason;               // why it is set aside, or what is wrong with it
  std::vector<base::Fault> faults;  // cells that cannot be read
  Cells cells;
};

// FLOPs of the operation: 2mnk; causal attention halved, backward 2.5 times forward; 0 for what has none.
double flop_of(const Measurement& measurement);
// Rows of each group: as even as whole numbers allow, the first groups one more. Groups beyond the rows are empty.
std::vector<std::int64_t> even_rows(std::int64_t rows, std::int64_t groups);

struct DeviceLines;

struct MeasurementTable {
  std::string file;
  std::vector<std::string> columns;  // of the header, or keys of the objects, in order of appearance
  std::vector<std::string> notes;    // columns that nobody reads
  std::vector<Measurement> rows;
  std::shared_ptr<const DeviceLines> device;  // lines of moeplan-device that are no rows (device_lines.h); null: none
};

}  // namespace moeplan::measurements
