#include "samples.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace moeplan::device {
namespace {

constexpr std::size_t kFewestForInterval = 6;

double between(const std::vector<double>& sorted, double place) {
  const auto low = static_cast<std::size_t>(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

double quantile_of(std::vector<double> samples, double share) {
  if (samples.empty()) throw std::invalid_argument("a quantile of no samples");
  std::sort(samples.begin(), samples.end());
  return between(samples, share * static_cast<double>(samples.size() - 1));
}

double median_of(std::vector<double> samples) { return quantile_of(std::move(samples), 0.5); }

double median_uncertainty(std::vector<double> samples) {
  if (samples.size() < kFewestForInterval) return 1;
  std::sort(samples.begin(), samples.end());
  const auto last = static_cast<double>(samples.size() - 1);
  const double reach = 0.98 * std::sqrt(static_cast<double>(samples.size()));
  const double low = between(samples, std::max(last / 2 - reach, 0.0));
  const double high = between(samples, std::min(last / 2 + reach, last));
  return (high - low) / 2 / between(samples, last / 2);
}

const char* stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::running:
      return "running";
    case StopReason::certain:
      return "certain";
    case StopReason::samples:
      return "samples";
    case StopReason::time:
      return "time";
  }
  return "unknown";
}

void StoppingRule::add(double value, double seconds) {
  samples_.push_back(value);
  seconds_ += seconds;
}

StopReason StoppingRule::reason() const {
  const auto count = static_cast<std::int64_t>(samples_.size());
  if (count < options_.least) return StopReason::running;
  if (median_uncertainty(samples_) <= options_.uncertainty) return StopReason::certain;
  if (count >= options_.most) return StopReason::samples;
  return seconds_ >= options_.most_seconds ? StopReason::time : StopReason::running;
}

std::int64_t repetitions_for(double seconds_each, double sample_seconds, std::int64_t most) {
  if (!(seconds_each > 0)) return most;
  const double wanted = std::ceil(sample_seconds / seconds_each);
  return wanted >= static_cast<double>(most) ? most : std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}

std::int64_t rotation_for(double bytes, double cache_bytes, std::int64_t most) {
  if (!(bytes > 0)) return 1;
  const double wanted = std::ceil(static_cast<double>(kCacheFills) * cache_bytes / bytes) + 1;
  return wanted >= static_cast<double>(most) ? most : std::max<std::int64_t>(1, static_cast<std::int64_t>(wanted));
}

}  // namespace moeplan::device
