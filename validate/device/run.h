#pragma once
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "json_lines.h"
#include "left_out.h"
#include "options.h"
#include "timing.h"

// What every part of a run shares.
namespace moeplan::device {

inline constexpr const char* kProgram = "moeplan-device 0.1.0";

// There is no GPU: exit status 77, which test runners show as skipped.
class NoDevice : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// Throws NoDevice with one sentence on why, and UsageError for a number that none has. Commands call it after they read
// their options.
void require_device(std::int64_t device = 0);

// Options that commands on one device share.
struct Common {
  std::int64_t device = 0;
  std::string path;
  bool help = false;
};
// Reads the words of a command by `options`, which get --device, --output and --help. False: help was asked for, and
// written.
bool read_words(const char* command, Options& options, Common& common, const std::vector<std::string>& words);

// Standard output, or the file of --output, which is made anew.
class Output {
 public:
  explicit Output(const std::string& path);
  std::ostream& stream() { return file_.is_open() ? static_cast<std::ostream&>(file_) : std::cout; }

 private:
  std::ofstream file_;
};

// Wall time that a family of measurements may take.
class Budget {
 public:
  explicit Budget(double seconds) : end_(std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds)) {}
  bool left() const { return std::chrono::steady_clock::now() < end_; }

 private:
  std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double>> end_;
};

struct Run {
  Timer& timer;
  LineWriter& writer;
  std::uint64_t seed = 1;
};

// The fields of every line: program, gpu, driver, cuda.
JsonObject common_fields(const cudaDeviceProp& properties, const Monitor& monitor);

// The line on the device: sizes, clocks, limits, versions, date.
void write_device(LineWriter& writer, const Timer& timer);

// A command on one device: the device first, so that the file of an earlier run stays where there is none; then the
// file, the common fields and the line on the device.
struct Session {
  explicit Session(const Common& common);
  Timer timer;
  Output output;
  LineWriter writer;
};

// As attempt() in left_out.h, of the current device.
bool attempt(LineWriter& writer, const std::string& what, const std::function<void()>& measurement);

// A value of a profile as it is read off: `key` a key of hardware profiles, `value` in base units (bytes, seconds,
// bytes/s, FLOP/s, or a number).
void write_value(LineWriter& writer, const std::string& key, double value, const std::string& how);

// Bytes that may still be allocated on the current device, with a part kept free for libraries.
double free_bytes();

// Families of `measure`. Each ends early when its budget is used up, and says what it left out.
void measure_copies(Run& run, const Budget& budget);
void measure_launches(Run& run);
void measure_products(Run& run, const Budget& budget, const std::vector<std::int64_t>& linears);
void measure_grouped(Run& run, const Budget& budget);
void measure_memory_operations(Run& run, const Budget& budget);
void measure_overlap(Run& run, const Budget& budget);
void measure_sustained(Run& run, double seconds);

// Kernels of validate/kernels on the device against the same bodies on the host: largest difference over the largest
// result.
struct KernelCheck {
  std::string what;
  double error = 0;
};
std::vector<KernelCheck> check_memory_operations(cudaStream_t stream);

// Commands: the words after their name. They return the exit status.
int probe_command(const std::vector<std::string>& words);
int check_command(const std::vector<std::string>& words);
int measure_command(const std::vector<std::string>& words);
int collectives_command(const std::vector<std::string>& words);

}  // namespace moeplan::device
