#include <cstring>

#include "basic_kernels.h"
#include "fill.h"
#include "run.h"
#include "shapes.h"

namespace moeplan::device {
namespace {

constexpr std::int64_t kSmallest = std::int64_t{64} << 10, kLargest = std::int64_t{4} << 30;  // of one buffer

struct Stream3 {
  const char* kind;
  int reads, writes;  // buffers
};
// The copy engine is what frameworks' copies use; the kernels show what code of ours reaches.
constexpr Stream3 kStreams[] = {
    {"copy", 1, 1}, {"hbm_stream_copy", 1, 1}, {"hbm_stream_triad", 2, 1}, {"hbm_stream_read", 1, 0}};

void enqueue(const std::string& kind, unsigned char* to, const unsigned char* from, const unsigned char* other,
             std::size_t bytes, cudaStream_t stream) {
  if (kind == "copy") {
    MOEPLAN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  } else if (kind == "hbm_stream_copy") {
    launch_copy(to, from, bytes, 0, stream);
  } else if (kind == "hbm_stream_triad") {
    launch_triad(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from),
                 reinterpret_cast<const float*>(other), 1.5f, bytes / sizeof(float), stream);
  } else {
    launch_read(reinterpret_cast<unsigned*>(to), from, bytes, stream);
  }
}

// Pinned host memory, one direction at a time: what offloaded activations and checkpoints travel at.
void measure_host_link(Run& run) {
  const std::size_t bytes = std::size_t{256} << 20;
  const HostBuffer host(bytes);
  std::memset(host.data(), 0x3C, bytes);
  const Buffer device(bytes);
  fill_random(device.data(), bytes, Element::bytes, 1, run.seed, run.timer.stream());
  double slower = 0;
  for (const bool up : {true, false}) {
    TimingOptions options;
    options.graph = false;
    options.most_repetitions = 1;
    options.stopping.most_seconds = 1;
    const Timing timing = run.timer.time(
        [&](cudaStream_t stream, std::int64_t) {
          MOEPLAN_CUDA(cudaMemcpyAsync(up ? device.data() : host.data(), up ? host.data() : device.data(), bytes,
                                       up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream));
        },
        options);
    run.writer.write("measurement", JsonObject()
                                        .add("kind", up ? "host_to_device" : "device_to_host")
                                        .add("bytes", static_cast<std::int64_t>(bytes))
                                        .add("library", "cuda copy engine")
                                        .add(timing_fields(timing)));
    slower = std::max(slower, timing.median_us);
  }
  write_value(run.writer, "network.host_link_bandwidth", static_cast<double>(bytes) / (slower * 1e-6),
              "256 MiB of pinned memory, the slower direction");
}

}  // namespace

void measure_copies(Run& run, const Budget& budget) {
  attempt(run.writer, "copies between host and device", [&] { measure_host_link(run); });
  const auto most = static_cast<std::int64_t>(free_bytes() / 6);
  const std::int64_t largest = std::min(kLargest, most / 2);
  const std::vector<std::int64_t> sizes = size_ladder(kSmallest, largest, 2);
  if (sizes.empty()) return write_left_out(run.writer, "copies", "the device has too little free memory");
  // One region for each role; sets of small sizes are parts of it.
  const auto region = static_cast<std::size_t>(sizes.back());
  Buffer from(region), other(region), to(std::max(region, read_sum_bytes()));
  fill_random(from.data(), region / 4, Element::fp32, 1, run.seed, run.timer.stream());
  fill_random(other.data(), region / 4, Element::fp32, 1, run.seed + 1, run.timer.stream());
  // The largest decide the bandwidth: where time runs out, the small ones are left out.
  for (auto next = sizes.rbegin(); next != sizes.rend(); ++next) {
    const std::int64_t size = *next;
    for (const Stream3& kind : kStreams) {
      if (!budget.left()) return write_left_out(run.writer, "copies up to some size", "the time was used up");
      const auto bytes = static_cast<std::size_t>(size);
      const double touched = static_cast<double>(size) * (kind.reads + kind.writes);
      const std::int64_t sets =
          std::min({rotation_for(touched, run.timer.properties().l2CacheSize), sizes.back() / size});
      TimingOptions options;
      options.rotation = sets;
      options.cold = true;
      options.stopping.most_seconds = 0.2;
      attempt(run.writer, std::string(kind.kind) + " of " + std::to_string(size) + " bytes a buffer", [&] {
        const Timing timing = run.timer.time(
            [&](cudaStream_t stream, std::int64_t round) {
              const std::size_t at = static_cast<std::size_t>(round % sets) * bytes;
              enqueue(kind.kind, kind.writes == 0 ? to.as<unsigned char>() : to.as<unsigned char>() + at,
                      from.as<unsigned char>() + at, other.as<unsigned char>() + at, bytes, stream);
            },
            options);
        run.writer.write("measurement",
                         JsonObject()
                             .add("kind", kind.kind)
                             .add("bytes", static_cast<std::int64_t>(touched))
                             .add("library", std::string(kind.kind) == "copy" ? "cuda copy engine" : "moeplan")
                             .add("rotation", sets)
                             .add(timing_fields(timing)));
      });
    }
  }
}

}  // namespace moeplan::device
