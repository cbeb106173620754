#include "search/oom_line.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"

using namespace moeplan;
using search::OomLine;
using search::parse_oom_line;

namespace {

constexpr double kMebibyte = 1048576.0, kGibibyte = 1024 * kMebibyte;

const std::string kOld =
    "RuntimeError: CUDA out of memory. Tried to allocate 26.44 GiB (GPU 0; 79.33 GiB total capacity; 52.88 GiB already "
    "allocated; 1.25 GiB free; 53.20 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try "
    "setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and "
    "PYTORCH_CUDA_ALLOC_CONF";
const std::string kNew =
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.56 GiB. GPU 5 has a total capacity of "
    "79.10 GiB of which 2.73 GiB is free. Including non-PyTorch memory, this process has 76.36 GiB memory in use. Of "
    "the allocated memory 70.21 GiB is allocated by PyTorch, and 4.12 GiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.";
const std::string kNpu =
    "RuntimeError: NPU out of memory. Tried to allocate 26.44 GiB (NPU 2; 60.96 GiB total capacity; 30.23 GiB already "
    "allocated; 30.23 GiB current active; 25.36 GiB free; 33.08 GiB reserved in total by PyTorch)";

double bytes(const std::optional<search::PrintedBytes>& size) { return size ? size->bytes : -1; }

std::string error_of(const std::string& text) {
  try {
    parse_oom_line(text);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the form of versions up to 2.0: capacity, allocated, free, reserved in total") {
  const OomLine line = parse_oom_line(kOld);
  CHECK(line.device == "CUDA");
  CHECK(line.tried.bytes == doctest::Approx(26.44 * kGibibyte));
  CHECK(line.tried.half_unit == doctest::Approx(0.005 * kGibibyte));  // two places are printed
  CHECK(line.gpu == 0);
  CHECK_FALSE(line.rank);
  CHECK(bytes(line.capacity) == doctest::Approx(79.33 * kGibibyte));
  CHECK(bytes(line.allocated) == doctest::Approx(52.88 * kGibibyte));
  CHECK(bytes(line.free) == doctest::Approx(1.25 * kGibibyte));
  CHECK(line.reserved_bytes().value_or(-1) == doctest::Approx(53.20 * kGibibyte));
  CHECK_FALSE(line.unallocated);
}

TEST_CASE("the form of versions from 2.1: reserved is allocated + unallocated, the rest of the process is outside") {
  const OomLine line = parse_oom_line(kNew);
  CHECK(line.rank == 3);
  CHECK(line.gpu == 5);
  CHECK(line.tried.bytes == doctest::Approx(3.56 * kGibibyte));
  CHECK(bytes(line.in_use) == doctest::Approx(76.36 * kGibibyte));
  CHECK(line.reserved_bytes().value_or(-1) == doctest::Approx(74.33 * kGibibyte));  // 70.21 + 4.12
  CHECK(line.outside_bytes().value_or(-1) == doctest::Approx(2.03 * kGibibyte));    // 76.36 - 74.33
  CHECK_FALSE(line.other_processes);
}

TEST_CASE("other processes are summed, and are not this one: 2.1 spells capacity 'capacty'") {
  const OomLine line = parse_oom_line(
      "CUDA out of memory. Tried to allocate 23.93 GiB. GPU 0 has a total capacty of 95.08 GiB of which 22.35 GiB is "
      "free. Process 12 has 7.41 GiB memory in use. Process 3456 has 9.00 GiB memory in use. Including non-PyTorch "
      "memory, this process has 56.00 GiB memory in use. Of the allocated memory 55.13 GiB is allocated by PyTorch, "
      "and 422.78 MiB is reserved by PyTorch but unallocated.");
  CHECK(bytes(line.capacity) == doctest::Approx(95.08 * kGibibyte));
  CHECK(bytes(line.other_processes) == doctest::Approx(16.41 * kGibibyte));
  CHECK(bytes(line.in_use) == doctest::Approx(56.0 * kGibibyte));
  CHECK(bytes(line.unallocated) == doctest::Approx(422.78 * kMebibyte));
}

TEST_CASE("private pools of CUDA graphs, a limit on the process, and cached memory of the first versions") {
  const OomLine graphs = parse_oom_line(
      "CUDA out of memory. Tried to allocate 9.27 GiB. GPU 1 has a total capacity of 178.35 GiB of which 2.00 MiB is "
      "free. Of the allocated memory 70.21 GiB is allocated by PyTorch, with 11.50 GiB allocated in private pools "
      "(e.g., CUDA Graphs), and 4.12 GiB is reserved by PyTorch but unallocated.");
  CHECK(bytes(graphs.allocated) == doctest::Approx(70.21 * kGibibyte));
  CHECK(bytes(graphs.private_pools) == doctest::Approx(11.5 * kGibibyte));
  CHECK(bytes(graphs.unallocated) == doctest::Approx(4.12 * kGibibyte));
  CHECK(bytes(graphs.free) == doctest::Approx(2 * kMebibyte));
  const OomLine limited = parse_oom_line(
      "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 79.33 GiB total capacity; 9.50 GiB already allocated; "
      "60.00 GiB free; 10.00 GiB allowed; 9.60 GiB reserved in total by PyTorch)");
  CHECK(bytes(limited.allowed) == doctest::Approx(10 * kGibibyte));
  const OomLine cached = parse_oom_line(
      "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB total capacity; 9.80 GiB already allocated; "
      "18.50 MiB free; 210.90 MiB cached)");
  CHECK(cached.reserved_bytes().value_or(-1) == doctest::Approx(9.8 * kGibibyte + 210.9 * kMebibyte));
}

TEST_CASE("HIP, XPU and NPU, and every unit: sizes in whole bytes are exact") {
  CHECK(parse_oom_line("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.50 GiB. GPU 7 has").device ==
        "HIP");
  CHECK(parse_oom_line("XPU out of memory. Tried to allocate 512.00 KiB").tried.bytes == 512 * 1024.0);
  const OomLine npu = parse_oom_line(kNpu);
  CHECK(npu.device == "NPU");
  CHECK(npu.gpu == 2);
  CHECK(bytes(npu.capacity) == doctest::Approx(60.96 * kGibibyte));
  CHECK(npu.reserved_bytes().value_or(-1) == doctest::Approx(33.08 * kGibibyte));  // not the 30.23 that are "active"
  CHECK(bytes(npu.allocated) == doctest::Approx(30.23 * kGibibyte));
  const OomLine exact = parse_oom_line("CUDA out of memory. Tried to allocate 1000 bytes.");
  CHECK(exact.tried.bytes == 1000);
  CHECK(exact.tried.half_unit == 0);
  CHECK(parse_oom_line("CUDA out of memory. Tried to allocate 2.5 GB").tried.half_unit ==
        doctest::Approx(0.05 * kGibibyte));
}

TEST_CASE("a log around the text, broken lines and upper case do not matter") {
  const OomLine line = parse_oom_line(
      "Traceback (most recent call last):\n  File \"a.py\", line 3\n[rank 12]: torch.cuda.OutOfMemoryError:\nCUDA OUT "
      "OF "
      "MEMORY.\tTried to\n   allocate  3.79\n GiB (GPU 4;");
  CHECK(line.tried.bytes == doctest::Approx(3.79 * kGibibyte));
  CHECK(line.rank == 12);
  CHECK(line.gpu == 4);
}

TEST_CASE("text without a size is refused with the known forms") {
  for (const char* text : {"", "   ", "hello", "Tried to allocate", "Tried to allocate lots", "Tried to allocate GiB",
                           "CUDA out of memory. Tried to allocate 5", "CUDA out of memory. Tried to allocate 0.00 GiB",
                           "CUDA out of memory. Tried to allocate more than 1EB memory.",
                           "CUDA out of memory. Tried to allocate -1.00 GiB"}) {
    CAPTURE(text);
    const std::string error = error_of(text);
    CHECK(error.starts_with("--oom-line: "));
    CHECK(error.find("total capacity of 79.10 GiB of which") != std::string::npos);
    CHECK(error.find("already allocated; 1.25 GiB free") != std::string::npos);
  }
  CHECK(error_of("RuntimeError: CUDA error: out of memory").find("does not state the size") != std::string::npos);
}

TEST_CASE("the allocator asks the device for 2 MiB, 20 MiB, or whole multiples of 2 MiB") {
  const std::int64_t mib = 1 << 20;
  CHECK(search::device_request_bytes(512) == 2 * mib);
  CHECK(search::device_request_bytes(mib) == 2 * mib);
  CHECK(search::device_request_bytes(mib + 1) == 20 * mib);
  CHECK(search::device_request_bytes(10 * mib - 1) == 20 * mib);
  CHECK(search::device_request_bytes(10 * mib) == 10 * mib);
  CHECK(search::device_request_bytes(10 * mib + 1) == 12 * mib);
}

TEST_CASE("a size that no device has is refused") {
  CHECK(parse_oom_line("MPS backend out of memory. Tried to allocate 256.00 MB on private pool.").device == "MPS");
  CHECK(error_of("Tried to allocate 1024 TiB") == "");
  CHECK(error_of("Tried to allocate 1025 TiB").find("got '1025 TiB', more than 1 PiB") != std::string::npos);
  CHECK(error_of("Tried to allocate 100000000000000000000.00 GiB").find("more than 1 PiB") != std::string::npos);
}

// Pieces of the known texts in random order, with random bytes between them: an answer or an Error, nothing else.
TEST_CASE("any text is parsed or refused") {
  const base::Random random(17);
  const std::vector<std::string> seeds = {kOld, kNew, kNpu, "Tried to allocate ", "9e999 GiB", "[rank", "\xff\xfe"};
  std::uint64_t at = 0;
  const auto draw = [&](std::uint64_t below) { return random.bits(1, at++) % below; };
  std::int64_t parsed = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const std::uint64_t pieces = 1 + draw(5);
    for (std::uint64_t p = 0; p < pieces; ++p) {
      const std::string& seed = seeds[draw(seeds.size())];
      const std::uint64_t first = draw(2) == 0 ? 0 : draw(seed.size());
      text += seed.substr(first, draw(3) == 0 ? draw(seed.size()) : std::string::npos);
    }
    for (std::uint64_t m = draw(6); m > 0 && !text.empty(); --m) text[draw(text.size())] = static_cast<char>(draw(256));
    try {
      const OomLine line = parse_oom_line(text);
      CHECK(line.tried.bytes > 0);
      ++parsed;
    } catch (const base::Error&) {
    }
  }
  CHECK(parsed > 500);
  CHECK(parsed < 3000);
}
