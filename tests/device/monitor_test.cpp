#include "device/monitor.h"

#include <doctest/doctest.h>

namespace moeplan::device {

TEST_CASE("reasons of lower clocks have names, and idling is none") {
  CHECK(slowdown_names(0).empty());
  CHECK(slowdown_names(0x1).empty());  // idle
  CHECK(slowdown_names(0x4) == std::vector<std::string>{"power cap"});
  CHECK(slowdown_names(0x20 | 0x80) == std::vector<std::string>{"thermal", "power brake"});
}

TEST_CASE("the power cap alone is how these parts run, the others make timings slower than the part can be") {
  CHECK_FALSE(is_slowed(0));
  CHECK_FALSE(is_slowed(0x1 | 0x4));
  for (const std::uint64_t bit : {0x2U, 0x8U, 0x10U, 0x20U, 0x40U, 0x80U}) CHECK(is_slowed(bit | 0x4));
}

TEST_CASE("a device that NVML does not know gives no reading and a reason") {
  const Monitor monitor("ffff:ff:ff.0");
  CHECK_FALSE(monitor.available());
  CHECK_FALSE(monitor.read().available);
  CHECK_FALSE(monitor.reason().empty());
}

}  // namespace moeplan::device
