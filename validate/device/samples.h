#pragma once
#include <cstdint>
#include <vector>

// Statistics of repeated timings and the rule that ends them. Plain C++17 without CUDA.
namespace moeplan::device {

// Between two samples by interpolation; `share` in [0, 1], at least one sample.
double quantile_of(std::vector<double> samples, double share);
double median_of(std::vector<double> samples);

// Half the width of the 95 % interval of the median, over the median: between the samples that stand 0.98 sqrt(n)
// places below and above the middle (a binomial count of samples below the true median). No distribution is assumed,
// so single late samples do not keep a measurement going. 1 for fewer than 6 samples, which hold no such interval.
double median_uncertainty(std::vector<double> samples);

struct StoppingOptions {
  std::int64_t least = 20, most = 200;  // samples
  double uncertainty = 0.005;           // of the median: below it the median is known well enough
  double most_seconds = 0.3;            // of all samples together; least samples are taken all the same
};

enum class StopReason { running, certain, samples, time };
const char* stop_reason_name(StopReason reason);

// Fed with one sample after another.
class StoppingRule {
 public:
  explicit StoppingRule(const StoppingOptions& options) : options_(options) {}
  // `seconds`: what the sample took on the device, all its repetitions together; `value`: what is recorded of it.
  void add(double value, double seconds);
  StopReason reason() const;
  bool done() const { return reason() != StopReason::running; }
  const std::vector<double>& samples() const { return samples_; }

 private:
  StoppingOptions options_;
  std::vector<double> samples_;
  double seconds_ = 0;
};

// Repetitions of an operation in one sample: so many that a sample takes `sample_seconds`, from 1 to `most`.
std::int64_t repetitions_for(double seconds_each, double sample_seconds, std::int64_t most);

// Sets of buffers to rotate over so that an operation that touches `bytes` finds nothing of its last use in a cache of
// `cache_bytes`: enough that the sets between two uses fill it `kCacheFills` times, from 1 to `most`. kMostSets reaches
// that from 2 * cache / 2047 on: 51 KB with 50 MB of L2.
inline constexpr std::int64_t kCacheFills = 2, kMostSets = 2048;
std::int64_t rotation_for(double bytes, double cache_bytes, std::int64_t most = kMostSets);

}  // namespace moeplan::device
