#include "timing.h"

#include <algorithm>
#include <chrono>

namespace moeplan::device {
namespace {

constexpr std::int64_t kBatch = 10;  // samples between two waits
constexpr std::int64_t kColdRuns = 11;
constexpr double kWarmUpSeconds = 10e-3;  // clocks and caches settle
constexpr double kWarmUpLimit = 1;        // of wall time, for what hardly runs on the device
// NVML's calls take up to some milliseconds: so much work is in the queue while they are made, at least, and each time
// that it was not enough, twice as much.
constexpr double kReadingSeconds = 5e-3;
constexpr int kReadings = 4;

// A captured graph of some repetitions; empty where the work could not be captured.
class Graph {
 public:
  Graph(const Work& work, std::int64_t repetitions, cudaStream_t stream) {
    // Relaxed: libraries may allocate while they are captured.
    MOEPLAN_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    try {
      for (std::int64_t i = 0; i < repetitions; ++i) work(stream, i);
    } catch (const std::exception& error) {
      reason_ = error.what();
    }
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph_);
    if (ended != cudaSuccess && reason_.empty()) reason_ = cudaGetErrorString(ended);
    if (reason_.empty()) {
      const cudaError_t made = cudaGraphInstantiateWithFlags(&replay_, graph_, 0);
      if (made != cudaSuccess) reason_ = cudaGetErrorString(made);
    }
    if (!reason_.empty()) {
      replay_ = nullptr;
      cudaGetLastError();
    }
  }
  ~Graph() {
    if (replay_ != nullptr) cudaGraphExecDestroy(replay_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  bool usable() const { return replay_ != nullptr; }
  const std::string& reason() const { return reason_; }
  void replay(cudaStream_t stream) const { MOEPLAN_CUDA(cudaGraphLaunch(replay_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t replay_ = nullptr;
  std::string reason_;
};

std::string bus_id(int device) {
  char id[64] = {};
  MOEPLAN_CUDA(cudaDeviceGetPCIBusId(id, static_cast<int>(sizeof id), device));
  return id;
}

}  // namespace

JsonObject timing_fields(const Timing& timing) {
  JsonObject fields;
  fields.add("time_us", timing.median_us)
      .add("p10_us", timing.p10_us)
      .add("p90_us", timing.p90_us)
      .add("uncertainty", timing.uncertainty)
      .add("stopped", stop_reason_name(timing.stopped))
      .add("repetitions", timing.repetitions)
      .add("graph", timing.graph);
  if (!timing.graph_reason.empty()) fields.add("graph_reason", timing.graph_reason);
  if (timing.cold_us > 0) fields.add("cold_us", timing.cold_us);
  fields.add(reading_fields(timing.reading));
  return fields.add("samples_us", timing.samples_us);
}

JsonObject reading_fields(const Reading& reading) {
  JsonObject fields;
  if (!reading.available) return fields;
  std::string names;
  for (const std::string& name : slowdown_names(reading.slowdown)) names += (names.empty() ? "" : "; ") + name;
  return fields.add("sm_mhz", reading.sm_mhz)
      .add("memory_mhz", reading.memory_mhz)
      .add("power_w", reading.power_w)
      .add("temperature_c", reading.temperature_c)
      .add("slowdown", names);
}

Timer::Timer(int device) : device_((MOEPLAN_CUDA(cudaSetDevice(device)), device)) {
  MOEPLAN_CUDA(cudaGetDeviceProperties(&properties_, device));
  monitor_ = std::make_unique<Monitor>(bus_id(device));
  try {
    flush_ = Buffer(2 * static_cast<std::size_t>(std::max(properties_.l2CacheSize, 1 << 20)));
  } catch (const DeviceError&) {
    // Nearly full: what can be measured is, without cold runs.
  }
}

void Timer::flush_cache() { MOEPLAN_CUDA(cudaMemsetAsync(flush_.data(), 0x5A, flush_.bytes(), stream())); }

Reading Timer::read_before(const Event& last) const {
  Reading reading = monitor_->read();
  const cudaError_t state = cudaEventQuery(last.get());
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // it counts as an error until it is asked for
    return reading;
  }
  MOEPLAN_CUDA(state);
  return {};
}

// Runs the work until it has run for kWarmUpSeconds, and says what a repetition took at the end.
double Timer::warm_up_seconds(const Work& work, const TimingOptions& options) {
  const Event first, last;
  const auto begin = std::chrono::steady_clock::now();
  double total = 0;
  std::int64_t round = 0;
  for (std::int64_t turns = 1;; turns *= 2) {
    first.record(stream());
    for (std::int64_t i = 0; i < turns * options.rotation; ++i) work(stream(), round++);
    last.record(stream());
    last.wait();
    const double seconds = seconds_between(first, last);
    total += seconds;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (total >= kWarmUpSeconds || waited.count() >= kWarmUpLimit)
      return seconds / static_cast<double>(turns * options.rotation);
  }
}

Timing Timer::time(const Work& work, const TimingOptions& options) {
  Timing timing;
  const double each = warm_up_seconds(work, options);
  timing.repetitions = repetitions_for(each, options.sample_seconds, options.most_repetitions);
  const std::int64_t rounds = (timing.repetitions + options.rotation - 1) / options.rotation;
  timing.repetitions = std::max<std::int64_t>(rounds, 1) * options.rotation;
  std::unique_ptr<Graph> graph;
  if (options.graph) {
    graph = std::make_unique<Graph>(work, timing.repetitions, stream());
    timing.graph = graph->usable();
    timing.graph_reason = graph->reason();
  }
  std::int64_t round = 0;
  const auto sample = [&] {
    if (timing.graph) return graph->replay(stream());
    for (std::int64_t i = 0; i < timing.repetitions; ++i) work(stream(), round++);
  };
  // A batch is enqueued as a whole, with one sample ahead that is not counted: no gap of the host lies in a sample.
  // More are ahead of the batches during which clocks are read.
  const double sample_seconds = std::max(each * static_cast<double>(timing.repetitions), 1e-6);
  auto ahead = static_cast<std::int64_t>(kReadingSeconds / sample_seconds) + 1;
  int readings = monitor_->available() ? 0 : kReadings;
  StoppingRule rule(options.stopping);
  const Event marks[kBatch + 1];
  while (!rule.done()) {
    const bool reads = readings < kReadings && !timing.reading.available;
    for (std::int64_t i = 0; i < (reads ? ahead : 1); ++i) sample();
    for (std::int64_t i = 0; i < kBatch; ++i) {
      marks[i].record(stream());
      sample();
    }
    marks[kBatch].record(stream());
    if (reads) {
      timing.reading = read_before(marks[kBatch]);
      ahead *= 2;
      ++readings;
    }
    marks[kBatch].wait();
    for (std::int64_t i = 0; i < kBatch && !rule.done(); ++i) {
      const double seconds = seconds_between(marks[i], marks[i + 1]);
      rule.add(seconds * 1e6 / static_cast<double>(timing.repetitions), seconds);
    }
  }
  timing.samples_us = rule.samples();
  timing.stopped = rule.reason();
  timing.median_us = median_of(timing.samples_us);
  timing.p10_us = quantile_of(timing.samples_us, 0.1);
  timing.p90_us = quantile_of(timing.samples_us, 0.9);
  timing.uncertainty = median_uncertainty(timing.samples_us);
  if (!options.cold || flush_.bytes() == 0) return timing;
  std::vector<double> cold;
  for (std::int64_t i = 0; i < kColdRuns; ++i) {
    flush_cache();
    marks[0].record(stream());
    work(stream(), i);
    marks[1].record(stream());
    marks[1].wait();
    cold.push_back(seconds_between(marks[0], marks[1]) * 1e6);
  }
  timing.cold_us = median_of(cold);
  return timing;
}

}  // namespace moeplan::device
