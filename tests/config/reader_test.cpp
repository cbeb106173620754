#include "config/reader.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support.h"

using namespace moeplan;
using base::Dimension;
using config::Reader;

namespace {

// The faults that `read` adds when it reads the mapping `text`.
template <typename Function>
std::string faults_of(const std::string& text, Function read) {
  return message_of([&] {
    base::Faults faults;
    Reader reader(config::parse_yaml(text, "a.yaml"), faults);
    read(reader);
    faults.throw_if_any();
  });
}

std::string integer_fault(const std::string& value, config::IntRange range) {
  return faults_of("n: " + value, [&](Reader& r) { r.integer("n", range); });
}

std::string real_fault(const std::string& value, config::RealRange range) {
  return faults_of("x: " + value, [&](Reader& r) { r.real("x", range); });
}

}  // namespace

TEST_CASE("values of each kind are read") {
  base::Faults faults;
  Reader r(config::parse_yaml("n: 12\nx: 1e-3\nflag: true\ntext: abc\nkind: b\nsize: 80 GiB\nns: [1, 2]\nts: [a, 'b']\n"
                              "m: { k: 1 }\nl: [1, [2]]\n",
                              "a.yaml"),
           faults);
  const std::vector<std::string> names = {"a", "b"};
  CHECK(r.integer("n") == 12);
  CHECK(r.real("x") == 1e-3);
  CHECK(r.flag_or("flag", false));
  CHECK(r.text("text") == "abc");
  CHECK(r.choice("kind", names) == 1);
  CHECK(r.quantity("size", Dimension::bytes) == 80 * base::kGiB);
  CHECK(r.integers("ns") == std::vector<std::int64_t>{1, 2});
  CHECK(r.texts("ts") == std::vector<std::string>{"a", "b"});
  Reader m = r.map("m");
  CHECK(m.integer("k") == 1);
  m.finish();
  CHECK(r.list("l").size() == 2);
  CHECK(r.has("n"));
  CHECK_FALSE(r.has("absent"));
  r.finish();
  CHECK(faults.empty());
}

TEST_CASE("absent keys give the fallback and no fault") {
  base::Faults faults;
  Reader r(config::parse_yaml("a: 1\n", "a.yaml"), faults);
  const std::vector<std::string> names = {"x", "y"};
  CHECK(r.integer_or("n", 7, {10, 20}) == 7);
  CHECK(r.real_or("x", 0.5) == 0.5);
  CHECK(r.flag_or("f", true));
  CHECK(r.text_or("t", "d") == "d");
  CHECK(r.choice_or("c", names, 1) == 1);
  CHECK_FALSE(r.quantity_if("q", Dimension::seconds).has_value());
  CHECK(r.integers("i").empty());
  CHECK(r.texts("s").empty());
  CHECK(r.list("l").empty());
  CHECK_FALSE(r.map_if("m").has_value());
  CHECK_FALSE(r.node_if("o").has_value());
  CHECK(faults.empty());
}

TEST_CASE("missing keys are faults at the mapping's place") {
  CHECK(faults_of("s:\n  a: 1\n",
                  [](Reader& r) {
                    const std::vector<std::string> names = {"x"};
                    Reader s = r.map("s");
                    s.integer("n");
                    s.real("x");
                    s.text("t");
                    s.choice("c", names);
                    s.quantity("q", Dimension::bytes);
                    s.map("m");
                  }) ==
        "a.yaml:2:3: s: missing key 'n'\na.yaml:2:3: s: missing key 'x'\na.yaml:2:3: s: missing key 't'\n"
        "a.yaml:2:3: s: missing key 'c'\na.yaml:2:3: s: missing key 'q'\na.yaml:2:3: s: missing key 'm'");
}

TEST_CASE("keys of a mapping that is missing itself are not missed one by one") {
  const auto read = [](Reader& r) {
    Reader m = r.map("m");
    m.integer("n");
    m.map("inner").text("t");
    m.finish();
  };
  CHECK(faults_of("a: 1\n", read) == "a.yaml:1:1: missing key 'm'");
  CHECK(faults_of("m: 3\n", read) == "a.yaml:1:4: m: expected a mapping, got '3'");
  CHECK(faults_of("m: [1]\n", read) == "a.yaml:1:4: m: expected a mapping, got a list");
  CHECK(faults_of("m:\n", read) == "a.yaml:1:1: m: expected a mapping, got nothing");
}

TEST_CASE("integers are plain decimal digits") {
  for (const char* good : {"0", "7", "4096", "1099511627776", "-5"}) {
    CAPTURE(std::string(good));
    CHECK(integer_fault(good, {-10, std::int64_t{1} << 40}) == "no error");
  }
  for (const char* bad : {"010", "0x10", "1e3", "1_000", "1.0", "+5", "-", "-0x1", "--1", "1 2", "abc", "yes", ".inf",
                          "99999999999999999999", "'5'", "[5]", "{ a: 5 }", "~"}) {
    CAPTURE(std::string(bad));
    CHECK(integer_fault(bad, {-10, std::int64_t{1} << 40}).find("a.yaml:1:") == 0);
  }
  CHECK(integer_fault("abc", {1}) == "a.yaml:1:4: n: expected an integer >= 1, got 'abc'");
  CHECK(integer_fault("1e3", {1}) ==
        "a.yaml:1:4: n: expected an integer >= 1, got '1e3'\n  hint: write an integer in plain decimal digits, such as "
        "4096");
  CHECK(integer_fault("'5'", {1}) ==
        "a.yaml:1:4: n: expected an integer >= 1, got '5'\n  hint: write it without quotes");
}

