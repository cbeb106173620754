#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/support.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;

namespace {

const std::string kSamples = kRoot + "/tests/data/measurements/";

}  // namespace

TEST_CASE("validate --operators judges every row of the sample tables or says why not") {
  for (const char* name :
       {"gemm", "grouped_gemm", "attention", "memops", "collectives", "b200_a100pcie_shapes", "nccl_8gpu_h100"}) {
    CAPTURE(name);
    const Result result = moeplan({"validate", "--operators", kSamples + name + ".csv", "--json", "-"});
    CHECK(result.status == 0);
    const json document = json::parse(result.out);
    CHECK(document["schema"] == "moeplan.operators/1");
    std::size_t judged = 0;
    for (const json& row : document["rows"]) {
      CAPTURE(row["id"]);
      const bool ok = row["status"] == "ok";
      judged += ok ? 1 : 0;
      CHECK(ok == row["reason"].is_null());
      CHECK(ok == row["error"].is_number());
      if (!ok) continue;
      CHECK(row["error"].get<double>() ==
            doctest::Approx(row["predicted"].get<double>() / row["measured"].get<double>() - 1));
      CHECK(row["evidence"].is_string());
    }
    CHECK(document["summary"]["count"] == judged);
  }
}

TEST_CASE("validate --operators: text and JSON agree, in either order of the arguments") {
  const Folder folder;
  const std::string table = kSamples + "gemm.csv";
  const Result result = moeplan({"validate", table, "--operators", "--json", folder.at("out.json")});
  CHECK(result.status == 0);
  CHECK(holds(result.out, "operations predicted"));
  CHECK(holds(result.out, "median |error|"));
  const Result other = moeplan({"validate", "--operators", table, "--json", "-"});
  CHECK(other.out == content_of(folder.at("out.json")));
}

TEST_CASE("validate --operators: a broken row gives status 1, a broken table status 2") {
  const Folder folder;
  const std::string head = "id,gpu,op,dtype,m,n,k,time_us\n";
  const std::string rows = folder.write("rows.csv", head + "A,H200,gemm,bf16,64,64,64,5\nB,H200,gemm,bf16,64,64,x,5\n");
  const Result row = moeplan({"validate", "--operators", rows});
  CHECK(row.status == 1);
  CHECK(holds(row.out, "rows.csv:3:24: k: expected"));
  CHECK(holds(row.err, "1 of 2 rows cannot be read"));
  CHECK(moeplan({"validate", "--operators", folder.write("no.csv", "a,b\n1,2\n")}).status == 2);
  CHECK(moeplan({"validate", "--operators", rows, "--filter", "gpu=B200"}).status == 2);
  CHECK(moeplan({"validate", "--operators", rows, "--hardware", "h2000"}).status == 2);
  CHECK(moeplan({"validate", rows, "--hardware", "h200-sxm"}).status == 2);
}

TEST_CASE(
    "validate --operators --hardware predicts rows of a GPU that no profile names, and without it nothing is judged") {
  const Folder folder;
  const std::string table = folder.write(
      "rows.csv", "id,gpu,op,dtype,m,n,k,time_us\nA,Wafer,gemm,bf16,64,64,64,5\nB,Wafer,gemm,bf16,64,64,128,5\n");
  const Result none = moeplan({"validate", "--operators", table});
  CHECK(none.status == 2);
  CHECK(holds(none.out, "no profile is called 'Wafer'"));
  CHECK(holds(none.err, "error: no row was predicted: nothing is compared"));
  const Result result = moeplan({"validate", "--operators", table, "--hardware", "h100-sxm", "--json", "-"});
  CHECK(result.status == 0);
  CHECK(json::parse(result.out)["summary"]["ok"] == 2);
  CHECK(json::parse(result.out)["rows"][0]["profile"] == "h100-sxm");
}

TEST_CASE(
    "validate --operators: across nodes the rate of the NICs is the cluster's: a table states it, or --hardware does") {
  const Folder folder;
  const std::string head = "id,gpu,collective,n_gpus,n_nodes,nic_GBps_per_gpu,size_bytes,time_us\n";
  const std::string table =
      folder.write("rows.csv", head +
                                   "A,H100,all_gather,16,2,,1048576,90\nB,H100,all_gather,16,2,50,1048576,90\n"
                                   "C,H100,all_gather,8,1,,1048576,30\nD,GB200,all_gather,8,2,,1048576,30\n");
  const json rows = json::parse(moeplan({"validate", "--operators", table, "--json", "-"}).out)["rows"];
  CHECK(rows[0]["status"] == "skipped");
  CHECK(holds(rows[0]["reason"].get<std::string>(), "nic_GBps_per_gpu is not stated"));
  for (const int judged : {1, 2, 3}) CHECK(rows[static_cast<std::size_t>(judged)]["status"] == "ok");  // D: NVLink
  const Result fixed = moeplan({"validate", "--operators", table, "--hardware", "h100-sxm", "--json", "-"});
  CHECK(json::parse(fixed.out)["rows"][0]["status"] == "ok");
}

}  // namespace moeplan::cli
