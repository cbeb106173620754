#include "base/check.h"

#include <doctest/doctest.h>

#include <string>

using moeplan::base::InternalError;

TEST_CASE("a check that holds does nothing, one that fails throws with place, message and expression") {
  const int ranks = 3;
  CHECK_NOTHROW(MOEPLAN_CHECK(ranks == 3, "unreachable"));
  std::string text;
  try {
    MOEPLAN_CHECK(ranks == 4, "ranks must be four");
  } catch (const InternalError& error) {
    text = error.what();
  }
  CHECK(text.find("internal error at check_test.cpp:") == 0);  // the base name: no folder of the build machine
  CHECK(text.find("ranks must be four (ranks == 4)") != std::string::npos);
}