TEST_CASE("integers are checked at both ends of their range") {
  CHECK(integer_fault("1", {1}) == "no error");
  CHECK(integer_fault("0", {1}) == "a.yaml:1:4: n: expected an integer >= 1, got '0'");
  CHECK(integer_fault("8", {1, 8}) == "no error");
  CHECK(integer_fault("9", {1, 8}) == "a.yaml:1:4: n: expected an integer from 1 to 8, got '9'");
  // 2^40 is the upper end unless one is given.
  CHECK(integer_fault("1099511627776", {}) == "no error");
  CHECK(integer_fault("1099511627777", {}) ==
        "a.yaml:1:4: n: expected an integer from 0 to 1099511627776, got '1099511627777'");
}

TEST_CASE("reals are finite decimals") {
  for (const char* good : {"0", "1", "0.94", ".5", "1e-3", "1.5E+2"}) {
    CAPTURE(std::string(good));
    CHECK(real_fault(good, {}) == "no error");
  }
  for (const char* bad : {".nan", ".inf", "nan", "inf", "1e400", "0x1p3", "1_000.0", "1,5", "+1", "1e", "e5", "''",
                          "'1'", "1 GB", "[1]", "~"}) {
    CAPTURE(std::string(bad));
    CHECK(real_fault(bad, {-1e300, 1e300}).find("a.yaml:1:") == 0);
  }
  CHECK(real_fault(".nan", {}) == "a.yaml:1:4: x: expected a number >= 0, got '.nan'");
}

TEST_CASE("reals are checked at both ends, and an open end is refused itself") {
  CHECK(real_fault("0", {0, 1}) == "no error");
  CHECK(real_fault("1", {0, 1}) == "no error");
  CHECK(real_fault("1.0000001", {0, 1}) == "a.yaml:1:4: x: expected a number from 0 to 1, got '1.0000001'");
  CHECK(real_fault("-0.1", {0, 1}) == "a.yaml:1:4: x: expected a number from 0 to 1, got '-0.1'");
  CHECK(real_fault("0", {0, 1, true}) == "a.yaml:1:4: x: expected a number > 0 and <= 1, got '0'");
  CHECK(real_fault("0", {0, 1e18, true}) == "a.yaml:1:4: x: expected a number > 0, got '0'");
  CHECK(real_fault("0.001", {0, 1, true}) == "no error");
}

TEST_CASE("flags are true or false and nothing else") {
  const auto flag = [](const std::string& value) {
    return faults_of("f: " + value, [](Reader& r) { r.flag_or("f", false); });
  };
  CHECK(flag("true") == "no error");
  CHECK(flag("false") == "no error");
  CHECK(flag("yes") == "a.yaml:1:4: f: expected true or false, got 'yes'");
  CHECK(flag("1") == "a.yaml:1:4: f: expected true or false, got '1'");
  CHECK(flag("True") == "a.yaml:1:4: f: expected true or false, got 'True'");
  CHECK(flag("'true'") == "a.yaml:1:4: f: expected true or false, got 'true'\n  hint: write it without quotes");
}

TEST_CASE("texts are scalars that are not empty") {
  const auto text = [](const std::string& value) { return faults_of("t: " + value, [](Reader& r) { r.text("t"); }); };
  CHECK(text("8") == "no error");
  CHECK(text("''") == "a.yaml:1:4: t: expected a text, got ''");
  CHECK(text("") == "a.yaml:1:1: t: expected a text, got nothing");
  CHECK(text("[a]") == "a.yaml:1:4: t: expected a text, got a list");
}

TEST_CASE("a choice is one of its names: a slip gets the nearest one") {
  const std::vector<std::string> names = {"fixed", "adaptive"};
  const auto choice = [&](const std::string& value) {
    return faults_of("c: " + value, [&](Reader& r) { CHECK(r.choice("c", names) == 0); });
  };
  CHECK(choice("fixed") == "no error");
  CHECK(choice("adaptiv") ==
        "a.yaml:1:4: c: expected one of fixed, adaptive, got 'adaptiv'\n  hint: did you mean 'adaptive'?");
  CHECK(choice("[fixed]") == "a.yaml:1:4: c: expected one of fixed, adaptive, got a list");
}

