#include "run.h"

#include <cublasLt.h>

#include <algorithm>

namespace moeplan::device {
namespace {

std::string cuda_version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number / 10 % 100); }

}  // namespace

Output::Output(const std::string& path) {
  if (path.empty()) return;
  file_.open(path, std::ios::trunc);
  if (!file_) throw std::runtime_error(path + ": cannot be written");
}

JsonObject common_fields(const cudaDeviceProp& properties, const Monitor& monitor) {
  int runtime = 0, driver = 0;
  MOEPLAN_CUDA(cudaRuntimeGetVersion(&runtime));
  MOEPLAN_CUDA(cudaDriverGetVersion(&driver));
  return JsonObject()
      .add("program", kProgram)
      .add("gpu", properties.name)
      .add("driver", monitor.driver().empty() ? "CUDA " + cuda_version(driver) : monitor.driver())
      .add("cuda", cuda_version(runtime));
}

bool read_words(const char* command, Options& options, Common& common, const std::vector<std::string>& words) {
  options.whole("--device", common.device, 0, 1023, "which GPU (0)")
      .text("--output", common.path, "write to this file")
      .flag("--help", common.help, "this text");
  options.parse(words);
  if (common.help) std::cout << "moeplan-device " << command << "\n" << options.help();
  return !common.help;
}

Session::Session(const Common& common)
    : timer((require_device(common.device), static_cast<int>(common.device))),
      output(common.path),
      writer(output.stream()) {
  writer.set_common(common_fields(timer.properties(), timer.monitor()));
  write_device(writer, timer);
}

bool attempt(LineWriter& writer, const std::string& what, const std::function<void()>& measurement) {
  return attempt(writer, what, measurement, []() -> std::string {
    cudaGetLastError();  // an error that is not sticky ends here
    const cudaError_t state = cudaDeviceSynchronize();
    return state == cudaSuccess ? std::string() : cudaGetErrorString(state);
  });
}

void write_value(LineWriter& writer, const std::string& key, double value, const std::string& how) {
  writer.write("value", JsonObject().add("key", key).add("value", value).add("how", how));
}

double free_bytes() {
  constexpr double kKept = 2.0 * 1024 * 1024 * 1024;
  std::size_t free = 0, total = 0;
  MOEPLAN_CUDA(cudaMemGetInfo(&free, &total));
  return std::max(0.0, static_cast<double>(free) - kKept);
}

}  // namespace moeplan::device
