#include <cublasLt.h>

#include <ctime>

#include "lt_product.h"
#include "options.h"
#include "run.h"

namespace moeplan::device {
namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

void write_device(LineWriter& writer, const Timer& timer) {
  const cudaDeviceProp& p = timer.properties();
  const Monitor& monitor = timer.monitor();
  std::size_t free = 0, total = 0;
  MOEPLAN_CUDA(cudaMemGetInfo(&free, &total));
  JsonObject fields;
  fields.add("date", today())
      .add("capability", std::to_string(p.major) + "." + std::to_string(p.minor))
      .add("sm_count", p.multiProcessorCount)
      .add("memory_bytes", static_cast<std::int64_t>(total))
      .add("l2_bytes", p.l2CacheSize)
      .add("ecc", p.ECCEnabled != 0)
      .add("cublaslt", LtHandle::version());
  if (monitor.available()) {
    const Reading reading = monitor.read();
    fields.add("max_sm_mhz", monitor.max_sm_mhz())
        .add("max_memory_mhz", monitor.max_memory_mhz())
        .add("power_limit_w", monitor.power_limit_w())
        .add("idle_sm_mhz", reading.sm_mhz)
        .add("temperature_c", reading.temperature_c);
  } else {
    fields.add("clocks", "not read: " + monitor.reason());
  }
  writer.write("device", fields);
}

int probe_command(const std::vector<std::string>& words) {
  Common common;
  Options options;
  if (!read_words("probe", options, common, words)) return 0;
  require_device(common.device);
  const int device = static_cast<int>(common.device);
  // What a process takes before it allocates anything: the context and the kernels that are loaded with it. The name of
  // the device on its bus is told without one.
  char bus[64] = {};
  MOEPLAN_CUDA(cudaDeviceGetPCIBusId(bus, static_cast<int>(sizeof bus), device));
  const MemoryReading before = Monitor(bus).memory();
  MOEPLAN_CUDA(cudaSetDevice(device));
  MOEPLAN_CUDA(cudaFree(nullptr));
  const MemoryReading after = Monitor(bus).memory();
  Session session(common);
  LineWriter& writer = session.writer;
  write_value(writer, "device.sm_count", session.timer.properties().multiProcessorCount, "as the runtime says");
  if (after.total_bytes > 0)
    write_value(writer, "device.memory_capacity", static_cast<double>(after.total_bytes), "total of NVML");
  if (after.used_bytes > before.used_bytes && before.total_bytes > 0)
    write_value(writer, "overheads.context", static_cast<double>(after.used_bytes - before.used_bytes),
                "memory in use of NVML with this program's context, less that without it");
  writer.finish();
  return 0;
}

}  // namespace moeplan::device
