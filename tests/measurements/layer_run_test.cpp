#include "measurements/layer_run.h"

#include <doctest/doctest.h>

#include "support/layer_lines.h"

namespace moeplan::measurements {
namespace {
using test::device_line;
using test::end_line;
using test::layer_line;

// "2:118: forward_us: ..." of the only fault of a file's only run.
std::string fault_of(const std::map<std::string, std::string>& fields) {
  const LayerRunFile file = parse_layer_runs(layer_line(fields), "a.jsonl");
  REQUIRE(file.runs.size() == 1);
  const LayerRun& run = file.runs[0];
  if (run.faults.empty()) return {};
  CHECK(run.status == Status::error);
  CHECK(run.faults.size() == 1);
  CHECK(run.faults[0].where.line == 1);
  return run.faults[0].where.key + ": " + run.faults[0].message;
}
}  // namespace

TEST_CASE("a layer line is read with all that is compared") {
  const LayerRunFile file = parse_layer_runs(
      device_line() +
          layer_line({{"chunks", "2"}, {"backward", "\"recompute\""}, {"chunk_rows", "[32,0,16,16,32,32,0,0]"}}) +
          R"({"schema":"moeplan.device/1","record":"left_out","what":"8 chunks","why":"too late"})"
          "\n" +
          end_line(3),
      "a.jsonl");
  CHECK(file.faults.empty());
  CHECK(file.left_out == std::vector<std::string>{"8 chunks: too late"});
  REQUIRE(file.runs.size() == 1);
  const LayerRun& run = file.runs[0];
  CHECK(run.status == Status::ok);
  CHECK(run.where.line == 2);
  CHECK(run.gpu == "NVIDIA H200");
  CHECK(run.tokens == 64);
  CHECK(run.chunks == 2);
  CHECK(run.chunk_rows == std::vector<std::int64_t>{32, 0, 16, 16, 32, 32, 0, 0});
  CHECK(run.forward_s == doctest::Approx(100e-6));
  CHECK(run.backward_s == doctest::Approx(200e-6));
  CHECK(run.backward_peak_bytes == 86016);
}

TEST_CASE("what a line says wrongly is an error at its key, with what was expected and found") {
  CHECK(fault_of({}).empty());
  const std::string time = "forward_us: expected a number above 0 and up to 1e+09, got ";
  CHECK(fault_of({{"forward_us", "0"}}) == time + "0");
  CHECK(fault_of({{"forward_us", "-3.5"}}) == time + "-3.5");
  CHECK(fault_of({{"forward_us", "null"}}) == time + "null");
  CHECK(fault_of({{"forward_us", "\"nan\""}}) == time + "\"nan\"");
  CHECK(fault_of({{"forward_us", "1e10"}}) == time + "10000000000.0");
  CHECK(fault_of({{"forward_us", ""}}) == time + "nothing");
  CHECK(fault_of({{"backward_peak_bytes", "1.5"}}) ==
        "backward_peak_bytes: expected a whole number from 1 to 70368744177664, got 1.5");
  CHECK(
      fault_of({{"tokens", "18446744073709551615"}}).starts_with("tokens: expected a whole number from 1 to 16777216"));
  CHECK(fault_of({{"tokens", "16777216"}, {"experts", "128"}, {"top_k", "128"}}) ==
        "top_k: expected at most 2147483647 pairs, tokens times top_k, got 2147483648");
  CHECK(fault_of({{"gpu", "\"\""}}) == "gpu: expected a text, got \"\"");
  CHECK(fault_of({{"backward", "\"twice\""}}) == "backward: expected kept, recompute or redispatch, got 'twice'");
  CHECK(fault_of({{"retention", "1.01"}}) == "retention: expected a number above 0 and up to 1, got 1.01");
}

TEST_CASE("row counts must be those of the tokens, chunk by chunk") {
  CHECK(fault_of({{"chunk_rows", "[32,32,32]"}}) ==
        "chunk_rows: expected a list of 4 whole numbers from 0 to 64, got 3");
  CHECK(fault_of({{"chunk_rows", "[32,32,32,31]"}}) ==
        "chunk_rows: expected 128 rows in chunk 1, tokens / chunks * top_k, got 127");
  CHECK(fault_of({{"chunk_rows", "[65,31,32,0]"}}) ==
        "chunk_rows: expected a list of 4 whole numbers from 0 to 64, got 65 at place 1");
  CHECK(fault_of({{"chunk_rows", "[64,64,0,0]"}}).empty());
  CHECK(fault_of({{"chunks", "2"}, {"chunk_rows", "[32,32,0,0,32,31,0,2]"}}) ==
        "chunk_rows: expected 64 rows in chunk 2, tokens / chunks * top_k, got 65");
  CHECK(fault_of({{"chunks", "3"}, {"chunk_rows", "[0,0,0,0,0,0,0,0,0,0,0,0]"}}) ==
        "chunks: expected a divisor of 64 tokens, got 3");
  const std::map<std::string, std::string> selected = {{"backward", "\"redispatch\""}, {"retention", "0.5"}};
  auto with = [&](const std::string& rows) {
    auto fields = selected;
    fields["retained_rows"] = rows;
    return fault_of(fields);
  };
  // Half of 32 rows.
  CHECK(with("[16,16,16,16]").empty());
  CHECK(with("[16,17,16,16]") == "retained_rows: expected 16 of the 32 rows of expert 1 at retention 0.5, got 17");
  CHECK(with("[15,16,16,16]") == "retained_rows: expected 16 of the 32 rows of expert 0 at retention 0.5, got 15");
  CHECK(with("") == "retained_rows: expected a list of 4 whole numbers from 0 to 64, got nothing");
}

TEST_CASE("numbers of a line that contradict each other are faults") {
  CHECK(fault_of({{"hidden", "68"}}) == "hidden: expected a multiple of 8, got 68");
  CHECK(fault_of({{"hidden", "72"}}).empty());
  CHECK(fault_of({{"ffn", "33"}}) == "ffn: expected a multiple of 8, got 33");
  CHECK(fault_of({{"retention", "0.5"}}) == "retention: expected 1 where backward is of all pairs, got 0.5");
  const std::string peak =
      "peak_allocated_bytes: expected 86016, the larger of forward_peak_bytes and backward_peak_bytes, got ";
  CHECK(fault_of({{"peak_allocated_bytes", "86015"}}) == peak + "86015");
  CHECK(fault_of({{"peak_allocated_bytes", "86017"}}) == peak + "86017");
  CHECK(fault_of({{"peak_allocated_bytes", ""}}).starts_with("peak_allocated_bytes: expected a whole number"));
  CHECK(fault_of({{"peak_reserved_bytes", "86016"}}).empty());
  CHECK(fault_of({{"peak_reserved_bytes", "86015"}}) ==
        "peak_reserved_bytes: expected at least the 86016 bytes of peak_allocated_bytes, got 86015");
}

TEST_CASE("steps, samples and uncertainty are checked as the times are") {
  CHECK(fault_of({{"steps", "0"}}) == "steps: expected a whole number from 1 to 1000000, got 0");
  CHECK(fault_of({{"steps", "1.5"}}).starts_with("steps: expected a whole number"));
  const std::string list = "forward_samples_us: expected a list of 3 numbers above 0, one a step, got ";
  CHECK(fault_of({{"forward_samples_us", ""}}) == list + "nothing");
  CHECK(fault_of({{"forward_samples_us", "[100,100]"}}) == list + "2");
  CHECK(fault_of({{"forward_samples_us", "[100,0,100]"}}) == list + "0 at place 2");
  CHECK(fault_of({{"forward_samples_us", "[100,\"100\",100]"}}) == list + "\"100\" at place 2");
  CHECK(fault_of({{"backward_samples_us", "[200,201,201]"}}) ==
        "backward_samples_us: expected samples whose median is the 200 us of the line, got 201");
  // Of an even number the mean of the two in the middle.
  CHECK(fault_of({{"steps", "2"}, {"forward_samples_us", "[90,110]"}, {"backward_samples_us", "[250,150]"}}).empty());
  CHECK(fault_of({{"forward_uncertainty", "1"}}).empty());
  CHECK(fault_of({{"forward_uncertainty", "1.01"}}) ==
        "forward_uncertainty: expected a number from 0 and up to 1, got 1.01");
  CHECK(fault_of({{"backward_uncertainty", "-0.1"}}) ==
        "backward_uncertainty: expected a number from 0 and up to 1, got -0.1");
  CHECK(fault_of({{"backward_uncertainty", "\"low\""}}).starts_with("backward_uncertainty: expected a number"));
}

TEST_CASE("all faults of a line are told at once") {
  const LayerRunFile file =
      parse_layer_runs(layer_line({{"forward_us", "0"}, {"hidden", "\"x\""}, {"cuda", "7"}}), "a");
  REQUIRE(file.runs[0].faults.size() == 3);
}

TEST_CASE("lines of another device or driver than the first run's are errors that name both places") {
  const LayerRunFile file = parse_layer_runs(
      layer_line() + layer_line({{"gpu", "\"NVIDIA H100\""}}) + layer_line({{"driver", "\"570.1\""}}) + layer_line(),
      "a.jsonl");
  REQUIRE(file.runs.size() == 4);
  CHECK(file.runs[0].status == Status::ok);
  CHECK(file.runs[3].status == Status::ok);
  REQUIRE(file.runs[1].faults.size() == 1);
  CHECK(file.runs[1].faults[0].message.starts_with("another device: NVIDIA H100, "));
  CHECK(file.runs[1].faults[0].also[0].line == 1);
  REQUIRE(file.runs[2].faults.size() == 1);
  CHECK(file.runs[2].faults[0].message.starts_with("mixed versions: "));
  CHECK(file.runs[2].faults[0].message.find("driver 570.1, CUDA") != std::string::npos);  // what differs is shown
}

TEST_CASE("a file that was cut is told: in the middle of a line, and before its end") {
  const std::string whole = device_line() + layer_line() + layer_line();
  LayerRunFile file = parse_layer_runs(whole + end_line(3), "a.jsonl");
  CHECK(file.faults.empty());
  file = parse_layer_runs(whole, "a.jsonl");
  REQUIRE(file.faults.size() == 1);
  CHECK(file.faults[0].message.starts_with("the last run has no end line"));
  file = parse_layer_runs(whole.substr(0, whole.size() - 40), "a.jsonl");
  REQUIRE(file.faults.size() == 2);
  CHECK(file.faults[0].where.line == 3);
  CHECK(file.faults[0].message == "the line is cut short");
  CHECK(file.runs.size() == 1);
  file = parse_layer_runs(whole + end_line(4), "a.jsonl");  // a line was lost
  REQUIRE(file.faults.size() == 1);
  CHECK(file.faults[0].message == "the run had 4 lines before this one, but 3 stand here");
  file = parse_layer_runs(device_line() + whole + end_line(3), "a.jsonl");
  REQUIRE(file.faults.size() == 1);
  CHECK(file.faults[0].where.line == 2);
  CHECK(file.faults[0].message.starts_with("a run begins before the one above has ended"));
}

TEST_CASE("a number that is none, and lines of another schema, are faults of their line") {
  LayerRunFile file = parse_layer_runs(layer_line() + layer_line({{"forward_us", "NaN"}}), "a.jsonl");
  REQUIRE(file.faults.size() == 1);
  CHECK(file.faults[0].where.line == 2);
  CHECK(file.faults[0].hint == "JSON has no NaN: the time was not taken");
  file = parse_layer_runs(layer_line() + "{\"schema\":\"moeplan.layer/2\"}\n[1]\n", "a.jsonl");
  REQUIRE(file.faults.size() == 2);
  CHECK(file.faults[0].message == "expected schema moeplan.layer/1 or moeplan.device/1, got 'moeplan.layer/2'");
  CHECK(file.runs.size() == 1);
}

TEST_CASE("a file without runs is refused") {
  CHECK_THROWS_WITH_AS(parse_layer_runs(device_line() + end_line(1), "a.jsonl"), doctest::Contains("no runs of layers"),
                       base::Error);
  CHECK_THROWS_AS(parse_layer_runs("", "a.jsonl"), base::Error);
}

}  // namespace moeplan::measurements
