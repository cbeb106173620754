#include "check.h"

namespace moeplan::device {

void fail_call(const std::string& what, const char* call, const char* file, int line) {
  const std::string path = file;
  const std::string name = path.substr(path.find_last_of('/') + 1);  // npos + 1 is 0
  throw DeviceError(name + ":" + std::to_string(line) + ": " + call + ": " + what);
}

void check_cuda(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  fail_call(std::string(cudaGetErrorString(code)) + " (" + cudaGetErrorName(code) + ", " + std::to_string(code) + ")",
            call, file, line);
}

}  // namespace moeplan::device
