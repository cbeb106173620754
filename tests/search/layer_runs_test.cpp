#include "search/layer_runs.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>

#include "layer/host_layer.h"
#include "support/layer_lines.h"

namespace moeplan::search {
namespace {
using measurements::LayerRun;
using measurements::Status;
using test::layer_line;

topology::HardwareProfile h200() { return measurements::load_profile("h200-sxm", {}, "test"); }

LayerRun run_of(const std::map<std::string, std::string>& fields = {}) {
  const auto file = measurements::parse_layer_runs(layer_line(fields), "a.jsonl");
  REQUIRE(file.runs[0].status == Status::ok);
  return file.runs[0];
}

struct Bytes {
  std::int64_t forward = 0, backward = 0, reserved = 0;
};
// What the program that runs on devices takes, on the host.
Bytes taken_by(const layer::LayerCase& c, const std::vector<std::int32_t>& choices) {
  layer::HostLayer layer(c, choices);
  auto& pool = layer.executor().pool();
  Bytes bytes;
  for (int step = 0; step < 3; ++step) {
    pool.start_peaks();
    layer.forward();
    bytes.forward = pool.stats().allocated_peak;
    pool.start_peaks();
    layer.backward();
    bytes.backward = pool.stats().allocated_peak;
  }
  bytes.reserved = pool.stats().reserved_peak;
  return bytes;
}

LayerPrediction predicted_for(const layer::LayerCase& c, const std::vector<std::int32_t>& choices) {
  std::map<std::string, std::string> fields = {{"tokens", std::to_string(c.shape.tokens)},
                                               {"hidden", std::to_string(c.shape.hidden)},
                                               {"ffn", std::to_string(c.shape.ffn)},
                                               {"experts", std::to_string(c.shape.experts)},
                                               {"top_k", std::to_string(c.shape.top_k)},
                                               {"chunks", std::to_string(c.chunks)},
                                               {"backward", fmt::format("\"{}\"", layer::backward_name(c.backward))},
                                               {"retention", fmt::format("{}", c.retention)},
                                               {"chunk_rows", test::json_list(layer::chunk_rows(c, choices))}};
  if (c.backward == layer::Backward::redispatch) fields["retained_rows"] = test::json_list(layer::retained_rows(c));
  return predict_layer(run_of(fields), h200());
}
}  // namespace

TEST_CASE("peaks of a small layer are the sums of its tensors") {
  // 64 tokens, hidden 64, 4 experts of 32, top-2: 128 rows. Bytes, each in whole 512: input 8192, scores and
  // probabilities 1024 each, map 256 -> 512, received rows 16384 with weights 512, row map 1024, gate-up 16384,
  // activation 8192, expert output 16384, output 8192. All alive at the unpermutation: 77824.
  // Backward: without the last two 53248; output gradient 8192, its rows 16384, activation gradient 8192: 86016.
  const LayerPrediction p = predict_layer(run_of(), h200());
  CHECK(p.forward_peak_bytes == 77824);
  CHECK(p.backward_peak_bytes == 86016);
  CHECK(p.peak_reserved_bytes == 2097152);  // one segment of the small pool
}

TEST_CASE("the program that runs on devices takes the bytes that the plan says, at every chunk count and skew") {
  for (const double skew : {0.0, 1.0})
    for (const layer::Backward backward : {layer::Backward::kept, layer::Backward::recompute})
      for (const std::int64_t chunks : {1, 2, 4, 8}) {
        layer::LayerCase c;
        c.shape = {128, 64, 32, 8, 4};
        c.backward = backward;
        c.chunks = chunks;
        c.rows = layer::scaled_rows(layer::zipf_weights(8, skew), c.shape);
        const auto choices = layer::choices_of(c.shape, c.rows, 1);
        const Bytes bytes = taken_by(c, choices);
        const LayerPrediction p = predicted_for(c, choices);
        CAPTURE(chunks);
        CHECK(p.forward_peak_bytes == bytes.forward);
        CHECK(p.backward_peak_bytes == bytes.backward);
        CHECK(p.peak_reserved_bytes == bytes.reserved);
      }
}

TEST_CASE("of retained pairs alone, the bytes differ by the map of the pairs that are left out") {
  for (const double retention : {1.0, 0.75, 0.5, 0.25}) {
    layer::LayerCase c;
    c.shape = {128, 64, 32, 8, 4};
    c.backward = layer::Backward::redispatch;
    c.retention = retention;
    c.rows = layer::scaled_rows(layer::zipf_weights(8, 1), c.shape);
    const auto choices = layer::choices_of(c.shape, c.rows, 1);
    const Bytes bytes = taken_by(c, choices);
    const LayerPrediction p = predicted_for(c, choices);
    CHECK(p.forward_peak_bytes == bytes.forward);
    // The program holds 4 bytes a pair and 4 a retained row, the plan 8 a retained row.
    std::int64_t retained = 0;
    for (const std::int64_t rows : layer::retained_rows(c)) retained += rows;
    const std::int64_t more = 4 * (c.shape.pairs() - retained);
    CHECK(bytes.backward >= p.backward_peak_bytes);
    CHECK(bytes.backward <= p.backward_peak_bytes + more + 512);
  }
}

TEST_CASE("times fall with retention, and chunks make a step longer") {
  const auto step = [&](std::int64_t chunks) {
    const std::int64_t rows = 8192 * 8 / 16 / chunks;
    return predict_layer(run_of({{"tokens", "8192"},
                                 {"hidden", "2048"},
                                 {"ffn", "768"},
                                 {"experts", "16"},
                                 {"top_k", "8"},
                                 {"chunks", std::to_string(chunks)},
                                 {"backward", "\"recompute\""},
                                 {"chunk_rows", test::json_list(std::vector<std::int64_t>(
                                                    static_cast<std::size_t>(16 * chunks), rows))}}),
                         h200())
        .step_s();
  };
  CHECK(step(1) < step(2));
  CHECK(step(2) < step(8));
  const auto backward = [&](double retention) {
    const auto rows = static_cast<std::int64_t>(4096 * retention);
    return predict_layer(run_of({{"tokens", "8192"},
                                 {"hidden", "2048"},
                                 {"ffn", "768"},
                                 {"experts", "16"},
                                 {"top_k", "8"},
                                 {"backward", "\"redispatch\""},
                                 {"retention", fmt::format("{}", retention)},
                                 {"chunk_rows", test::json_list(std::vector<std::int64_t>(16, 4096))},
                                 {"retained_rows", test::json_list(std::vector<std::int64_t>(16, rows))}}),
                         h200());
  };
  CHECK(backward(0.25).backward_s < backward(0.5).backward_s);
  CHECK(backward(0.5).backward_s < backward(1).backward_s);
  CHECK(backward(0.25).forward_s == doctest::Approx(backward(1).forward_s));
}

TEST_CASE("products one by one cost the host a launch each") {
  // A profile whose launches are so slow that the host sets the pace: each grouped product of 4 experts is 4 launches
  // in place of 1. Kept: two products forward, four backward, two of them weight gradients.
  topology::HardwareProfile slow = h200();
  slow.host.launch.value = 1e-3;
  const auto with = [&](const char* library) { return predict_layer(run_of({{"library", library}}), slow); };
  const LayerPrediction grouped = with("\"cuBLAS grouped 13.1.0\"");
  const LayerPrediction single = with("\"cuBLAS a product an expert 13.1.0\"");
  const LayerPrediction mixed = with("\"cuBLAS grouped 13.1.0, weight gradients a product an expert\"");
  CHECK(single.forward_s - grouped.forward_s == doctest::Approx(2 * 3e-3).epsilon(0.01));
  CHECK(single.backward_s - grouped.backward_s == doctest::Approx(4 * 3e-3).epsilon(0.01));
  CHECK(mixed.forward_s == doctest::Approx(grouped.forward_s));
  CHECK(mixed.backward_s - grouped.backward_s == doctest::Approx(2 * 3e-3).epsilon(0.01));
}

TEST_CASE("backward of retained pairs launches a product an expert, whatever the chunks of forward") {
  // Two chunks of 64 rows over the experts: forward's chunks have 4 experts with rows each, backward its 4. No line
  // says so (it is refused), but a plan may.
  LayerRun run = run_of({{"backward", "\"redispatch\""},
                         {"retention", "0.5"},
                         {"retained_rows", "[16,16,16,16]"},
                         {"library", "\"cuBLAS a product an expert 13.1.0\""}});
  const auto launches = [](const plan::Plan& plan, bool backward) {
    std::vector<std::uint16_t> found;
    for (const plan::Op& op : backward ? plan.blocks.front().backward : plan.blocks.front().forward)
      if (op.work == plan::Work::grouped_gemm) found.push_back(op.launches);
    return found;
  };
  const plan::Plan whole = layer_plan(run, h200());
  for (const std::uint16_t count : launches(whole, true)) CHECK(count == 4);
  run.chunks = 2;
  run.chunk_rows = {16, 16, 16, 16, 16, 16, 16, 16};
  const plan::Plan chunked = layer_plan(run, h200());
  for (const bool backward : {false, true}) {
    REQUIRE(!launches(chunked, backward).empty());
    for (const std::uint16_t count : launches(chunked, backward)) CHECK(count == 4);
  }
}

TEST_CASE("errors are predicted over measured, with medians and worst by group") {
  // Three kept runs whose times are the prediction's over 1, 1.1 and 0.8: errors 0, +10 and -20 %.
  const LayerPrediction p = predict_layer(run_of(), h200());
  std::string text;
  for (const double factor : {1.0, 1.1, 0.8})
    text += layer_line({{"forward_us", fmt::format("{}", p.forward_s * 1e6 / factor)},
                        {"backward_us", fmt::format("{}", p.backward_s * 1e6 / factor)}});
  const auto file = measurements::parse_layer_runs(text, "a.jsonl");
  const topology::HardwareProfile profile = h200();
  const LayerValidation v = validate_layers(file, measurements::Profiles({profile}), nullptr);
  CHECK(v.ok == 3);
  REQUIRE(!v.summary.empty());
  CHECK(v.summary[0].by == "total");
  const auto& step = v.summary[0].errors[static_cast<std::size_t>(LayerMetric::step_time)];
  CHECK(step.median_absolute == doctest::Approx(0.1));
  CHECK(step.worst_absolute == doctest::Approx(0.2));
  CHECK(step.mean == doctest::Approx(-0.1 / 3));
  const auto& peak = v.summary[0].errors[static_cast<std::size_t>(LayerMetric::backward_peak)];
  CHECK(peak.worst_absolute == 0);  // the line states the plan's own bytes
  CHECK(v.curves.empty());          // nothing was recomputed
}

TEST_CASE("what is wrong with a run is told by its key, and the row holds the place") {
  const auto file = measurements::parse_layer_runs(layer_line() + layer_line({{"hidden", "68"}}), "a.jsonl");
  const LayerValidation v = validate_layers(file, measurements::Profiles({h200()}), nullptr);
  REQUIRE(v.rows.size() == 2);
  CHECK(v.rows[1].reason == "hidden: expected a multiple of 8, got 68");
}

TEST_CASE("runs over chunk counts make a curve A + B / chunks") {
  // Measured peaks of exactly 1000 + 8000 / c kB; two counts alone make no curve.
  std::string text;
  for (const std::int64_t chunks : {8, 1, 4, 2}) {
    text += layer_line(
        {{"chunks", std::to_string(chunks)},
         {"backward", "\"recompute\""},
         {"chunk_rows", test::json_list(std::vector<std::int64_t>(static_cast<std::size_t>(4 * chunks), 32 / chunks))},
         {"backward_peak_bytes", std::to_string(1000000 + 8000000 / chunks)},
         {"peak_reserved_bytes", "16777216"}});
  }
  const topology::HardwareProfile profile = h200();
  auto file = measurements::parse_layer_runs(text, "a.jsonl");
  LayerValidation v = validate_layers(file, measurements::Profiles({profile}), nullptr);
  REQUIRE(v.curves.size() == 1);
  const ChunkCurve& curve = v.curves[0];
  CHECK(curve.chunks == std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK(curve.measured.fixed_bytes == doctest::Approx(1e6));
  CHECK(curve.measured.divided_bytes == doctest::Approx(8e6));
  CHECK(curve.measured.worst_residual < 1e-9);
  CHECK(curve.predicted.bytes[0] > curve.predicted.bytes[3]);
  file.runs.resize(2);
  v = validate_layers(file, measurements::Profiles({profile}), nullptr);
  CHECK(v.curves.empty());
}

TEST_CASE("runs of a device that the profile does not name are set aside") {
  const auto file = measurements::parse_layer_runs(layer_line({{"gpu", "\"NVIDIA H300\""}}), "a.jsonl");
  const topology::HardwareProfile profile = h200();
  LayerValidation v = validate_layers(file, measurements::Profiles({profile}), nullptr);
  CHECK(v.skipped == 1);
  CHECK(v.rows[0].reason.starts_with("no profile is called 'NVIDIA H300'"));
  v = validate_layers(file, measurements::Profiles({profile}), &profile);
  CHECK(v.skipped == 1);
  CHECK(v.rows[0].reason == "of another device: 'NVIDIA H300' is no name of profile h200-sxm");
  topology::HardwareProfile still = profile;  // a permutation at 1 byte/s takes longer than can be simulated
  still.memory_bound.bandwidth.value = 1;
  v = validate_layers(measurements::parse_layer_runs(layer_line(), "a.jsonl"), measurements::Profiles({still}),
                      nullptr);
  CHECK(v.skipped == 1);
  CHECK(v.rows[0].reason.find("more than can be simulated") != std::string::npos);
  const auto broken = measurements::parse_layer_runs(layer_line({{"forward_us", "0"}}), "a.jsonl");
  v = validate_layers(broken, measurements::Profiles({profile}), &profile);
  CHECK(v.errors == 1);
  CHECK(v.summary[0].count == 0);
}

}  // namespace moeplan::search
