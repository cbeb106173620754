#include <cuda_runtime.h>

#include <cstdio>
#include <iostream>

#include "check.h"
#include "layer.h"
#include "options.h"
#include "run.h"

namespace moeplan::device {
namespace {

constexpr int kDone = 0, kFailed = 1, kUsage = 2, kNoDevice = 77;

struct Command {
  const char *name, *help;
  int (*run)(const std::vector<std::string>& words);
};
const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {"probe", "what the device is: sizes, clocks, memory that a context takes", probe_command},
      {"check", "products, copies and kernels against references", check_command},
      {"measure", "times of single operations for moeplan calibrate fit", measure_command},
      {"layer", "whole MoE layers, forward and backward, for moeplan validate --layer", layer_command},
      {"collectives", "NCCL's collectives over all GPUs, and uneven all-to-alls", collectives_command}};
  return list;
}

void write_help(std::ostream& out) {
  out << kProgram << ": measures this machine's GPUs for moeplan (docs/calibration.md)\n\n"
      << "moeplan-device COMMAND [options]; moeplan-device COMMAND --help lists them\n\n";
  for (const Command& command : commands()) out << "  " << command.name << "  " << command.help << "\n";
  out << "\nJSON lines on standard output, or to the file of --output. Exit status: 0 done, 1 a call or a check "
         "failed, "
         "2 bad usage, 77 no GPU.\nClocks, power limits and modes are read and never set.\n";
}

// One sentence on why there is no device to run on; empty: there is one.
std::string no_device() {
  int count = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return {};
  cudaGetLastError();
  cudaDriverGetVersion(&driver);
  if (code == cudaErrorInsufficientDriver && driver == 0) return "no CUDA driver on this machine";
  if (code == cudaErrorInsufficientDriver)
    return "the CUDA driver (" + std::to_string(driver) + ") is older than this program's runtime (" +
           std::to_string(CUDART_VERSION) + ")";
  if (code == cudaSuccess || code == cudaErrorNoDevice) return "no CUDA device on this machine";
  return std::string("no usable CUDA device on this machine: ") + cudaGetErrorString(code);
}

int dispatch(const std::vector<std::string>& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    write_help(words.empty() ? std::cerr : std::cout);
    return words.empty() ? kUsage : kDone;
  }
  if (words[0] == "--version") {
    std::cout << kProgram << "\n";
    return kDone;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    names.emplace_back(command.name);
    if (words[0] == command.name) return command.run({words.begin() + 1, words.end()});
  }
  const std::string near = nearest_name(words[0], names);
  throw UsageError("unknown command '" + words[0] + "'" + (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

}  // namespace

void require_device(std::int64_t device) {
  const std::string why = no_device();
  if (!why.empty()) throw NoDevice(why + ": nothing was measured");
  int count = 0;
  MOEPLAN_CUDA(cudaGetDeviceCount(&count));
  if (device >= count)
    throw UsageError("--device: expected a whole number from 0 to " + std::to_string(count - 1) +
                     ", the GPUs that are seen here, got '" + std::to_string(device) + "'");
}

int main_with(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const UsageError& error) {
    std::string text = error.what();  // a line a fault
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 8) text.insert(at + 1, "error: ");
    std::cerr << "error: " << text << "\n";
    return kUsage;
  } catch (const NoDevice& error) {
    std::cerr << error.what() << "\n";
    return kNoDevice;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace moeplan::device

int main(int argc, char** argv) { return moeplan::device::main_with({argv + 1, argv + argc}); }
