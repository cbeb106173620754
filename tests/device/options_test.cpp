#include "device/options.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace moeplan::device {
namespace {

struct Values {
  std::string path;
  std::int64_t device = 0;
  double seconds = 240;
  bool help = false;
  std::vector<std::string> families = {"gemm", "copy"};
  std::vector<std::int64_t> sizes;

  Options options() {
    Options options;
    options.text("--output", path, "a file")
        .whole("--device", device, 0, 63, "which")
        .real("--seconds", seconds, 1, 3600, "how long")
        .flag("--help", help, "this")
        .choices("--families", families, {"gemm", "copy", "overlap"}, "what")
        .wholes("--sizes", sizes, 1, 100, "sizes");
    return options;
  }
};

std::string fault_of(const std::vector<std::string>& words) {
  Values values;
  try {
    values.options().parse(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("options set what they name, with a space or an equals sign") {
  Values values;
  values.options().parse({"--output", "a=b.jsonl", "--device=63", "--seconds", "1.5", "--help", "--families",
                          "overlap,gemm", "--sizes=1,100"});
  CHECK(values.path == "a=b.jsonl");
  CHECK(values.device == 63);
  CHECK(values.seconds == 1.5);
  CHECK(values.help);
  CHECK(values.families == std::vector<std::string>{"overlap", "gemm"});
  CHECK(values.sizes == std::vector<std::int64_t>{1, 100});
}

TEST_CASE("what is not named keeps its default") {
  Values values;
  values.options().parse({});
  CHECK(values.seconds == 240);
  CHECK(values.families.size() == 2);
}

TEST_CASE("every fault is told at once") {
  CHECK(fault_of({"--device", "64", "--seconds=0.5", "--output"}) ==
        "--device: expected a whole number from 0 to 63, got '64'\n"
        "--seconds: expected a number from 1 to 3600, got '0.5'\n"
        "--output: expected a value");
}

TEST_CASE("unknown names come with the nearest one") {
  CHECK(fault_of({"--devise", "1"}) == "unknown option '--devise'; did you mean '--device'?");
  CHECK(fault_of({"stray"}) == "unknown option 'stray'");
  CHECK(fault_of({"--families", "gem"}) ==
        "--families: expected some of gemm, copy, overlap, got 'gem'; did you mean 'gemm'?");
  CHECK(nearest_name("overlup", {"gemm", "overlap"}) == "overlap");
  CHECK(nearest_name("x", {"gemm"}).empty());
}

TEST_CASE("values that are no numbers, double options and values of flags are refused") {
  CHECK(fault_of({"--device", "1x"}) == "--device: expected a whole number from 0 to 63, got '1x'");
  CHECK(fault_of({"--device", "99999999999999999999"}).find("expected a whole number") != std::string::npos);
  CHECK(fault_of({"--seconds", "nan"}).find("expected a number") != std::string::npos);
  CHECK(fault_of({"--device=1", "--device=2"}) == "--device: stands twice");
  CHECK(fault_of({"--help=yes"}) == "--help: takes no value");
  CHECK(fault_of({"--families", "gemm,gemm"}) == "--families: 'gemm' stands twice");
  CHECK(fault_of({"--families", ""}).find("expected some of") != std::string::npos);
  CHECK(fault_of({"--sizes", "1,,2"}) == "--sizes: expected a whole number from 1 to 100, got ''");
  CHECK(fault_of({"--output", "--help"}) == "--output: expected a value");
  CHECK(fault_of({"--output="}) == "--output: expected a text");
}

TEST_CASE("help has one line an option") {
  Values values;
  const std::string help = values.options().help();
  CHECK(help.find("--device N") != std::string::npos);
  CHECK(help.find("what (gemm, copy, overlap)") != std::string::npos);
  CHECK(std::count(help.begin(), help.end(), '\n') == 6);
}

TEST_CASE("what options must fulfil together is told with all other faults, where they have none of their own") {
  const auto faults = [](const std::vector<std::string>& words) {
    std::int64_t many = 8, few = 2;
    std::vector<double> shares = {1};
    Options options;
    options.whole("--many", many, 1, 100, "many")
        .whole("--few", few, 1, 100, "few")
        .reals("--shares", shares, 0.25, 1, "shares")
        .check({"--many", "--few"}, [&] {
          return few > many ? std::vector<std::string>{"--few: more than --many"} : std::vector<std::string>{};
        });
    try {
      options.parse(words);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(faults({"--few", "8"}).empty());
  CHECK(faults({"--few", "9"}) == "--few: more than --many");
  CHECK(faults({"--few", "9", "--shares", "1,0.2"}) ==
        "--shares: expected a number from 0.25 to 1, got '0.2'\n--few: more than --many");
  CHECK(faults({"--few", "9", "--many", "x"}) == "--many: expected a whole number from 1 to 100, got 'x'");
  CHECK(faults({"--few", "9", "--many"}) == "--many: expected a value");
  CHECK(faults({"--shares=1,,0.5"}) == "--shares: expected a number from 0.25 to 1, got ''");
  CHECK(faults({"--shares=0.25,1"}).empty());
}

}  // namespace moeplan::device
