#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/evaluation.h"
#include "report/report.h"

using namespace moeplan;
using report::testing::kGiB;
using search::OomCandidate;

namespace {

search::Lever lever(const char* name, search::Verdict verdict, std::int64_t gib, double change) {
  search::Lever result;
  result.name = name;
  result.set = std::string("--set ") + name;
  result.verdict = verdict;
  result.device_bytes = gib * kGiB;
  result.allocated_bytes = (gib - 2) * kGiB;
  result.saving_bytes = (18 - gib) * kGiB;
  result.headroom_fraction = 1 - static_cast<double>(gib) / 36;
  result.step_s = 2 * (1 + change);
  result.step_change = change;
  return result;
}

// 18 GiB of 36 usable: half is left; 2 s a step.
search::Explanation explanation() {
  search::Explanation e;
  e.base = report::testing::small_evaluation();
  e.singles = {lever("a=1", search::Verdict::fits, 12, 0.1), lever("b=2", search::Verdict::fits, 15, 0.2),
               lever("c=3", search::Verdict::fits, 18, 0.0)};
  e.singles[0].warnings = {"node 0 keeps much in host memory"};
  search::Lever no = lever("d=4", search::Verdict::fits, 18, 0);
  no.refused = "5 does not divide 7";
  e.refused = {no};
  return e;
}

OomCandidate candidate(OomCandidate::Match match, const char* name) {
  OomCandidate c;
  c.name = name;
  c.match = match;
  c.bytes = 3 * kGiB;
  c.error_fraction = 0.0015;
  c.derivation = "3 x 1 B";
  c.lever = "less of it";
  c.implied = 1500;
  c.least = 1000;
  c.most = 2000;
  c.rank = 1;
  c.layer = 0;
  c.microbatch = 4;
  return c;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("explain's text: rows up to --top, what saves nothing and what is refused apart") {
  const std::string text = report::explain_text(explanation(), 1);
  INFO(text);
  CHECK(text.starts_with("FITS  rank 2 peaks at 18.00 GiB of 36.00 GiB usable"));
  CHECK(has(text, "  a=1     10.00 GiB  "));
  CHECK(has(text, "+10 %"));
  CHECK(has(text, "1 more with --top 2"));
  CHECK_FALSE(has(text, "--set b=2"));
  CHECK(has(text, "saves nothing here: c=3"));
  CHECK(has(text, "a=1: node 0 keeps much in host memory"));
  CHECK(has(text, "d=4: 5 does not divide 7"));
  CHECK_FALSE(has(text, "Pairs"));
  CHECK(has(report::explain_text(explanation(), 2), "--set b=2"));
}

TEST_CASE("explain's text: advice where the base does not fit, or that there is none") {
  search::Explanation e = explanation();
  CHECK(has(report::explain_text(e, 5), "it fits; nothing needs to change"));
  e.base.fit.verdict = e.singles[2].verdict = search::Verdict::oom;
  // a and b fit; a is faster.
  CHECK(has(report::explain_text(e, 5), "advice   a=1: FITS with 12.00 GiB (67 % headroom), step +10 %"));
  CHECK(has(report::explain_text(e, 5), "\n               --set a=1\n"));
  e.singles.clear();
  CHECK(has(report::explain_text(e, 5), "no single change or pair of changes makes it fit"));
}

TEST_CASE("explain's text: candidates of an out-of-memory text by match, their lever, notes") {
  search::Explanation e = explanation();
  search::OomDecoding decoding;
  decoding.line = search::parse_oom_line("CUDA out of memory. Tried to allocate 3.00 GiB");
  decoding.candidates = {candidate(OomCandidate::Match::exact, "buffer"),
                         candidate(OomCandidate::Match::near, "moment"), candidate(OomCandidate::Match::rows, "rows"),
                         candidate(OomCandidate::Match::tokens, "logits")};
  decoding.candidates[0].also = {"one", "two", "three"};
  decoding.notes = {"a note"};
  e.oom = decoding;
  const std::string text = report::explain_text(e, 5);
  CHECK(has(text, "The out-of-memory text: 3.00 GiB were asked for"));
  CHECK(has(text, "tensor   buffer: 3.00 GiB = 3 x 1 B; or one, or two, or 1 more of this size"));
  CHECK(has(text, "moment: 3.00 GiB, +0.15 % off"));
  CHECK(has(text, "rows: the size of 1,500 rows; this plan's ranks have 1,000 to 2,000 (nearest: rank 1, layer 0"));
  CHECK(has(text, "logits: the size for 1,500 tokens, of 2,000"));
  CHECK(has(text, "lever: less of it"));
  CHECK(has(text, "  - a note"));
  const auto json = nlohmann::json::parse(report::explain_json(e));
  CHECK(json["oom_line"]["bytes"] == 3.0 * static_cast<double>(kGiB));
  CHECK(json["oom_line"]["tensor"] == "buffer");
  CHECK(json["oom_line"]["lever"] == "less of it");
  CHECK(json["oom_line"]["candidates"].size() == 4);
  CHECK(json["oom_line"]["candidates"][2]["match"] == "rows");
  CHECK(json["oom_line"]["candidates"][2]["rows"] == 1500);
}

TEST_CASE("explain's JSON: levers, what is refused, no advice where it fits") {
  const auto json = nlohmann::json::parse(report::explain_json(explanation()));
  CHECK(json["schema"] == "moeplan.explain/1");
  CHECK(json["advice"].is_null());
  CHECK(json["oom_line"].is_null());
  REQUIRE(json["levers"].size() == 3);
  CHECK(json["levers"][0]["change"] == "a=1");
  CHECK(json["levers"][0]["saving_bytes"] == 6 * kGiB);
  CHECK(json["levers"][0]["step_change_fraction"] == doctest::Approx(0.1));
  CHECK(json["refused"][0]["reason"] == "5 does not divide 7");
  CHECK(json["provenance"]["scenario"] == "small.yaml");
}
