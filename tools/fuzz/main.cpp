#include <cstddef>
#include <cstdint>

#include "targets.h"

// The entry that libFuzzer calls; which target is chosen when it is built.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const moeplan::fuzz::Target* const target = moeplan::fuzz::find_target(MOEPLAN_FUZZ_TARGET);
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
