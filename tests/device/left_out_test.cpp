#include "device/left_out.h"

#include <doctest/doctest.h>

#include <new>
#include <sstream>
#include <stdexcept>

namespace moeplan::device {
namespace {
const auto kUsable = [] { return std::string(); };
}  // namespace

TEST_CASE("a measurement that fails is left out with a line, and what was measured stays") {
  std::ostringstream out;
  LineWriter writer(out);
  CHECK(attempt(
      writer, "a", [&] { writer.write("measurement", JsonObject().add("time_us", 1.0)); }, kUsable));
  CHECK_FALSE(attempt(
      writer, "b", [] { throw std::runtime_error("out of memory"); }, kUsable));
  CHECK_FALSE(attempt(
      writer, "c", [] { throw std::bad_alloc(); }, kUsable));
  CHECK(out.str() ==
        "{\"schema\":\"moeplan.device/1\",\"record\":\"measurement\",\"time_us\":1}\n"
        "{\"schema\":\"moeplan.device/1\",\"record\":\"left_out\",\"what\":\"b\",\"why\":\"out of memory\"}\n"
        "{\"schema\":\"moeplan.device/1\",\"record\":\"left_out\",\"what\":\"c\",\"why\":\"too little memory for "
        "it\"}\n");
}

TEST_CASE("a device that is lost ends the run, after the line on what was measured last") {
  std::ostringstream out;
  LineWriter writer(out);
  CHECK_THROWS_WITH_AS(attempt(
                           writer, "a", [] { throw std::runtime_error("illegal address"); },
                           [] { return std::string("it fell off the bus"); }),
                       "the device can be used no more: it fell off the bus; the last of it: illegal address",
                       std::runtime_error);
  CHECK(writer.lines() == 1);
  bool asked = false;
  CHECK(attempt(
      writer, "b", [] {},
      [&] {
        asked = true;
        return std::string("unused");
      }));
  CHECK_FALSE(asked);
}

}  // namespace moeplan::device
