#include <doctest/doctest.h>

#include "base/file.h"
#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

constexpr const char* kLine = "1\t2\t\t0.5\t0.25\n";

std::string fault_of(const std::string& path) {
  return error_of([&] { read_trace(path); });
}

}  // namespace

TEST_CASE("a folder of plain and compressed files is one trace, layers in the order of their numbers") {
  const TemporaryFolder folder;
  for (const int layer : {9, 10, 11}) folder.write("expert_weights_" + std::to_string(layer) + ".txt", kLine);
  folder.write("summary.json", "{}");  // stands beside the layers in the original folder
  const TokenTrace trace = std::get<TokenTrace>(read_trace(folder.path()));
  CHECK(trace.layer_ids == std::vector<int>{9, 10, 11});
  CHECK(trace.name == folder.path());
}

TEST_CASE("a file that ends in .csv is a count trace") {
  const TemporaryFolder folder;
  const std::string path = folder.write("counts.csv", "step,layer,e0,e1\n0,1,2,2\n");
  const CountTrace trace = std::get<CountTrace>(read_trace(path));
  CHECK(trace.name == path);
  CHECK(trace.experts == 2);
}

TEST_CASE("a path that is no trace is refused, and the message says what is one") {
  const TemporaryFolder folder;
  CHECK(fault_of(folder.path() + "/nothing") == folder.path() + "/nothing: no such file or folder");
  CHECK(contains(fault_of(""), "the path of the trace is empty"));
  const std::string empty = fault_of(folder.path());
  CHECK(contains(empty, folder.path() + ": the folder holds no trace files"));
  CHECK(contains(empty, "expert_weights_<layer>.txt"));
  const std::string other = folder.write("trace.parquet", "x");
  CHECK(contains(fault_of(other), other + ": not a known trace format"));
  CHECK(contains(fault_of(other), "step,layer"));
}

TEST_CASE("missing, doubled and misnamed layer files are named") {
  const TemporaryFolder folder;
  for (const int layer : {1, 2, 4}) folder.write("expert_weights_" + std::to_string(layer) + ".txt", kLine);
  CHECK(fault_of(folder.path()) == folder.path() +
                                       "/expert_weights_3.txt: missing: the folder has layers 1 to 4, but none between "
                                       "2 and 4");
  folder.write("expert_weights_3.txt", kLine);
  CHECK(fault_of(folder.path()) == "no error");
  folder.write("expert_weights_04.txt", kLine);
  CHECK(contains(fault_of(folder.path()), "expert_weights_4.txt: layer 4 has a second file"));
  folder.write("expert_weights_x.txt", kLine);
  CHECK(contains(fault_of(folder.path()),
                 "expert_weights_x.txt: expected the number of a layer in the file name, got 'x'"));
}

TEST_CASE("empty files, broken compression and text that is not UTF-8 are refused with their file") {
  const TemporaryFolder folder;
  folder.write("expert_weights_1.txt", kLine);
  folder.write("expert_weights_2.txt", "");
  CHECK(contains(fault_of(folder.path()), folder.path() + "/expert_weights_2.txt: "));
  folder.write("expert_weights_2.txt", "1\t2\t\t0.5\t0.25\n1\t\xFF\t\t0.5\t0.25\n");
  CHECK(contains(fault_of(folder.path()), folder.path() + "/expert_weights_2.txt:2:3: "));
  CHECK(contains(fault_of(folder.write("counts.csv", "step,layer,e0\n0,1,\xC3\n")), "counts.csv:2:5: "));
  CHECK(contains(fault_of(folder.write("none.csv", "")), "none.csv: "));
}

TEST_CASE("a compressed layer that was cut is refused at every length") {
  const std::string whole = moeplan::base::read_file(kLawTrace + "/expert_weights_1.txt.zst").substr(0, 3);
  CHECK(whole == "8\t2");  // read_file decompresses
  std::ifstream file(kLawTrace + "/expert_weights_1.txt.zst", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(bytes.size() > 1000);
  const TemporaryFolder folder;
  folder.write("expert_weights_1.txt.zst", bytes);
  CHECK(fault_of(folder.path()) == "no error");
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    folder.write("expert_weights_1.txt.zst", std::string_view(bytes).substr(0, size));
    CHECK(contains(fault_of(folder.path()), folder.path() + "/expert_weights_1.txt.zst: "));
  }
}
