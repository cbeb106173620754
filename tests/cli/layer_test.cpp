#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "cli/support.h"
#include "support/layer_lines.h"

namespace moeplan::cli {
using namespace testing;
using nlohmann::json;
using test::device_line;
using test::end_line;
using test::layer_line;

TEST_CASE("validate --layer shows each run beside its prediction, as text and as JSON") {
  const Folder folder;
  std::string text = device_line() + layer_line();
  for (const int chunks : {1, 2, 4}) {
    std::string rows;
    for (int i = 0; i < 4 * chunks; ++i) rows += (i > 0 ? "," : "") + std::to_string(32 / chunks);
    text += layer_line(
        {{"chunks", std::to_string(chunks)}, {"backward", "\"recompute\""}, {"chunk_rows", "[" + rows + "]"}});
  }
  const std::string file = folder.write("layers.jsonl", text + end_line(5));
  const Result result = moeplan({"validate", "--layer", file, "--json", folder.at("out.json")});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(holds(result.out, "4 of 4 layer runs predicted, 0 skipped, 0 with errors"));
  CHECK(holds(result.out, "Chunks: 64 tokens, hidden 64, 4 experts of 32, top-2, uniform"));
  CHECK(holds(result.out, "Predicted peak: "));
  const json document = json::parse(content_of(folder.at("out.json")));
  CHECK(document["schema"] == "moeplan.layers/1");
  REQUIRE(document["rows"].size() == 4);
  for (const json& row : document["rows"])
    for (const char* key : {"forward_s", "backward_s", "forward_peak_bytes", "backward_peak_bytes"})
      CHECK(row[key]["error"].get<double>() ==
            doctest::Approx(row[key]["predicted"].get<double>() / row[key]["measured"].get<double>() - 1));
  CHECK(document["rows"][0]["forward_peak_bytes"]["error"] == 0);  // the kept run states what the plan says
  REQUIRE(document["curves"].size() == 1);
  CHECK(document["curves"][0]["chunks"] == json({1, 2, 4}));
}

TEST_CASE("validate --layer: broken lines give status 1 with their places, and the others are compared all the same") {
  const Folder folder;
  const std::string file =
      folder.write("layers.jsonl", device_line() + layer_line() + layer_line({{"backward_us", "-1"}}) +
                                       layer_line({{"gpu", "\"NVIDIA B200\""}}) + layer_line({{"forward_us", "NaN"}}));
  const Result result = moeplan({"validate", "--layer", file});
  CHECK(result.status == 1);
  CHECK(holds(result.out, "1 of 3 layer runs predicted, 0 skipped, 2 with errors"));
  CHECK(holds(result.err, "layers.jsonl:3:"));
  CHECK(holds(result.err, "backward_us: expected a number above 0"));
  CHECK(holds(result.err, "another device: NVIDIA B200"));
  CHECK(holds(result.err, "layers.jsonl:5: the line is no JSON object"));
  CHECK(holds(result.err, "no end line"));
}

TEST_CASE("validate --layer: options that do not go together, and files that hold no runs, give status 2") {
  const Folder folder;
  const std::string file = folder.write("layers.jsonl", device_line() + layer_line() + end_line(2));
  CHECK(moeplan({"validate", "--layer", "--operators", file}).status == 2);
  CHECK(moeplan({"validate", "--layer", file, "--filter", "gpu=h200"}).status == 2);
  CHECK(moeplan({"validate", "--layer", file, "--markdown", folder.at("a.md")}).status == 2);
  CHECK(moeplan({"validate", "--layer", file, "--hardware", "h2000"}).status == 2);
  CHECK(moeplan({"validate", "--layer", folder.write("none.jsonl", device_line() + end_line(1))}).status == 2);
  CHECK(moeplan({"validate", "--layer", folder.at("missing.jsonl")}).status == 2);
  const Result other = moeplan({"validate", "--layer", file, "--hardware", "h100-sxm"});
  CHECK(other.status == 2);
  CHECK(holds(other.out, "of another device"));
  CHECK(holds(other.err, "error: no run was predicted: nothing is compared"));
}

}  // namespace moeplan::cli
