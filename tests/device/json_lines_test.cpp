#include "device/json_lines.h"

#include <doctest/doctest.h>

#include <limits>
#include <sstream>
#include <stdexcept>

namespace moeplan::device {

TEST_CASE("strings are escaped as JSON asks, and what is no UTF-8 is replaced") {
  CHECK(json_string("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(json_string(std::string("\n\x1f\x7f", 3)) == "\"\\u000a\\u001f\x7f\"");
  CHECK(json_string(std::string(1, '\0')) == "\"\\u0000\"");
  CHECK(json_string("\xC3\xA9") == "\"\xC3\xA9\"");
  CHECK(json_string("\xF0\x9F\x98\x80") == "\"\xF0\x9F\x98\x80\"");
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(json_string("\xFF") == "\"" + bad + "\"");
  CHECK(json_string("\xC3") == "\"" + bad + "\"");                      // cut
  CHECK(json_string("\xC0\x80") == "\"" + bad + bad + "\"");            // overlong zero
  CHECK(json_string("\xED\xA0\x80") == "\"" + bad + bad + bad + "\"");  // a surrogate
  CHECK(json_string("\xED\x9F\xBF") == "\"\xED\x9F\xBF\"");             // the last character before the surrogates
  CHECK(json_string("\xF4\x8F\xBF\xBF") == "\"\xF4\x8F\xBF\xBF\"");     // U+10FFFF, the last of all
  CHECK(json_string("\xF4\x90\x80\x80") == "\"" + bad + bad + bad + bad + "\"");
}

TEST_CASE("numbers keep nine digits, and what is not finite is refused with its key") {
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(123456789.0) == "123456789");
  CHECK(json_number(-2.5e-9) == "-2.5e-09");
  JsonObject object;
  CHECK_THROWS_WITH_AS(object.add("time_us", std::numeric_limits<double>::quiet_NaN()), doctest::Contains("time_us"),
                       std::invalid_argument);
  CHECK_THROWS_AS(object.add("list", std::vector<double>{1, std::numeric_limits<double>::infinity()}),
                  std::invalid_argument);
  CHECK(object.empty());
}

TEST_CASE("fields keep their order and their types") {
  JsonObject object;
  object.add("text", "x").add("whole", std::int64_t{9007199254740993}).add("real", 0.5).add("flag", true);
  object.add("reals", std::vector<double>{1.5, 2})
      .add("wholes", std::vector<std::int64_t>{})
      .add(JsonObject().add("last", 1));
  CHECK(object.text() ==
        R"({"text":"x","whole":9007199254740993,"real":0.5,"flag":true,"reals":[1.5,2],"wholes":[],"last":1})");
  CHECK(JsonObject().add(JsonObject()).text() == "{}");
}

TEST_CASE("every line carries the common fields, and the last one counts those before it") {
  std::ostringstream out;
  LineWriter writer(out);
  writer.set_common(JsonObject().add("gpu", "X"));
  writer.write("measurement", JsonObject().add("time_us", 1.5));
  writer.write_schema("moeplan.layer/1", JsonObject().add("chunks", 2));
  writer.finish();
  CHECK(out.str() ==
        "{\"schema\":\"moeplan.device/1\",\"record\":\"measurement\",\"gpu\":\"X\",\"time_us\":1.5}\n"
        "{\"schema\":\"moeplan.layer/1\",\"gpu\":\"X\",\"chunks\":2}\n"
        "{\"schema\":\"moeplan.device/1\",\"record\":\"end\",\"gpu\":\"X\",\"lines\":2}\n");
  CHECK(writer.lines() == 3);
}

TEST_CASE("an output that takes nothing more ends the run") {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  LineWriter writer(out);
  CHECK_THROWS_AS(writer.finish(), std::runtime_error);
}

}  // namespace moeplan::device
