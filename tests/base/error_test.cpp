#include "base/error.h"

#include <doctest/doctest.h>

#include <string>

using namespace moeplan::base;

TEST_CASE("a fault shows file, line, column, key, message, hint and other places") {
  const Fault fault{{"scenarios/a.yaml", 12, 9, "model.experts"},
                    "expected an integer >= 1, got '0'",
                    "write 128",
                    {{"trace.npy", 0, 0, "experts"}, {"b.yaml", 3, 1, ""}}};
  CHECK(format_fault(fault) ==
        "scenarios/a.yaml:12:9: model.experts: expected an integer >= 1, got '0'\n"
        "  hint: write 128\n"
        "  see also trace.npy: experts\n"
        "  see also b.yaml:3:1");
}

TEST_CASE("parts of a place that are not known leave no trace in the text") {
  CHECK(format_fault({{"--set parallel.ep=x", 0, 0, "parallel.ep"}, "expected an integer", {}, {}}) ==
        "--set parallel.ep=x: parallel.ep: expected an integer");
  CHECK(format_fault({{"a.csv", 7, 0, ""}, "too few columns", {}, {}}) == "a.csv:7: too few columns");
  CHECK(format_fault({{"", 0, 0, "tp"}, "missing", {}, {}}) == "tp: missing");
  CHECK(format_fault({{}, "nothing to do", {}, {}}) == "nothing to do");
}

TEST_CASE("an error's text holds all its faults, one after the other") {
  const Error error({Fault{{"a", 1, 2, ""}, "first", {}, {}}, Fault{{"b", 0, 0, ""}, "second", "h", {}}});
  CHECK(std::string(error.what()) == "a:1:2: first\nb: second\n  hint: h");
  CHECK(error.faults().size() == 2);
}

TEST_CASE("collected faults are thrown together, ordered by file, line and column") {
  Faults faults;
  CHECK_NOTHROW(faults.throw_if_any());
  CHECK(faults.empty());
  faults.add({"b.yaml", 1, 1, ""}, "d");
  faults.add({"a.yaml", 10, 1, ""}, "c");
  faults.add({"a.yaml", 9, 7, ""}, "b");
  faults.add(Error(Where{"a.yaml", 9, 2, ""}, "a", "hint"));
  CHECK(faults.size() == 4);
  std::string text;
  try {
    faults.throw_if_any();
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text == "a.yaml:9:2: a\n  hint: hint\na.yaml:9:7: b\na.yaml:10:1: c\nb.yaml:1:1: d");
}

TEST_CASE("faults of one place keep their order, and a repeated one is told once") {
  Faults faults;
  faults.add({"a.yaml", 1, 1, ""}, "z");
  faults.add({"a.yaml", 1, 1, ""}, "y");
  faults.add({"a.yaml", 1, 1, ""}, "y");
  std::string text;
  try {
    faults.throw_if_any();
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(text == "a.yaml:1:1: z\na.yaml:1:1: y");
}
