#include "timing.h"

#include <algorithm>

namespace moeplan::device {
namespace {

constexpr std::int64_t kBatch = 10;  // samples between two waits
constexpr std::int64_t kColdRuns = 11;
constexpr double kWarmUpSeconds = 10e-3;  // clocks and caches settle

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
  if (timing.reading.available) {
    std::string names;
    for (const std::string& name : slowdown_names(timing.reading.slowdown)) names += (names.empty() ? "" : "; ") + name;
    fields.add("sm_mhz", timing.reading.sm_mhz)
        .add("memory_mhz", timing.reading.memory_mhz)
        .add("power_w", timing.reading.power_w)
        .add("temperature_c", timing.reading.temperature_c)
        .add("slowdown", names);
  }
  return fields.add("samples_us", timing.samples_us);
}

Timer::Timer(int device) : device_((MOEPLAN_CUDA(cudaSetDevice(device)), device)) {
  MOEPLAN_CUDA(cudaGetDeviceProperties(&properties_, device));
  monitor_ = std::make_unique<Monitor>(bus_id(device));
  flush_ = Buffer(2 * static_cast<std::size_t>(std::max(properties_.l2CacheSize, 1 << 20)));
}

void Timer::flush_cache(cudaStream_t stream) {
  MOEPLAN_CUDA(cudaMemsetAsync(flush_.data(), 0x5A, flush_.bytes(), stream));
}

// Runs the work until it has run for kWarmUpSeconds, and says what a repetition took at the end.
double Timer::warm_up_seconds(const Work& work, const TimingOptions& options) {
  const Event first, last;
  double total = 0;
  for (std::int64_t round = 0;;) {
    first.record(stream());
    for (std::int64_t i = 0; i < options.rotation; ++i) work(stream(), round++);
    last.record(stream());
    last.wait();
    const double seconds = seconds_between(first, last);
    total += seconds;
    if (total >= kWarmUpSeconds || round >= 1000) return seconds / static_cast<double>(options.rotation);
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
  StoppingRule rule(options.stopping);
  const Event marks[kBatch + 1];
  while (!rule.done()) {
    sample();
    for (std::int64_t i = 0; i < kBatch; ++i) {
      marks[i].record(stream());
      sample();
    }
    marks[kBatch].record(stream());
    if (rule.samples().empty()) timing.reading = monitor_->read();
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
  if (!options.cold) return timing;
  std::vector<double> cold;
  for (std::int64_t i = 0; i < kColdRuns; ++i) {
    flush_cache(stream());
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
