#pragma once
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

// Every call's return code becomes an exception that names the call, its place and what the library says of it.
namespace moeplan::device {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// "copy.cpp:41: cudaMalloc(&p, n): out of memory (cudaErrorMemoryAllocation, 2)"; clears an error that is not sticky.
void check_cuda(cudaError_t code, const char* call, const char* file, int line);
[[noreturn]] void fail_call(const std::string& what, const char* call, const char* file, int line);

#define MOEPLAN_CUDA(call) ::moeplan::device::check_cuda((call), #call, __FILE__, __LINE__)
// After each kernel launch: a launch itself returns nothing.
#define MOEPLAN_CUDA_LAUNCHED(kernel) ::moeplan::device::check_cuda(cudaGetLastError(), kernel, __FILE__, __LINE__)

}  // namespace moeplan::device
