#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "measurements/measurement.h"

// Runs of whole MoE layers that `moeplan-device layer` timed: JSON lines of schema "moeplan.layer/1"
// (docs/calibration.md, Layer runs).
namespace moeplan::measurements {

struct LayerRun {
  base::Where where;
  std::string gpu, program, driver, cuda, library, distribution;
  std::string backward;  // "kept", "recompute", "redispatch"
  std::int64_t tokens = 0, hidden = 0, ffn = 0, experts = 0, top_k = 0, chunks = 1;
  double retention = 1;
  std::vector<std::int64_t> chunk_rows;     // [chunks * experts]: rows of each expert in each chunk
  std::vector<std::int64_t> retained_rows;  // [experts]; redispatch
  std::int64_t steps = 0;                   // that count
  double forward_s = 0, backward_s = 0;
  double forward_uncertainty = 0, backward_uncertainty = 0;  // half the 95 % interval of the median, over the median
  std::int64_t forward_peak_bytes = 0, backward_peak_bytes = 0;
  std::int64_t peak_allocated_bytes = 0, peak_reserved_bytes = 0;  // the larger of both; segments, never less
  Status status = Status::ok;
  std::string reason;               // why it is set aside
  std::vector<base::Fault> faults;  // of status error
};

struct LayerRunFile {
  std::string file;
  std::vector<LayerRun> runs;
  std::vector<base::Fault> faults;    // of lines that are no runs: broken, or the end of a run that is missing
  std::vector<std::string> left_out;  // what the program did not run, and why
};

// Every line by itself: what cannot be read, or says what cannot be, has status error and the fault's place. Lines of
// another device or other versions than the first run's are errors. Throws base::Error for a file without runs.
LayerRunFile parse_layer_runs(std::string_view text, const std::string& file);
LayerRunFile read_layer_runs(const std::string& path);

}  // namespace moeplan::measurements
