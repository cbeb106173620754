#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "measurements/measurement.h"

// Lines of moeplan-device that are no timed operation: what the device was, values that are read off, products beside
// copies (docs/calibration.md, The lines).
namespace moeplan::measurements {

struct DeviceLine {
  base::Where where;
  std::string program, gpu, driver, cuda;
  double max_sm_mhz = 0, power_limit_w = 0;  // 0: not told
};

// A value of a hardware profile that needs no fit, in base units.
struct ReadOffValue {
  base::Where where;
  std::string gpu, key, how;
  double value = 0;
};

// Large products while something copies beside them.
struct Overlap {
  base::Where where;
  std::string gpu, copy;  // "sms" (a kernel on so many multiprocessors), "to_host", "to_device", "device"
  std::int64_t sms = 0;
  double alone_s = 0, beside_s = 0;  // one product
};

// What the first line that tells it says of the program, the driver and CUDA. Empty text: no line does.
struct Software {
  base::Where where;
  std::string gpu, text;
  std::string program, driver;  // the program's name without its version
};

struct DeviceLines {
  Software software;
  std::vector<DeviceLine> devices;
  std::vector<ReadOffValue> values;
  std::vector<Overlap> overlaps;
  std::vector<base::Fault> set_aside;  // lines that cannot be used, and checks of the program that failed
  std::int64_t checks = 0, failed_checks = 0;
  std::vector<std::string> left_out;  // what the program did not measure: "attention: why"
};

// The keys of profiles that a value line may hold.
const std::vector<std::string>& read_off_keys();

// Takes the lines of one file in order. A run of the program begins with a device line and ends with an end line.
class DeviceReader {
 public:
  explicit DeviceReader(DeviceLines& lines) : lines_(lines) {}

  // Whether the line is a row of timings, which is read as any other row; all else is taken here. A row of other
  // versions than the file's first line gets a fault.
  bool is_row(Measurement& row);
  // After the last line: a run without its end line was cut short.
  void finish(const std::string& file);

 private:
  void take(Measurement& row, const std::string& record);
  bool same_versions(Measurement& row);

  DeviceLines& lines_;
  std::string versions_;
  base::Where first_;
  std::int64_t counted_ = 0;
  bool open_ = false;
};

}  // namespace moeplan::measurements