TEST_CASE("quantities need a unit of their dimension and keep to their range") {
  const auto size = [](const std::string& value, config::RealRange range = {}) {
    return faults_of("q: " + value, [&](Reader& r) { r.quantity("q", Dimension::bytes, range); });
  };
  CHECK(size("80 GiB") == "no error");
  CHECK(size("'80 GiB'") == "no error");
  CHECK(size("80") ==
        "a.yaml:1:4: q: expected a size such as '80 GiB', got '80'\n"
        "  hint: a number alone has no unit: write the unit after it");
  CHECK(size("80 GB/s") == "a.yaml:1:4: q: expected a size such as '80 GiB', got '80 GB/s'");
  CHECK(size("-1 GB") == "a.yaml:1:4: q: expected a size such as '80 GiB', got '-1 GB'");
  CHECK(size("[1]") == "a.yaml:1:4: q: expected a size such as '80 GiB', got a list");
  CHECK(size("1 KiB", {1024}) == "no error");
  CHECK(size("1023 B", {1024}) == "a.yaml:1:4: q: expected a size such as '80 GiB', >= 1024 bytes, got '1023 B'");
  CHECK(size("0 B", {0, 1e18, true}) == "a.yaml:1:4: q: expected a size such as '80 GiB', > 0 bytes, got '0 B'");
  CHECK(size("2 B", {0, 1}) == "a.yaml:1:4: q: expected a size such as '80 GiB', from 0 bytes to 1 bytes, got '2 B'");
}

TEST_CASE("bytes are rounded to whole bytes, other quantities are not") {
  base::Faults faults;
  Reader r(config::parse_yaml("a: 1.6 B\nb: 4 b\nc: 1.5 s\n", "a.yaml"), faults);
  CHECK(r.quantity("a", Dimension::bytes) == 2.0);
  CHECK(r.quantity("b", Dimension::bytes) == 1.0);  // half a byte rounds away from zero
  CHECK(r.quantity("c", Dimension::seconds) == 1.5);
  CHECK(faults.empty());
}

TEST_CASE("lists report each bad item at its own place") {
  CHECK(faults_of("l: [1, x, 0, 3]\n",
                  [](Reader& r) {
                    CHECK(r.integers("l", {1}) == std::vector<std::int64_t>{1, 3});
                  }) ==
        "a.yaml:1:8: l[1]: expected an integer >= 1, got 'x'\na.yaml:1:11: l[2]: expected an integer >= 1, got '0'");
  CHECK(faults_of("l: [a, [b]]\n", [](Reader& r) { r.texts("l"); }) == "a.yaml:1:8: l[1]: expected a text, got a list");
  CHECK(faults_of("l: 5\n", [](Reader& r) { r.integers("l"); }) == "a.yaml:1:4: l: expected a list, got '5'");
}

TEST_CASE("a key is read under its alias, and reported there") {
  CHECK(faults_of("tp: 4\n", [](Reader& r) {
          r.alias("tensor_model_parallel_size", "tp");
          CHECK(r.has("tensor_model_parallel_size"));
          CHECK(r.integer("tensor_model_parallel_size") == 4);
          CHECK(r.where("tensor_model_parallel_size").column == 5);
          r.finish();
        }) == "no error");
  CHECK(faults_of("tp: x\n", [](Reader& r) {
          r.alias("tensor_model_parallel_size", "tp");
          r.integer("tensor_model_parallel_size", {1});
        }) == "a.yaml:1:5: tp: expected an integer >= 1, got 'x'");
}

TEST_CASE("a key given under its name and its alias is one fault with both places") {
  CHECK(faults_of("tensor: 1\ntp: 4\n", [](Reader& r) {
          r.alias("tensor", "tp");
          CHECK(r.has("tensor"));
          CHECK(r.integer("tensor") == 1);
          r.finish();
        }) == "a.yaml:2:1: tp: 'tp' and 'tensor' are the same key: give one of them\n  see also a.yaml:1:1: tensor");
  CHECK(faults_of("a: 1\nb: 4\n", [](Reader& r) {
          r.alias("key", "a");
          r.alias("key", "b");
          CHECK(r.integer("key") == 1);
          r.finish();
        }) == "a.yaml:2:1: b: 'b' and 'a' are the same key: give one of them\n  see also a.yaml:1:1: a");
}

TEST_CASE("keys that nobody asked for are reported with the nearest name or with all names") {
  CHECK(faults_of("s: { food: 1, foo: 2 }\n", [](Reader& r) {
          Reader s = r.map("s");
          s.integer("food");
          s.finish();
          r.finish();
        }) == "a.yaml:1:15: s.foo: unknown key 'foo'\n  hint: did you mean 'food'?");
  CHECK(faults_of("something: 1\n", [](Reader& r) {
          r.integer_or("tp", 1);
          r.integer_or("experts", 1);
          r.finish();
        }) == "a.yaml:1:1: something: unknown key 'something'\n  hint: known keys: tp, experts");
  CHECK(faults_of("x: 1\n", [](Reader& r) { r.finish(); }) ==
        "a.yaml:1:1: x: unknown key 'x'\n  hint: no key is known here");
}

TEST_CASE("faults of one's own stand at the key, or at the mapping when the key is absent") {
  CHECK(faults_of("s:\n  a: 1\n", [](Reader& r) {
          Reader s = r.map("s");
          s.fault("a", "must divide 8", "try 2");
          s.fault("b", "is needed with 'a'");
        }) == "a.yaml:2:3: s: is needed with 'a'\na.yaml:2:6: s.a: must divide 8\n  hint: try 2");
}
