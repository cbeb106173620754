#include "base/nearest.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace moeplan::base;

TEST_CASE("the nearest name is found whatever the case and the kind of dash") {
  const std::vector<std::string> known = {"a100-sxm", "h100-sxm", "h200-sxm"};
  CHECK(nearest_name("H100_SXM", known) == "h100-sxm");
  CHECK(nearest_name("h100-smx", known) == "h100-sxm");  // a swap of neighbours is one edit
  CHECK(nearest_name("h10-sxm", known) == "h100-sxm");
}

TEST_CASE("a name at the limit of the distance is near, one beyond is not") {
  // Words up to 8 letters: limit 2. "abcdef" to "abcdXY" is 2 edits, to "abcXYZ" 3.
  CHECK(nearest_name("abcdef", std::vector<std::string>{"abcdXY"}) == "abcdXY");
  CHECK(nearest_name("abcdef", std::vector<std::string>{"abcXYZ"}).empty());
  // 12 letters: a third is 4.
  CHECK(nearest_name("abcdefghijkl", std::vector<std::string>{"abcdefghWXYZ"}) == "abcdefghWXYZ");
  CHECK(nearest_name("abcdefghijkl", std::vector<std::string>{"abcdefgVWXYZ"}).empty());
}

TEST_CASE("names that share no character with a short word are not near") {
  CHECK(nearest_name("zz", std::vector<std::string>{"tp", "pp"}).empty());
  CHECK(nearest_name("tq", std::vector<std::string>{"pp", "tp"}) == "tp");
}

TEST_CASE("of equally near names the first wins, and an empty list has none") {
  CHECK(nearest_name("xp", std::vector<std::string>{"pp", "tp"}) == "pp");
  CHECK(nearest_name("xp", std::vector<std::string>{"tp", "pp"}) == "tp");
  CHECK(nearest_name("xp", std::vector<std::string>{}).empty());
}

TEST_CASE("the hint asks only when a name is near") {
  const std::vector<std::string> known = {"memfine", "lrmoe"};
  CHECK(nearest_hint("memfin", known) == "did you mean 'memfine'?");
  CHECK(nearest_hint("something", known).empty());
}

TEST_CASE("names are joined by commas") {
  CHECK(join_names(std::vector<std::string>{"a", "b", "c"}) == "a, b, c");
  CHECK(join_names(std::vector<std::string>{"a"}) == "a");
  CHECK(join_names(std::vector<std::string>{}).empty());
}
