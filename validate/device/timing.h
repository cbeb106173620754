#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "json_lines.h"
#include "monitor.h"
#include "resources.h"
#include "samples.h"

// How the device program times an operation (docs/calibration.md, How a time is taken).
namespace moeplan::device {

// Enqueues the operation once on `stream`, and nothing else: no allocation, no wait. `round` counts the repetitions
// from 0; an operation with several sets of buffers uses set round % sets, so that repeated runs do not measure a
// cache.
using Work = std::function<void(cudaStream_t stream, std::int64_t round)>;

struct TimingOptions {
  StoppingOptions stopping;
  double sample_seconds = 200e-6;  // repetitions of one sample: so long that the events' own resolution is small
  std::int64_t most_repetitions = 256;
  std::int64_t rotation = 1;  // sets of buffers of the work: a sample repeats it a multiple of that
  bool graph = true;          // replay a captured graph; false: launch by launch
  bool cold = false;          // also time single runs, each after the L2 cache was overwritten, where there is room
};

struct Timing {
  std::vector<double> samples_us;  // of one repetition, in order
  double median_us = 0, p10_us = 0, p90_us = 0;
  double uncertainty = 0;  // of the median, relative, at 95 %
  StopReason stopped = StopReason::running;
  std::int64_t repetitions = 0;  // of one sample
  bool graph = false;            // what was replayed; graph_reason: why there was none though asked for
  std::string graph_reason;
  double cold_us = 0;  // median of the cold runs; 0: not taken
  Reading reading;     // taken while the work ran; not available where none was done before the work was
};

// time_us, samples_us, p10_us, p90_us, uncertainty, stopped, repetitions, graph, cold_us, sm_mhz, memory_mhz, power_w,
// temperature_c, slowdown: in the order in which lines show them.
JsonObject timing_fields(const Timing& timing);
// The last five of these; none where nothing was read.
JsonObject reading_fields(const Reading& reading);

// One device, its stream, its monitor and the buffer that flushes its cache.
class Timer {
 public:
  explicit Timer(int device);  // makes it the current device; throws DeviceError

  Timing time(const Work& work, const TimingOptions& options);
  // Reads clocks and power while what was enqueued on the stream still runs up to `last`; not available where it had
  // ended before the reading had.
  Reading read_before(const Event& last) const;

  const cudaDeviceProp& properties() const { return properties_; }
  const Monitor& monitor() const { return *monitor_; }
  cudaStream_t stream() const { return stream_.get(); }
  int device() const { return device_; }

 private:
  // Overwrites more than the L2 cache holds.
  void flush_cache();
  double warm_up_seconds(const Work& work, const TimingOptions& options);
  int device_ = 0;
  cudaDeviceProp properties_{};
  std::unique_ptr<Monitor> monitor_;
  Stream stream_;
  Buffer flush_;  // empty on a device without room for it
};

}  // namespace moeplan::device
