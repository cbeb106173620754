#include <doctest/doctest.h>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;

namespace {

const std::string kLog = kRoot + "/tests/data/measurements/all_reduce_8.log";

}  // namespace

TEST_CASE("import nccl-tests writes rows as CSV or entries of a profile, by the name of -o") {
  const Folder folder;
  const Result csv = moeplan({"import", "nccl-tests", kLog, "-o", folder.at("t.csv")});
  CHECK(csv.status == 0);
  CHECK(csv.err.empty());
  CHECK(content_of(folder.at("t.csv"))
            .starts_with("collective,ranks,nodes,gpu,size_bytes,time_us,source\n"
                         "all_reduce,8,1,NVIDIA H100 80GB HBM3,1024,"));
  const Result yaml = moeplan({"import", "nccl-tests", kLog});
  CHECK(holds(yaml.out, "collectives:\n"));
  CHECK(holds(yaml.out, "  - collective: all_reduce\n    ranks: 8\n    nodes: 1\n    sizes: [1024 B, 4096 B,"));
  // The times of the file follow 16 us and 480 GB/s with exponent 0.6, printed with two decimals.
  const Result law = moeplan({"import", "nccl-tests", kLog, "--form", "law"});
  CHECK(holds(law.out, "fitted to every second of 11 sizes"));
  CHECK(holds(law.out, "    exponent: 0.6\n"));
}

TEST_CASE("import nccl-tests: entries that were written become part of a profile") {
  const Folder folder;
  std::filesystem::create_directories(folder.at("hw_profiles"));
  const std::string entries = moeplan({"import", "nccl-tests", kLog}).out;
  std::string profile = content_of(kRoot + "/hw_profiles/h100-sxm.yaml");
  if (const std::size_t at = profile.find("\ncollectives:"); at != std::string::npos) profile.resize(at + 1);
  folder.write("hw_profiles/mine.yaml", profile + "\n" + entries);
  CHECK(moeplan({"list", "hardware", "mine", "--data", folder.at("")}).status == 0);
}

TEST_CASE("import nccl-tests sets rows of another part aside, and refuses a log of nothing else") {
  const Result other = moeplan({"import", "nccl-tests", kLog, "--hardware", "b200-sxm"});
  CHECK(other.status == 2);
  CHECK(holds(other.err, "all_reduce_8.log:17: of another part: 'NVIDIA H100 80GB HBM3', not b200-sxm"));
  CHECK(moeplan({"import", "nccl-tests", kLog, "--hardware", "h100-sxm"}).status == 0);
}

TEST_CASE("import nccl-tests refuses bad input with one message a fault") {
  const Folder folder;
  const std::string text = folder.write("notes.txt", "nothing here\n");
  const Result none = moeplan({"import", "nccl-tests", text, folder.at("missing.log")});
  CHECK(none.status == 2);
  CHECK(holds(none.err, "notes.txt: no row of a collective benchmark"));
  CHECK(holds(none.err, "missing.log"));
  CHECK(moeplan({"import", "nccl-tests"}).status == 2);
  CHECK(moeplan({"import", "nccl-tests", kLog, "--form", "spline"}).status == 2);
  CHECK(moeplan({"import", "nccl-tests", kLog, "--ranks", "1"}).status == 2);
  const Result name = moeplan({"import", "nccl-tests", kLog, "--collective", "all_reduces"});
  CHECK(name.status == 2);
  CHECK(holds(name.err, "did you mean"));
  CHECK(holds(moeplan({"import", "nccl-tests", kLog, "-o", kLog}).err, "would replace the input"));
}

}  // namespace moeplan::cli
