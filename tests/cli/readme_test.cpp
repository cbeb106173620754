#include <doctest/doctest.h>

#include <set>

#include "cli/support.h"

// README.md shows what the program prints, shortened by lines of "...". Its figures must be those of today.
namespace moeplan::cli {
using namespace testing;

namespace {

std::string trimmed(const std::string& line) { return line.substr(0, line.find_last_not_of(" \r") + 1); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(trimmed(line));
  return lines;
}

// The `number`-th fenced block (from 0) after the line that begins with `heading`; empty when there is none.
std::vector<std::string> block_after(const std::string& text, const std::string& heading, int number) {
  std::vector<std::string> block;
  bool after = false;
  int fences = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(heading)) after = true;
    if (!after) continue;
    if (line.starts_with("```")) {
      ++fences;
    } else if (fences == 2 * number + 1) {
      block.push_back(line);
    }
  }
  return block;
}

void check_block(const std::vector<std::string>& block, const std::vector<std::string>& arguments) {
  const Result result = moeplan(arguments);
  CHECK(result.status == 0);
  const std::vector<std::string> printed = lines_of(result.out);
  const std::set<std::string> known(printed.begin(), printed.end());
  for (const std::string& line : block) {
    if (trimmed(line).empty() || line.find_first_not_of(" .") == std::string::npos) continue;
    CHECK_MESSAGE(known.contains(line), "README.md shows a line that is not printed (any more): " << line);
  }
}

}  // namespace

TEST_CASE("README.md: the answer of `run` is what the program prints") {
  const auto block = block_after(content_of(kRoot + "/README.md"), "What `quickstart.sh` shows", 0);
  REQUIRE(block.size() > 20);
  CHECK(block.front().starts_with("FITS  rank "));
  check_block(block, {"run", kQuickstart});
}

TEST_CASE("README.md: the answer of `compare` is what the program prints") {
  const auto block = block_after(content_of(kRoot + "/README.md"), "What `quickstart.sh` shows", 1);
  REQUIRE(block.size() > 5);
  CHECK(block.front().starts_with("FITS  5 of 5 sets"));
  check_block(block, {"compare", kQuickstart});
}

}  // namespace moeplan::cli
