#include <chrono>

#include "basic_kernels.h"
#include "run.h"

namespace moeplan::device {

// What an empty kernel takes on the device in a chain that a graph replays, and what the host takes to launch one.
void measure_launches(Run& run) {
  TimingOptions options;
  options.most_repetitions = 256;
  options.sample_seconds = 500e-6;
  const Timing chain = run.timer.time([](cudaStream_t stream, std::int64_t) { launch_empty(stream); }, options);
  run.writer.write("measurement",
                   JsonObject().add("kind", "launch_graph").add("library", "moeplan").add(timing_fields(chain)));
  options.graph = false;
  const Timing loop = run.timer.time([](cudaStream_t stream, std::int64_t) { launch_empty(stream); }, options);
  run.writer.write("measurement",
                   JsonObject().add("kind", "launch_stream").add("library", "moeplan").add(timing_fields(loop)));
  // Host seconds of the call alone: the queue holds more than this many launches, so no call waits for the device.
  constexpr int kLaunches = 500;
  std::vector<double> samples;
  for (int sample = 0; sample < 21; ++sample) {
    MOEPLAN_CUDA(cudaStreamSynchronize(run.timer.stream()));
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch_empty(run.timer.stream());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    samples.push_back(taken.count() / kLaunches);
  }
  MOEPLAN_CUDA(cudaStreamSynchronize(run.timer.stream()));
  write_value(run.writer, "host.launch", median_of(samples),
              "host time of one launch of an empty kernel, median of 21 times 500");
}

}  // namespace moeplan::device
