#include "monitor.h"

#include <dlfcn.h>

#include <utility>

namespace moeplan::device {
namespace {

// NVML's C interface as its documentation states it; its header is not part of every toolkit.
using Code = int;
using Handle = void*;
constexpr Code kDone = 0;
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuSensor = 0;

constexpr std::uint64_t kIdle = 0x1, kApplicationClocks = 0x2, kPowerCap = 0x4, kHardware = 0x8, kSyncBoost = 0x10,
                        kThermal = 0x20, kHardwareThermal = 0x40, kPowerBrake = 0x80, kDisplayClocks = 0x100;
constexpr std::pair<std::uint64_t, const char*> kNames[] = {{kApplicationClocks, "application clocks"},
                                                            {kPowerCap, "power cap"},
                                                            {kHardware, "hardware slowdown"},
                                                            {kSyncBoost, "sync boost"},
                                                            {kThermal, "thermal"},
                                                            {kHardwareThermal, "hardware thermal"},
                                                            {kPowerBrake, "power brake"},
                                                            {kDisplayClocks, "display clocks"}};

template <class... Arguments>
bool call(void* library, const char* name, Arguments... arguments) {
  using Function = Code (*)(Arguments...);
  const auto function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr && function(arguments...) == kDone;
}

}  // namespace

std::vector<std::string> slowdown_names(std::uint64_t bits) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) != 0) names.emplace_back(name);
  }
  return names;
}

bool is_slowed(std::uint64_t bits) {
  return (bits & (kApplicationClocks | kHardware | kSyncBoost | kThermal | kHardwareThermal | kPowerBrake)) != 0;
}

Monitor::Monitor(const std::string& pci_bus_id) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    reason_ = "libnvidia-ml.so.1 cannot be loaded";
    return;
  }
  if (!call(library_, "nvmlInit_v2")) {
    reason_ = "nvmlInit_v2 failed";
    dlclose(library_);
    library_ = nullptr;
    return;
  }
  char version[96] = {};
  if (call(library_, "nvmlSystemGetDriverVersion", static_cast<char*>(version), static_cast<unsigned>(sizeof version)))
    driver_ = version;
  if (!call(library_, "nvmlDeviceGetHandleByPciBusId_v2", pci_bus_id.c_str(), &device_)) {
    device_ = nullptr;
    reason_ = "NVML does not know the device " + pci_bus_id;
    return;
  }
  unsigned value = 0;
  if (call(library_, "nvmlDeviceGetMaxClockInfo", device_, kSmClock, &value)) max_sm_mhz_ = value;
  if (call(library_, "nvmlDeviceGetMaxClockInfo", device_, kMemoryClock, &value)) max_memory_mhz_ = value;
  if (call(library_, "nvmlDeviceGetEnforcedPowerLimit", device_, &value)) power_limit_w_ = value * 1e-3;
}

Monitor::~Monitor() {
  if (library_ == nullptr) return;
  call(library_, "nvmlShutdown");
  dlclose(library_);
}

MemoryReading Monitor::memory() const {
  struct Memory {
    unsigned long long total, free, used;
  } memory{};
  if (device_ == nullptr || !call(library_, "nvmlDeviceGetMemoryInfo", device_, &memory)) return {};
  return {memory.total, memory.used};
}

Reading Monitor::read() const {
  Reading reading;
  if (device_ == nullptr) return reading;
  unsigned value = 0;
  unsigned long long bits = 0;
  if (call(library_, "nvmlDeviceGetClockInfo", device_, kSmClock, &value)) reading.sm_mhz = value;
  if (call(library_, "nvmlDeviceGetClockInfo", device_, kMemoryClock, &value)) reading.memory_mhz = value;
  if (call(library_, "nvmlDeviceGetPowerUsage", device_, &value)) reading.power_w = value * 1e-3;
  if (call(library_, "nvmlDeviceGetTemperature", device_, kGpuSensor, &value)) reading.temperature_c = value;
  if (call(library_, "nvmlDeviceGetCurrentClocksEventReasons", device_, &bits) ||
      call(library_, "nvmlDeviceGetCurrentClocksThrottleReasons", device_, &bits))
    reading.slowdown = bits & ~kIdle;
  reading.available = reading.sm_mhz > 0;
  return reading;
}

}  // namespace moeplan::device
