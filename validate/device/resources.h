#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "check.h"

// Owners of what CUDA hands out. Destructors cannot report: they ignore the return code, as the context may be gone.
namespace moeplan::device {

class Stream {
 public:
  Stream() { MOEPLAN_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void wait() const { MOEPLAN_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() { MOEPLAN_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const { MOEPLAN_CUDA(cudaEventRecord(event_, stream)); }
  void wait() const { MOEPLAN_CUDA(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Seconds between two events that were both reached.
inline double seconds_between(const Event& first, const Event& last) {
  float milliseconds = 0;
  MOEPLAN_CUDA(cudaEventElapsedTime(&milliseconds, first.get(), last.get()));
  return static_cast<double>(milliseconds) * 1e-3;
}

// Device memory from cudaMalloc.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) MOEPLAN_CUDA(cudaMalloc(&data_, bytes));
  }
  ~Buffer() { cudaFree(data_); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  void* data() const { return data_; }
  template <class Element>
  Element* as() const {
    return static_cast<Element*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Ordinary host memory to the device, in the order of `stream`; both are done when it returns. A plain cudaMemcpy
// belongs to the default stream, which streams of ours do not wait for, and may return before the bytes have arrived.
inline void copy_to_device(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  MOEPLAN_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  MOEPLAN_CUDA(cudaStreamSynchronize(stream));
}

// Page-locked host memory.
class HostBuffer {
 public:
  explicit HostBuffer(std::size_t bytes) : bytes_(bytes) { MOEPLAN_CUDA(cudaMallocHost(&data_, bytes)); }
  ~HostBuffer() { cudaFreeHost(data_); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace moeplan::device
