#pragma once
#include <cstdint>
#include <string>
#include <vector>

// Clocks, power and what slows the part down, read through NVML. The library is loaded when the program runs, so that
// nothing links against it; where it is absent, readings say so. Only ever read: no setting is changed.
namespace moeplan::device {

struct Reading {
  bool available = false;
  std::int64_t sm_mhz = 0, memory_mhz = 0;  // 0: not told
  double power_w = 0;
  std::int64_t temperature_c = 0;
  std::uint64_t slowdown = 0;  // bits of NVML's reasons for clocks below the highest
};

// Of the device, as nvidia-smi counts it; 0: not told.
struct MemoryReading {
  std::uint64_t total_bytes = 0, used_bytes = 0;
};

// Names of the bits, without those that mean no load: "power cap", "thermal", ...
std::vector<std::string> slowdown_names(std::uint64_t bits);
// Whether the bits hold a cause that makes timings slower than the part can be: power brake, thermal, a clock that
// somebody set. The power cap alone is how large products run on these parts.
bool is_slowed(std::uint64_t bits);

class Monitor {
 public:
  explicit Monitor(const std::string& pci_bus_id);  // of the device to watch, as the runtime writes it
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  Reading read() const;
  MemoryReading memory() const;
  bool available() const { return device_ != nullptr; }
  const std::string& reason() const { return reason_; }  // why it is not
  const std::string& driver() const { return driver_; }  // "580.95.05"; empty: not told
  std::int64_t max_sm_mhz() const { return max_sm_mhz_; }
  std::int64_t max_memory_mhz() const { return max_memory_mhz_; }
  double power_limit_w() const { return power_limit_w_; }  // the one in force

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;
  std::string reason_, driver_;
  std::int64_t max_sm_mhz_ = 0, max_memory_mhz_ = 0;
  double power_limit_w_ = 0;
};

}  // namespace moeplan::device
