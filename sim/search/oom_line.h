#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// PyTorch's out-of-memory text, as of versions 0.4 to 2.x for CUDA, HIP, XPU and NPU.
namespace moeplan::search {

// A size as the text prints it, and how far off the true one can be: half a unit in its last place.
struct PrintedBytes {
  double bytes = 0, half_unit = 0;
};

struct OomLine {
  std::string device;  // "CUDA", "HIP", "NPU", ...
  PrintedBytes tried;
  std::optional<PrintedBytes> capacity, free, in_use;  // of the device; in_use: of this process, with what is outside
  std::optional<PrintedBytes> other_processes;         // sum of those that the text names
  // PyTorch's allocator: in tensors; reserved in total; reserved and not in tensors; in private pools (CUDA graphs);
  // what set_per_process_memory_fraction allows.
  std::optional<PrintedBytes> allocated, reserved, unallocated, private_pools, allowed;
  std::optional<std::int64_t> rank, gpu;  // "[rank3]:"; "GPU 3"

  // As the text states it, or allocated + unallocated.
  std::optional<double> reserved_bytes() const;
  // In use by this process and not PyTorch's: context, communicators.
  std::optional<double> outside_bytes() const;
};

// The text may hold lines before and after (a log's prefix, a traceback): what stands behind the first "Tried to
// allocate" counts. Throws base::Error, quoting the forms that are known, for text without such a size.
OomLine parse_oom_line(std::string_view text);

// What PyTorch's allocator asks the device for when a tensor of so many bytes does not fit its cache, which is the size
// that the text states: 2 MiB up to 1 MiB, 20 MiB up to 10 MiB, else the next multiple of 2 MiB.
std::int64_t device_request_bytes(std::int64_t tensor_bytes);

}  // namespace moeplan::search
