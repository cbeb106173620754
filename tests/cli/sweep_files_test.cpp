#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cli/row_file.h"
#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

namespace {

std::vector<std::string> rows_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a sweep writes its rows as CSV and as JSON lines, in the order and with the figures of the document") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  // ep=3 does not divide 8 experts: a refused row between two good ones.
  const Result result = small("sweep", scenario,
                              {"--vary", "ep=2,3,4", "--json", folder.at("r.json"), "--csv", folder.at("r.csv"),
                               "--jsonl", folder.at("r.jsonl")});
  CHECK(result.status == 0);
  const json document = json::parse(content_of(folder.at("r.json")));
  const std::vector<std::string> csv = rows_of(content_of(folder.at("r.csv")));
  const std::vector<std::string> jsonl = rows_of(content_of(folder.at("r.jsonl")));
  REQUIRE(document["rows"].size() == 3);
  REQUIRE(csv.size() == 4);
  REQUIRE(jsonl.size() == 3);
  CHECK(csv[0].starts_with("ep,verdict,step_time_s,peak_allocated_bytes,"));
  CHECK(csv[0].ends_with(",profile,routing_source,error"));
  CHECK(csv[1].starts_with("2," + document["rows"][0]["verdict"].get<std::string>() + "," +
                           document["rows"][0]["step_time_s"].dump() + ","));
  CHECK(csv[1].ends_with(",h100-sxm,balanced,"));
  CHECK(csv[2].starts_with("3,,,,"));
  CHECK(holds(csv[2], "8 experts"));
  for (std::size_t i = 0; i < 3; ++i) {
    const json line = json::parse(jsonl[i]);
    CHECK(line["schema"] == "moeplan.sweep-row/1");
    CHECK(line["set"]["ep"] == document["rows"][i]["values"][0]);
    CHECK(line["step_time_s"] == document["rows"][i]["step_time_s"]);
    CHECK(line["error"] == document["rows"][i]["error"]);
  }
}

TEST_CASE("values and errors with commas, quotes and line breaks stay one cell of one line") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  const Result result =
      small("sweep", scenario, {"--vary", "memfine.bins=[1, 2],[\"x\"]", "--csv", folder.at("r.csv")});
  CHECK(result.status == 0);
  const std::vector<std::string> csv = rows_of(content_of(folder.at("r.csv")));
  REQUIRE(csv.size() == 3);
  CHECK(csv[1].starts_with("\"[1, 2]\","));
  CHECK(csv[2].starts_with("\"[\"\"x\"\"]\","));
}

TEST_CASE("an output that would harm an input or cannot be written is refused before any work") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  for (const std::string option : {"--csv", "--jsonl"}) {
    CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", option, scenario}).err,
                option + " " + scenario + ": would replace the input"));
    CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", option, folder.at("no/r")}).err,
                "the folder does not exist"));
    CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", option, folder.at("")}).err, "it is a directory"));
    CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", option, ""}).err, option + ": expected a path"));
    CHECK(small("sweep", scenario, {"--vary", "ep=4", option, "-"}).status == 2);
  }
  CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", "--csv", folder.at("a"), "--jsonl", folder.at("a")}).err,
              "--csv and --jsonl name the same file"));
  CHECK(holds(small("sweep", scenario, {"--vary", "ep=4", "--json", folder.at("a"), "--csv", folder.at("a")}).err,
              "--json and --csv name the same file"));
  // A sweep that never starts leaves an old file as it was.
  const std::string old = folder.write("old.csv", "old\n");
  CHECK(small("sweep", folder.at("none.yaml"), {"--vary", "ep=4", "--csv", old}).status == 2);
  CHECK(content_of(old) == "old\n");
}

TEST_CASE("rows are in the file as soon as they are added") {
  const Folder folder;
  RowFile file("--csv", folder.at("r"), {});
  CHECK_FALSE(std::filesystem::exists(folder.at("r")));
  file.add("a\n");
  CHECK(content_of(folder.at("r")) == "a\n");
  file.add("b\n");
  CHECK(content_of(folder.at("r")) == "a\nb\n");
  RowFile none("--csv", "", {});
  none.add("x\n");  // does nothing
  CHECK_FALSE(none.wanted());
}

TEST_CASE("rows go to the file when nobody reads standard output") {
  const Folder folder;
  const std::string scenario = folder.write("s.yaml", kSmall);
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);  // a closed pipe
  CHECK(run({"sweep", scenario, "--data", kData, "--vary", "ep=2,4", "--csv", folder.at("r.csv")}, out, err) == 0);
  CHECK(rows_of(content_of(folder.at("r.csv"))).size() == 3);
}

TEST_CASE("--json must not replace the file of a part of a trace") {
  const Folder folder;
  const std::string path = folder.write("c.json", "{}");
  CHECK(holds(moeplan({"trace", "info", path + "#m/a", "--json", path}).err, "would replace the input"));
  CHECK(content_of(path) == "{}");
}

TEST_CASE("trace info names the part of the file, and tokens that were left out") {
  const std::string data = kRoot + "/tests/data/routing/";
  const Result part = moeplan({"trace", "info", data + "olmoe/expert_counts.json#olmoe/c4"});
  CHECK(part.status == 0);
  CHECK(part.out.starts_with("TRACE  expert_counts.json#olmoe/c4: 3 layers, 64 experts, 8 a token, 1 step"));
  const Result missing = moeplan({"trace", "info", data + "arrays/missing.npz", "--json", "-"});
  CHECK(json::parse(missing.out)["tokens_without_route"] == 1);
  std::string text = moeplan({"trace", "info", data + "arrays/missing.npz"}).out;
  text.erase(std::remove_if(text.begin(), text.end(), [](char c) { return c == ' ' || c == '\n'; }), text.end());
  CHECK(holds(text, "4tokens,1tokenwithoutarouteleftout"));  // lines are wrapped anywhere
}

}  // namespace moeplan::cli
