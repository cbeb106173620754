#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

namespace {

const std::string kRuns = kRoot + "/tests/data/runs/measured_runs.csv";
const std::string kHead = "id,model,gpu,gpus,pp,ep,gbs,seq_len,step_time_s,peak_allocated_gib,use\n";
const std::string kGood = "A,tiny-moe,h100-sxm,4,1,2,8,256,1.5,1,time+mem\n";

Result validate(const std::string& table, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"validate", table, "--data", kData};
  words.insert(words.end(), more.begin(), more.end());
  return moeplan(words);
}

}  // namespace

TEST_CASE("golden: docs/validation.md is what validate writes for the rows that are shipped") {
  const Folder folder;
  const std::string written = folder.at("validation.md"), stored = kRoot + "/docs/validation.md";
  const Result result = moeplan({"validate", kRuns, "--markdown", written, "--json", "-"});
  CHECK(result.err == "");
  REQUIRE(result.status == 0);
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(stored, std::ios::binary) << content_of(written);
  }
  CHECK_MESSAGE(content_of(written) == content_of(stored),
                "docs/validation.md is not current; write it with: UPDATE_GOLDEN=1 ctest --preset dev -R golden");

  // Every row is there, in the order of the table, simulated or with a reason.
  const json document = json::parse(result.out);
  CHECK(document["schema"] == "moeplan.validate/1");
  const std::string table = content_of(kRuns);
  const auto lines = static_cast<std::size_t>(std::count(table.begin(), table.end(), '\n'));
  CHECK(document["rows"].size() == lines - 1);  // no cell of the shipped rows holds a line feed
  for (const json& row : document["rows"]) {
    CAPTURE(row["id"]);
    CHECK((row["status"] == "ok") == row["reason"].is_null());
    CHECK((row["status"] == "ok") == row["step_time_s"]["predicted"].is_number());
  }
  // Those that state no layout string for layers that need one, those in fp32, and nothing else.
  for (const json& row : document["rows"]) {
    if (row["status"] == "ok") continue;
    const std::string reason = row["reason"];
    CHECK((holds(reason, "pp_layout is not stated") || holds(reason, "no --bf16")));
  }
  CHECK(document["summary"]["by"][0]["by"] == "total");
  CHECK(document["summary"]["ranks"]["allocated"]["n"].get<int>() >= 100);
}

TEST_CASE("validate compares a row, and says the same in any number of threads") {
  const Folder folder;
  const std::string table = folder.write("runs.csv", kHead + kGood + "B,tiny-moe,h100-sxm,8,2,4,16,128,0.1,,time\n");
  const Result one = validate(table, {"--threads", "1"});
  CHECK(one.status == 0);
  CHECK(one.err == "");
  CHECK(one.out.starts_with("2 of 2 rows simulated, 0 skipped, 0 with errors; 2 stand in the summaries"));
  CHECK(one.out == validate(table, {"--threads", "3"}).out);
  const json document = json::parse(validate(table, {"--json", "-"}).out);
  const json& row = document["rows"][0];
  CHECK(row["step_time_s"]["measured"] == 1.5);
  CHECK(row["peak_allocated_bytes"]["measured"] == 1073741824.0);
  const double predicted = row["peak_allocated_bytes"]["predicted"].get<double>();
  CHECK(row["peak_allocated_bytes"]["error"].get<double>() == doctest::Approx(predicted / 1073741824.0 - 1));
  CHECK(row["peak_reserved_bytes"]["measured"].is_null());
  CHECK_FALSE(holds(validate(table, {"--json", "-"}).out, folder.at("")));
}

TEST_CASE("validate goes on behind rows that are wrong, names what is wrong, and ends with status 1 and the count") {
  const Folder folder;
  const std::string table = folder.write(
      "runs.csv", kHead + "B,no-such-model,h100-sxm,4,1,2,8,256,,,\n" + "C,tiny-moe,h100-sxm,four,1,2,8,256,,,\n" +
                      "D,tiny-moe,h100-sxm,4,3,1,8,256,,,\n" + "E,tiny-moe,h900,4,1,2,8,256,,,\n" + kGood);
  const Result result = validate(table);
  CHECK(result.status == 1);
  CHECK(result.err == "error: 4 of 5 rows cannot be read or are impossible\n");
  for (const char* part : {"model: unknown model 'no-such-model'", "gpus: expected a whole number >= 1, got 'four'",
                           "gpu: unknown hardware profile 'h900'", "Rows with errors", "1 of 5 rows simulated"}) {
    CAPTURE(part);
    CHECK(holds(result.out, part));
  }
}

TEST_CASE("validate: a table that is no such table is refused as a whole") {
  const Folder folder;
  CHECK(validate(folder.at("missing.csv")).status == 2);
  const Result columns = validate(folder.write("a.csv", "id,model\nA,b\n"));
  CHECK(columns.status == 2);
  CHECK(holds(columns.err, "a.csv:1: columns are missing: gpu, gpus, gbs, seq_len"));
  const std::string table = folder.write("runs.csv", kHead + kGood);
  CHECK(holds(validate(table, {"--filter", "modell=x"}).err, "did you mean 'model'?"));
  CHECK(holds(validate(table, {"--filter", "model"}).err, "--filter model"));
  CHECK(holds(validate(table, {"--filter", "model=x"}).err, "no row is left by --filter"));
  CHECK(validate(table, {"--filter", "model=tiny-moe", "--filter", "id=A"}).status == 0);
  CHECK(holds(validate(table, {"--markdown", table}).err, "would replace the input"));
  CHECK(validate(table, {"--json", table}).status == 2);
  CHECK(content_of(table) == kHead + kGood);
}

TEST_CASE("import runs lists the rows with their status, and writes one as a scenario that runs") {
  const Folder folder;
  const std::string table = folder.write("runs.csv", kHead + kGood + "B,no-such,h100-sxm,4,1,2,8,256,,,\n");
  const auto import = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"import", "runs", table, "--data", kData};
    words.insert(words.end(), more.begin(), more.end());
    return moeplan(words);
  };
  const Result list = import({});
  CHECK(list.status == 0);
  CHECK(holds(list.out, "A    ok      tiny-moe"));
  CHECK(holds(list.out, "model: unknown model 'no-such'"));
  const std::string scenario = folder.at("a.yaml");
  const Result one = import({"--id", "A", "-o", scenario});
  CHECK(one.status == 0);
  CHECK(one.out == "");
  CHECK(holds(content_of(scenario), "# Row A of a table of measured runs."));
  const Result run = small("run", scenario);
  CHECK(run.err == "");
  CHECK(run.status == 0);
  CHECK(holds(import({"--id", "a"}).err, "the table has no such row"));
  const Result wrong = import({"--id", "B"});
  CHECK(wrong.status == 2);
  CHECK(holds(wrong.err, "row B: model: unknown model"));
}

}  // namespace moeplan::cli
