#include "base/units.h"

#include <doctest/doctest.h>

#include <string>

using namespace moeplan::base;

TEST_CASE("sizes are read with decimal and binary prefixes, with or without a space") {
  CHECK(parse_quantity("80 GiB", Dimension::bytes) == 80.0 * 1024 * 1024 * 1024);
  CHECK(parse_quantity("80GiB", Dimension::bytes) == 85899345920.0);  // 80 * 2^30
  CHECK(parse_quantity("64 GB", Dimension::bytes) == 64e9);
  CHECK(parse_quantity("2 TiB", Dimension::bytes) == 2199023255552.0);  // 2^41
  CHECK(parse_quantity("1.5 KiB", Dimension::bytes) == 1536.0);
  CHECK(parse_quantity("512 B", Dimension::bytes) == 512.0);
  CHECK(parse_quantity("3 kB", Dimension::bytes) == 3000.0);
  CHECK(parse_quantity("8 Gb", Dimension::bytes) == 1e9);  // lower-case b is bits
  CHECK(parse_quantity("0 B", Dimension::bytes) == 0.0);
}

TEST_CASE("bandwidths are bytes or bits per second") {
  CHECK(parse_quantity("450 GB/s", Dimension::bytes_per_second) == 450e9);
  CHECK(parse_quantity("400 Gb/s", Dimension::bytes_per_second) == 50e9);  // 400 / 8
  CHECK(parse_quantity("3.35 TB/s", Dimension::bytes_per_second) == 3.35e12);
  CHECK(parse_quantity("1 GiB/s", Dimension::bytes_per_second) == 1073741824.0);
}

TEST_CASE("times come out as the nearest double of the decimal value") {
  CHECK(parse_quantity("12 us", Dimension::seconds) == 12e-6);
  CHECK(parse_quantity("1.5 ms", Dimension::seconds) == 1.5e-3);
  CHECK(parse_quantity("2 s", Dimension::seconds) == 2.0);
  CHECK(parse_quantity("350 ns", Dimension::seconds) == 350e-9);
  CHECK(parse_quantity("12 \xC2\xB5s", Dimension::seconds) == 12e-6);
}

TEST_CASE("compute rates and frequencies") {
  CHECK(parse_quantity("989 TFLOP/s", Dimension::flop_per_second) == 989e12);
  CHECK(parse_quantity("989 TFLOPS", Dimension::flop_per_second) == 989e12);
  CHECK(parse_quantity("1.979 PFLOP/s", Dimension::flop_per_second) == 1.979e15);
  CHECK(parse_quantity("1980 MHz", Dimension::hertz) == 1.98e9);
  CHECK(parse_quantity("1.98 GHz", Dimension::hertz) == 1.98e9);
}

TEST_CASE("texts that are no quantity of the dimension are refused") {
  for (const char* text : {"80",      "",        " ",      "GiB",    "80 gib", "80 GIB", "80 XB",    "80 GB/s",
                           "80 Gi",   "80 G",    "-1 GB",  "+1 GB",  "nan GB", "inf GB", "1e400 GB", "1e308 GB",
                           "0x10 GB", "1_000 B", "1,5 GB", "8 GB x", " 8 GB",  "8\tGB",  "1.2.3 GB"}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(parse_quantity(text, Dimension::bytes).has_value());
  }
  CHECK_FALSE(parse_quantity("450 GB", Dimension::bytes_per_second).has_value());
  CHECK_FALSE(parse_quantity("12 Gs", Dimension::seconds).has_value());
  CHECK_FALSE(parse_quantity("12 m", Dimension::seconds).has_value());
  CHECK_FALSE(parse_quantity("12 GiFLOP/s", Dimension::flop_per_second).has_value());
  CHECK_FALSE(parse_quantity("12 TFLOP", Dimension::flop_per_second).has_value());
  CHECK_FALSE(parse_quantity("12 hz", Dimension::hertz).has_value());
}

TEST_CASE("what a message shows as an example is itself a quantity of that dimension") {
  for (const Dimension dimension : {Dimension::bytes, Dimension::bytes_per_second, Dimension::seconds,
                                    Dimension::flop_per_second, Dimension::hertz}) {
    const std::string example = dimension_example(dimension);
    const std::size_t quote = example.find('\'');
    REQUIRE(quote != std::string::npos);
    CAPTURE(example);
    CHECK(parse_quantity(example.substr(quote + 1, example.size() - quote - 2), dimension).has_value());
  }
}

TEST_CASE("times change their unit after rounding, not before") {
  CHECK(format_time(1.2344) == "1.234 s");
  CHECK(format_time(0.99995) == "1.000 s");
  CHECK(format_time(0.99994) == "999.9 ms");
  CHECK(format_time(0.0123) == "12.3 ms");
  CHECK(format_time(0.99995e-3) == "1.0 ms");
  CHECK(format_time(0.99994e-3) == "999.9 us");
  CHECK(format_time(45.6e-6) == "45.6 us");
  CHECK(format_time(0.0) == "0.0 us");
}

TEST_CASE("sizes print in GiB and rates in decimal GB/s") {
  CHECK(format_gib(12.34 * kGiB) == "12.34 GiB");
  CHECK(format_gib(0.0) == "0.00 GiB");
  CHECK(format_rate(45e9) == "45.0 GB/s");
}

TEST_CASE("control characters of files are shown, never sent") {
  CHECK(printable("a\x1b[31m\n\x7f") == "a\\x1b[31m\\x0a\\x7f");
  CHECK(printable("Grüße") == "Grüße");
}
