#include "measurements/read_table.h"

#include <doctest/doctest.h>

#include <limits>

#include "support/holds.h"

namespace moeplan::measurements {
namespace {

const std::string kData = MOEPLAN_SOURCE_DIR "/tests/data/measurements/";
const std::string kHead = "id,gpu,op,dtype,m,n,k,time_us\n";

MeasurementTable table_of(const std::string& name) { return read_measurements(kData + name + ".csv"); }
Measurement csv_row(const std::string& line) { return parse_measurements(kHead + line + "\n", "t.csv").rows.at(0); }
std::string message_of(const std::string& text) {
  try {
    parse_measurements(text, "t.csv");
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}
using moeplan::test::holds;

}  // namespace

TEST_CASE("a GEMM row has its shape, type, pass and time") {
  const MeasurementTable table = table_of("gemm");
  REQUIRE(table.rows.size() == 9);
  const Measurement& first = table.rows[0];
  CHECK(first.id == "gemm_00005");
  CHECK(first.where.line == 2);
  CHECK(first.gpu == "H200-SXM");
  CHECK(first.family == Family::gemm);
  CHECK(first.precision == cost::Precision::bf16);
  CHECK(first.shape.m == 16);
  CHECK(first.shape.n == 32);
  CHECK(first.shape.k == 65536);
  CHECK(first.seconds == doctest::Approx(8.253e-6));
  CHECK(flop_of(first) == 2.0 * 16 * 32 * 65536);
  CHECK(table.rows[1].precision == cost::Precision::fp8);
  CHECK(table.rows[2].pass == cost::GemmPass::forward);  // TN
  CHECK(table.rows[3].pass == cost::GemmPass::dgrad);    // NN
  CHECK(table.rows[4].pass == cost::GemmPass::wgrad);    // NT
  CHECK(table.rows[4].gradient_bytes == 8);              // added to fp32
  CHECK(table.rows[6].precision == cost::Precision::nvfp4);
  // The last row is a whole MLP of which the table states two sizes only.
  CHECK(table.rows[8].status == Status::skipped);
  CHECK(table.notes == std::vector<std::string>{"columns that are not read: source_path, pct_peak"});
}

TEST_CASE("grouped rows are spread evenly, and rows that say too little are set aside with the reason") {
  const MeasurementTable table = table_of("grouped_gemm");
  REQUIRE(table.rows.size() == 7);
  const Measurement& layer = table.rows[0];
  CHECK(layer.family == Family::moe_layer);
  CHECK(layer.group_rows == std::vector<std::int64_t>(128, 1024));  // 16384 tokens, top-8 of 128 experts
  CHECK(layer.shape.n == 96);
  CHECK(layer.shape.hidden == 4096);
  CHECK(flop_of(layer) == 3.0 * 128 * 1024 * 96 * 4096);
  CHECK(holds(table.rows[1].reason, "ep > 1"));
  CHECK(holds(table.rows[2].reason, "power_law_1.2"));
  const Measurement& forward = table.rows[3];
  CHECK(forward.family == Family::grouped_gemm);
  CHECK(forward.group_rows == std::vector<std::int64_t>(160, 154));
  CHECK(flop_of(forward) == 2.0 * 160 * 154 * 3072 * 5120);
  CHECK(table.rows[4].pass == cost::GemmPass::dgrad);
  CHECK(table.rows[5].pass == cost::GemmPass::wgrad);
  CHECK(holds(table.rows[6].reason, "no cost model describes 'fused_moe"));
}

TEST_CASE("rows that do not divide leave the first groups one more, and groups beyond the rows empty") {
  CHECK(even_rows(7, 3) == std::vector<std::int64_t>{3, 2, 2});
  CHECK(even_rows(2, 3) == std::vector<std::int64_t>{1, 1, 0});
}

TEST_CASE("attention rows, with a rate instead of a time where the table has no time") {
  const MeasurementTable table = table_of("attention");
  REQUIRE(table.rows.size() == 7);
  const Measurement& forward = table.rows[0];
  CHECK(forward.family == Family::attention);
  CHECK_FALSE(forward.backward);
  CHECK(forward.shape.kv_heads == 4);
  CHECK(forward.cache_write);
  CHECK(forward.library == "VLLM 0.24.0 vllm_flash_attn_fa3");
  // Causal and halved: 2 sequences, 64 heads, 12288^2 (128 + 128) FLOPs; the row says 599.51 TFLOP/s.
  CHECK(flop_of(forward) / forward.seconds == doctest::Approx(599.51e12).epsilon(1e-4));
  CHECK(table.rows[2].backward);
  CHECK(flop_of(table.rows[2]) / table.rows[2].seconds == doctest::Approx(181.6e12).epsilon(1e-3));
  // SimuMax counts the whole square: 2 x 128 heads x 4096^2 x (192 + 128) at 1868.9 TFLOP/s.
  CHECK(table.rows[3].from_rate);
  CHECK(table.rows[3].seconds == doctest::Approx(2.0 * 128 * 4096 * 4096 * 320 / 1868.9e12));
  CHECK(holds(table.rows[4].reason, "only causal"));
  CHECK(holds(table.rows[5].reason, "bf16"));
  CHECK(holds(table.rows[6].reason, "is not stated"));
}

TEST_CASE("shapes that stand in one text are unpacked") {
  const MeasurementTable table = table_of("b200_a100pcie_shapes");
  REQUIRE(table.rows.size() == 8);
  for (const Measurement& row : table.rows) CHECK_MESSAGE(row.status == Status::ok, row.reason);
  CHECK(table.rows[0].id == "b200_a100pcie_shapes:2");
  CHECK(table.rows[1].pass == cost::GemmPass::dgrad);
  CHECK(table.rows[2].pass == cost::GemmPass::wgrad);
  CHECK(table.rows[2].shape.k == 4096);
  CHECK(table.rows[2].seconds == doctest::Approx(0.510782e-3));
  CHECK(table.rows[3].group_rows == std::vector<std::int64_t>(160, 154));
  CHECK(table.rows[4].pass == cost::GemmPass::dgrad);
  CHECK(table.rows[5].pass == cost::GemmPass::wgrad);
  // Efficiency times 2250 TFLOP/s, of the whole square; backward counts 2.5 times forward.
  CHECK(table.rows[6].seconds == doctest::Approx(2.0 * 64 * 4096 * 4096 * 256 / (0.8715233665672911 * 2250e12)));
  CHECK(table.rows[7].seconds == doctest::Approx(5.0 * 128 * 4096 * 4096 * 320 / (0.6425509366582514 * 2250e12)));
}

TEST_CASE("collectives, dispatch kernels and memory-bound operations") {
  const MeasurementTable table = table_of("collectives");
  CHECK(table.rows[0].family == Family::collective);
  CHECK(table.rows[0].shape.ranks == 8);
  CHECK(table.rows[0].shape.bytes == 1048576);
  CHECK(table.rows[4].family == Family::dispatch);
  CHECK(table.rows[4].precision == cost::Precision::fp8);
  CHECK(table.rows[4].shape.sms == 4);
  CHECK(table.rows[5].backward);
  CHECK(table.rows[6].status == Status::skipped);
  const MeasurementTable nccl = table_of("nccl_8gpu_h100");
  CHECK(nccl.rows[0].kind == "all_reduce");
  CHECK(nccl.rows[0].seconds == doctest::Approx(46.24e-6));
  CHECK(nccl.rows[1].shape.ranks == 8);
  const MeasurementTable memory = table_of("memops");
  CHECK(memory.rows[0].family == Family::memory);
  CHECK(memory.rows[0].shape.bytes == 163577856);
  CHECK(memory.rows[1].status == Status::ok);
  CHECK(holds(memory.rows[2].reason, "bytes is not stated"));
  CHECK(holds(memory.rows[3].reason, "no cost model describes 'fp8_dynamic_scale"));
}

TEST_CASE("broken cells make the row an error that names file, line, column and what was found") {
  const auto error_of = [](const std::string& line, const std::string& expected) {
    const Measurement row = csv_row(line);
    CHECK(row.status == Status::error);
    CHECK_MESSAGE(holds(row.reason, expected), row.reason);
  };
  error_of("A,H200,gemm,bf16,lots,64,64,5", "t.csv:2:18: m: expected a whole number from 1 to 2147483648, got 'lots'");
  error_of("A,H200,gemm,bf16,0,64,64,5", "got '0'");
  error_of("A,H200,gemm,bf16,64,64,64,nan", "t.csv:2:27: time_us: expected a number > 0, got 'nan'");
  error_of("A,H200,gemm,bf16,64,64,64,0", "got '0'");
  error_of("A,H200,gemm,bf16,64,64,64,-1", "got '-1'");
  error_of("A,H200,gemm,bf16,64,64", "t.csv:2: 6 cells, but the header has 8");
  error_of("A,,gemm,bf16,64,64,64,5", "expected the GPU");
  // All faults of a row at once.
  const Measurement row = csv_row("A,H200,gemm,bf16,x,y,64,-1");
  CHECK(row.faults.size() == 3);
  CHECK(csv_row("A,H200,gemm,bf16,1,1,1,1e-9").status == Status::ok);
}

TEST_CASE("types, kinds and times that nobody models set the row aside") {
  CHECK(holds(csv_row("A,H200,gemm,int4,64,64,64,5").reason, "no cost model has the type 'int4'"));
  CHECK(holds(csv_row("A,H200,conv2d,bf16,64,64,64,5").reason, "no cost model describes 'conv2d'"));
  CHECK(holds(csv_row("A,H200,gemm,bf16,64,64,64,").reason, "no time is stated"));
  CHECK(csv_row("A,H200,conv2d,bf16,64,64,64,5").status == Status::skipped);
}

TEST_CASE("JSON lines hold the same fields, and rows of each group as a list") {
  const MeasurementTable table = parse_measurements(
      R"({"id": "a", "gpu": "H200", "op": "gemm", "dtype": "bf16", "m": 64, "n": 128, "k": 256, "time_us": 3.5}
{"gpu": "H200", "kind": "grouped_gemm_fwd", "dtype": "bf16", "group_rows": [3, 0, 5], "n": 64, "k": 64, "time_us": 7}
{"gpu": "H200", "op": "gemm", "m": 64, "n": 128, "k": 256, "time_us": "soon"}
{"gpu": "H200", "op": "gemm", "m": 64, "n"
[1, 2]
{"gpu": "H200", "op": "gemm", "m": 1e400, "n": 1, "k": 1, "time_us": 1}
)",
      "t.jsonl");
  REQUIRE(table.rows.size() == 6);
  CHECK(table.rows[0].id == "a");
  CHECK(table.rows[0].shape.n == 128);
  CHECK(table.rows[0].seconds == doctest::Approx(3.5e-6));
  CHECK(table.rows[1].id == "t:2");
  CHECK(table.rows[1].group_rows == std::vector<std::int64_t>{3, 0, 5});
  CHECK(holds(table.rows[2].reason, "t.jsonl:3:60: time_us: expected a number > 0, got 'soon'"));
  CHECK(holds(table.rows[3].reason, "t.jsonl:4:43: the line is no JSON"));
  CHECK(holds(table.rows[4].reason, "expected a JSON object"));
  CHECK(table.rows[4].status == Status::error);
  CHECK(holds(table.rows[5].reason, "t.jsonl:6:1: a number is too large"));
}

TEST_CASE("no operation takes more than a day, whichever column states it") {
  const std::string head = "gpu,op,dtype,m,n,k,time_us,time_s\n";
  const auto row = [&](const std::string& times) {
    return parse_measurements(head + "H200,gemm,bf16,64,64,64," + times + "\n", "t.csv").rows.at(0);
  };
  CHECK(row("8.64e10,").status == Status::ok);
  const Measurement long_one = row("1e308,");
  CHECK(long_one.status == Status::error);
  CHECK(holds(long_one.reason, "t.csv:2:25: time_us: expected at most a day, 8.64e+10 in this column, got '1e308'"));
  CHECK(row(",86400").status == Status::ok);
  CHECK(row(",86401").status == Status::error);
}

TEST_CASE("an empty file, and lines of a device without measurements, are refused as what they are") {
  for (const char* text : {"", "\n", " \n\n"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_measurements(text, "t.jsonl"), "t.jsonl: the file is empty");
  }
}

TEST_CASE("a weight gradient of groups says what it is added to, or is set aside") {
  // Added to bf16 an element is read and written with 4 bytes, added to fp32 with 8.
  const auto row = [](const std::string& more) {
    return parse_measurements(
               R"({"gpu":"B200","op":"grouped_gemm_wgrad","groups":2,"m_per_group":64,"n":64,"k":64,"time_us":9)" +
                   more + "}\n",
               "t.jsonl")
        .rows.at(0);
  };
  CHECK(row(R"(,"main_grad_dtype":"fp32")").gradient_bytes == 8);
  CHECK(row(R"(,"main_grad_dtype":"bf16")").gradient_bytes == 4);
  CHECK(row("").status == Status::skipped);
  CHECK(holds(row("").reason, "main_grad_dtype is not stated"));
}

TEST_CASE("the network between hosts is known by its name, and what a comment adds to a GPU is left") {
  const auto row = [](const std::string& more) {
    return parse_measurements(
               R"({"collective":"all_gather","n_gpus":16,"n_nodes":2,"size_bytes":64,"time_us":9)" + more + "}\n",
               "t.jsonl")
        .rows.at(0);
  };
  const std::string gpu = R"(,"gpu":"H100")";
  CHECK(row(gpu + R"(,"inter":"EFAv2 32x100G per node")").fabric == "efa");
  CHECK(row(gpu + R"(,"inter":"2x NVL72 + IB NDR400/GPU")").fabric == "infiniband");
  CHECK(row(gpu + R"(,"inter":"Pollara 8x400G RoCE")").fabric == "pollara");
  CHECK(row(gpu + R"(,"inter":"RoCE 800G/GPU")").fabric == "roce");
  CHECK(row(gpu + R"(,"inter":"-")").fabric == "");
  CHECK(row(gpu + R"(,"inter":"EFAv2","fabric":"ours")").fabric == "ours");
  CHECK(row(gpu + R"(,"algo":"Ring")").algorithm == "Ring");
  CHECK(row(R"x(,"gpu_as_commented":"H100 NVLink (not stated)")x").gpu == "H100 NVLink");
  CHECK(row(R"x(,"gpu":"H100 (ours)")x").gpu == "H100 (ours)");
}

TEST_CASE("a table without the columns of a measurement is refused with all that is missing") {
  CHECK(holds(message_of("id,gpu,gpu,m\nA,b,c,1\n"), "stands twice"));
  const std::string message = message_of("id,what\nA,1\n");
  CHECK(holds(message, "a column is missing: gpu"));
  CHECK(holds(message, "no column says what was timed"));
  CHECK(holds(message, "no column holds a time"));
  CHECK(holds(message_of(kHead), "no rows"));
  CHECK(holds(message_of(""), "empty"));
  const MeasurementTable table = parse_measurements("gpu,op,m,n,k,time_uss,time_us\nH200,gemm,1,1,1,1,1\n", "t.csv");
  CHECK(table.notes.size() == 1);
}

TEST_CASE("rows are kept by the text of a column, and an unknown column is refused with the nearest") {
  MeasurementTable table = table_of("gemm");
  CHECK_THROWS_WITH_AS(keep_where(table, "gpus", "B200", "--filter gpus=B200"), doctest::Contains("did you mean 'gpu'"),
                       base::Error);
  keep_where(table, "gpu", "B200", "--filter gpu=B200");
  CHECK(table.rows.size() == 4);
}

}  // namespace moeplan::measurements
