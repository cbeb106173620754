#include "cli/arguments.h"

#include <doctest/doctest.h>

#include "cli/support.h"
#include "report/version.h"

namespace moeplan::cli {
using namespace testing;

TEST_CASE("--version and --help end with 0 and write to standard output") {
  const Result version = moeplan({"--version"});
  CHECK(version.status == 0);
  CHECK(version.out == "moeplan " + std::string(report::kVersion) + "\n");
  const Result help = moeplan({"--help"});
  CHECK(help.status == 0);
  for (const char* command : {"run", "sweep", "chunks", "compare", "explain", "trace", "list"}) {
    CHECK_MESSAGE(holds(help.out, std::string("\n  ") + command + " "), command);
  }
}

TEST_CASE("the help of every command ends with examples") {
  for (const char* command : {"run", "sweep", "chunks", "compare", "explain", "list"}) {
    const Result help = moeplan({command, "--help"});
    CHECK(help.status == 0);
    CHECK_MESSAGE(holds(help.out, "Examples:\n  moeplan " + std::string(command)), command);
  }
  CHECK(holds(moeplan({"trace", "info", "--help"}).out, "Examples:\n  moeplan trace info"));
}

TEST_CASE("a slip in a command or an option gets the nearest name and status 2") {
  Result result = moeplan({"rnu", "x.yaml"});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "unknown command 'moeplan rnu'"));
  CHECK(holds(result.err, "did you mean 'run'?"));
  result = moeplan({"run", "x.yaml", "--jsn", "y"});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "error: unknown option '--jsn'\n  hint: did you mean '--json'?\n"));
  result = moeplan({"trace", "inof", "x"});
  CHECK(result.status == 2);
  CHECK(holds(result.err, "did you mean 'info'?"));
  CHECK(result.out.empty());
}

TEST_CASE("missing and surplus arguments have status 2") {
  for (const std::vector<std::string>& words : {std::vector<std::string>{},
                                                {"run"},
                                                {"trace"},
                                                {"trace", "info"},
                                                {"list"},
                                                {"sweep", kQuickstart},
                                                {"--quiet"},
                                                {"run", "a", "b"},
                                                {"run", "a", "--json"},
                                                {"run", "a", "--json", ""},
                                                {"run", "a", "--iterations", "two"},
                                                {"run", "a", "--threads", "1.5"},
                                                {"run", "a", "--threads", "-1"},
                                                {"run", "a", "--limit", "x"}}) {
    const Result result = moeplan(words);
    CHECK(result.status == 2);
    CHECK(result.err.starts_with("error: "));
    CHECK(result.out.empty());
  }
}

TEST_CASE("a repeated option takes one value each time and leaves the scenario alone") {
  std::ostringstream out;
  const auto arguments = parse_arguments({"run", "--set", "a=1", "--set", "b=2", "--data", "d", "s.yaml"}, out);
  REQUIRE(arguments);
  CHECK(arguments->scenario == "s.yaml");
  CHECK(arguments->options.overrides == std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "2"}});
  CHECK(arguments->options.data_dirs == std::vector<std::string>{"d"});
}

TEST_CASE("lists have their documented defaults, and counts are sorted") {
  std::ostringstream out;
  CHECK(parse_arguments({"chunks", "s"}, out)->counts == std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK(parse_arguments({"chunks", "s", "--counts", "8,3"}, out)->counts == std::vector<std::int64_t>{3, 8});
  CHECK(parse_arguments({"compare", "s"}, out)->policies ==
        std::vector<std::string>{"none", "recompute-moe", "memfine", "lrmoe", "memfine+lrmoe"});
  CHECK(parse_arguments({"trace", "info", "t"}, out)->ep == std::vector<std::int64_t>{8, 16, 32});
}

TEST_CASE("integers of a list are from 1 to their bound, each once: all faults are told") {
  CHECK(parse_integers("1, 16", "--x", 16) == std::vector<std::int64_t>{1, 16});
  for (const char* text : {"0", "17", "", "1,", "x", "1.0", "-1", "2,2", "1 2", "1 6,3", "99999999999999999999"}) {
    CHECK_THROWS_AS_MESSAGE(parse_integers(text, "--x", 16), base::Error, text);
  }
  try {
    parse_integers("0,x,1", "--x", 16);
    FAIL("two faults were expected");
  } catch (const base::Error& error) {
    CHECK(error.faults().size() == 2);
  }
}

TEST_CASE("names of a list stand once and are not empty") {
  CHECK(parse_names("none,a+b", "--x") == std::vector<std::string>{"none", "a+b"});
  CHECK_THROWS_AS(parse_names("a,,b", "--x"), base::Error);
  CHECK_THROWS_AS(parse_names("a,a", "--x"), base::Error);
}

}  // namespace moeplan::cli
