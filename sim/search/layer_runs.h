#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measurements/layer_run.h"
#include "measurements/profiles.h"
#include "search/layer_prediction.h"
#include "search/operators.h"

// `moeplan validate --layer`: runs of whole MoE layers beside what the plan says of them.
namespace moeplan::search {

struct LayerRow {
  const measurements::LayerRun* run = nullptr;
  measurements::Status status = measurements::Status::ok;
  std::string reason;   // why it is not compared, or what is wrong with it
  std::string profile;  // id
  std::optional<LayerPrediction> predicted;
};

// What is compared of a run; errors are predicted / measured - 1.
enum class LayerMetric { forward_time, backward_time, step_time, forward_peak, backward_peak, reserved };
inline constexpr int kLayerMetrics = 6;
const char* layer_metric_name(LayerMetric metric);  // "forward time", ...
double measured_of(const measurements::LayerRun& run, LayerMetric metric);
double predicted_of(const LayerPrediction& prediction, LayerMetric metric);

struct LayerSummary {
  std::string by, value;  // "total"; "backward", "chunks", "distribution", "retention", "library" and which
  std::int64_t count = 0;
  struct Errors {
    double median_absolute = 0, worst_absolute = 0, mean = 0;
  };
  std::vector<Errors> errors;  // in the order of LayerMetric
};

// Recomputed runs that differ in chunk count alone: the highest bytes as A + B / chunks, by least squares, and how much
// longer the step is than that with the fewest chunks.
struct ChunkCurve {
  std::string distribution, library;
  std::int64_t tokens = 0, hidden = 0, ffn = 0, experts = 0, top_k = 0;
  std::vector<std::int64_t> chunks;  // ascending
  struct Side {
    double fixed_bytes = 0, divided_bytes = 0;  // A, B
    double worst_residual = 0;                  // of the form, relative to the bytes
    std::vector<double> bytes, step_s;
  };
  Side measured, predicted;
};

struct LayerValidation {
  std::string file;
  std::vector<LayerRow> rows;  // of the file, in its order; they point into it
  std::vector<base::Fault> faults;
  std::vector<std::string> left_out;
  std::int64_t ok = 0, skipped = 0, errors = 0;
  std::vector<LayerSummary> summary;  // the total first
  std::vector<ChunkCurve> curves;
};

// `fixed`: the profile of every run, else the one that the run's GPU names. A fixed profile that does not name the
// run's GPU sets the run aside.
LayerValidation validate_layers(const measurements::LayerRunFile& file, const measurements::Profiles& profiles,
                                const topology::HardwareProfile* fixed);

}  // namespace moeplan::search
