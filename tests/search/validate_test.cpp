#include "search/validate.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "runs/run_table.h"
#include "search/memory_scope.h"

using namespace moeplan;
using namespace moeplan::search;

namespace {

constexpr double kMiB = 1024.0 * 1024.0, kGiB = 1024.0 * kMiB;

const std::string kColumns =
    "id,group,use,release,model,gpu,gpus,pp,ep,mbs,gbs,seq_len,framework,recompute,recompute_modules,ep_overlap,"
    "routing,step_time_s,tokens_per_s_per_gpu,model_tflops_per_gpu,peak_allocated_gib,peak_device_gib,memory_scope,"
    "peak_allocated_mib_by_rank\n";

std::string line(const std::string& id, const std::string& measured, const std::string& use = "time+mem") {
  return id + ",g," + use + ",r1,tiny-moe,h100-sxm,4,2,2,1,8,256,megatron,none,,," + "balanced," + measured + "\n";
}

Validation validated(const std::string& lines, int threads = 1) {
  scenario::Options options;
  options.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
  return validate(
      runs::parse_runs(kColumns + lines, "runs.csv"), options, [](const ValidationRow&) {}, threads);
}

// A row as it comes out, for the rules of summaries.
ValidationRow made(const std::string& id, const std::string& group, const std::string& release,
                   const std::string& modules, double error, bool simulated = true) {
  ValidationRow row;
  row.run.id = id;
  row.run.group = group;
  row.run.release = release;
  row.run.cells["recompute_modules"] = {modules, {}};
  row.status = simulated ? runs::RunStatus::ok : runs::RunStatus::skipped;
  row.judges_time = true;
  row.step_time_s = {1.0, 1.0 + error};
  return row;
}

std::vector<std::string> ids_of(const std::vector<const ValidationRow*>& rows) {
  std::vector<std::string> ids;
  for (const ValidationRow* row : rows) ids.push_back(row->run.id);
  return ids;
}

bool any(const ValidationRow& row) { return row.status == runs::RunStatus::ok; }

}  // namespace

TEST_CASE("errors are signed, relative to the measurement, and nothing where a side is missing") {
  CHECK(*Compared{2.0, 3.0}.error() == doctest::Approx(0.5));
  CHECK(*Compared{4.0, 3.0}.error() == doctest::Approx(-0.25));
  CHECK_FALSE((Compared{std::nullopt, 3.0}.error().has_value()));
  CHECK_FALSE((Compared{4.0, std::nullopt}.error().has_value()));
}

TEST_CASE("a summary of errors: means, median, counts of both signs, the worst in magnitude") {
  // |e| = 0.1, 0.3, 0.2: mean 0.2, median 0.2; signed mean (0.1 - 0.3 + 0.2) / 3 = 0.
  const ErrorSummary odd = summarize({{"a", 0.1}, {"b", -0.3}, {"c", 0.2}});
  CHECK(odd.n == 3);
  CHECK(odd.mean_absolute == doctest::Approx(0.2));
  CHECK(odd.median_absolute == doctest::Approx(0.2));
  CHECK(odd.mean == doctest::Approx(0.0));
  CHECK(odd.over == 2);
  CHECK(odd.under == 1);
  CHECK(odd.worst == -0.3);
  CHECK(odd.worst_id == "b");
  // Four values: the median is the mean of the two in the middle, (0.1 + 0.2) / 2. An exact hit is on neither side.
  const ErrorSummary even = summarize({{"a", 0.0}, {"b", 0.1}, {"c", -0.2}, {"d", 0.4}});
  CHECK(even.median_absolute == doctest::Approx(0.15));
  CHECK(even.over + even.under == 3);
  CHECK(summarize({}).n == 0);
  CHECK(summarize({{"exact", 0.0}}).worst_id == "exact");
}

TEST_CASE("one row a group: the first that counts: of a group with variants in one release, one a variant") {
  const std::vector<ValidationRow> plain = {made("a", "g", "new", "", 0), made("b", "g", "old", "moe", 0),
                                            made("c", "h", "new", "", 0)};
  // Two releases that differ in their modules are no variants.
  CHECK(ids_of(one_a_group(plain, any)) == std::vector<std::string>{"a", "c"});
  const std::vector<ValidationRow> variants = {made("a", "g", "new", "", 0), made("b", "g", "new", "moe", 0),
                                               made("c", "g", "new", "moe", 0), made("d", "g", "old", "mlp", 0)};
  CHECK(ids_of(one_a_group(variants, any)) == std::vector<std::string>{"a", "b", "d"});
  // The newest that cannot be simulated leaves its place to the next.
  const std::vector<ValidationRow> skipped = {made("a", "g", "new", "", 0, false), made("b", "g", "old", "", 0)};
  CHECK(ids_of(one_a_group(skipped, any)) == std::vector<std::string>{"b"});
  const std::vector<ValidationRow> alone = {made("a", "", "r", "", 0), made("b", "", "r", "", 0)};
  CHECK(ids_of(one_a_group(alone, any)) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("measured step time: as stated, else from tokens, else from model FLOPs") {
  const Validation v = validated(line("A", "2.5,100,,,,,") + line("B", ",100,,,,,") + line("C", ",,10,,,,"));
  REQUIRE(v.ok == 3);
  CHECK(v.rows[0].step_time_s.measured == 2.5);
  CHECK(v.rows[0].step_time_from == "step_time_s");
  // 8 sequences of 256 tokens over 4 GPUs at 100 tokens/s each: 2048 / 400 = 5.12 s.
  CHECK(*v.rows[1].step_time_s.measured == doctest::Approx(5.12));
  CHECK(v.rows[1].step_time_from == "tokens_per_s_per_gpu");
  CHECK(v.rows[2].step_time_from == "model_tflops_per_gpu");
  CHECK(v.rows[2].step_time_s.predicted == v.rows[0].step_time_s.predicted);
}

TEST_CASE("memory is compared at the rank that the row speaks of") {
  const std::string measured = ",,,1,,";
  const Validation v = validated(line("first", measured + "rank 0 peak allocated,") +
                                 line("last", measured + "\"torch allocated peak, last rank (last PP stage)\",") +
                                 line("highest", measured + "max over ranks,") + line("unsaid", measured + ",") +
                                 line("list", ",,,,,max over ranks (per-rank list given),100;200;300;150"));
  REQUIRE(v.ok == 5);
  const auto bytes = [&](std::size_t i) { return *v.rows[i].peak_allocated_bytes.predicted; };
  // The last stage holds the logits: its ranks differ from the first.
  CHECK(bytes(0) != bytes(1));
  // Of two equal ranks the tails of blocks may differ by what each owns of the optimizer's buffers: 0.01 %.
  const auto about = [](double value) { return doctest::Approx(value).epsilon(1e-4); };
  CHECK(bytes(2) == about(std::max(bytes(0), bytes(1))));
  CHECK(bytes(3) == bytes(2));
  CHECK(*v.rows[0].peak_allocated_bytes.measured == kGiB);
  const ValidationRow& list = v.rows[4];
  CHECK(*list.peak_allocated_bytes.measured == 300 * kMiB);
  REQUIRE(list.ranks.size() == 4);
  CHECK(*list.ranks[1].allocated.measured == 200 * kMiB);
  CHECK(*list.ranks[0].allocated.predicted == about(bytes(0)));
  CHECK(*list.ranks[3].allocated.predicted == about(bytes(1)));
  CHECK(v.rank_allocated.n == 4);
}

TEST_CASE("the scope of a row: logged ranks are those of data-parallel rank 0, for torchtitan rank 0") {
  runs::Run run;
  run.framework = "megatron";
  CHECK(scope_of(run) == Scope::highest);
  run.memory_scope = "max allocated, logged rank";
  CHECK(scope_of(run) == Scope::logged);
  run.framework = "torchtitan";
  CHECK(scope_of(run) == Scope::first_rank);
  run.memory_scope = "torchtitan max reserved, rank 0 (or logged rank)";
  CHECK(scope_of(run) == Scope::first_rank);
  run.memory_scope = "torch allocated peak, last rank (last PP stage), cumulative";
  CHECK(scope_of(run) == Scope::last_rank);
  run.memory_scope = "device memory ratio from rocm-smi, 28.05%";
  CHECK(scope_of(run) == Scope::highest);
}

TEST_CASE("the use of a row says which summaries it stands in: a ladder stands in none") {
  const Validation v = validated(line("A", "1,,,1,,,", "time") + line("B", "1,,,1,,,", "mem") +
                                 line("C", "1,,,1,,,", "ratio ladder") + line("D", "1,,,1,,,", "indicative"));
  REQUIRE(v.ok == 4);
  CHECK(v.summary.front().by == "total");
  CHECK(v.summary.front().step_time.n == 1);
  CHECK(v.summary.front().step_time.worst_id == "A");
  CHECK(v.summary.front().allocated.n == 1);
  CHECK(v.summary.front().allocated.worst_id == "B");
  CHECK(v.judged == 2);
  CHECK(v.rows[2].step_time_s.error().has_value());  // listed all the same
}

TEST_CASE("rows that are wrong or left out keep their place, and the rest goes on, in any number of threads") {
  const std::string lines = line("A", "1,,,1,,,") + "B,g,time,r1,no-such,h100-sxm,4,2,2,1,8,256,,,,,,,,,,,,\n" +
                            "C,g,time,r1,tiny-moe,h100-sxm,4,3,2,1,8,256,,,,,,,,,,,,\n" + line("D", "1,,,1,,,");
  const Validation one = validated(lines, 1), many = validated(lines, 4);
  for (const Validation* v : {&one, &many}) {
    CHECK(v->ok == 2);
    CHECK(v->skipped + v->errors == 2);
    CHECK(v->errors >= 1);
    CHECK(v->rows[1].run.id == "B");
    CHECK(v->rows[1].status == runs::RunStatus::error);
    CHECK(v->rows[1].reason == "model: unknown model 'no-such'");
    CHECK(v->rows[2].reason != "");
  }
  CHECK(one.rows[3].step_time_s.predicted == many.rows[3].step_time_s.predicted);
}

TEST_CASE("a time that asks more of a part than its datasheet gives has a note") {
  // 8 sequences of 4,096 tokens at 6 x 8.03e9 and some for attention are 1.7e15 FLOP, on 8 H100 of 989 TFLOP/s 0.22 s
  // at the least.
  const std::string columns = "id,model,gpu,gpus,mbs,gbs,seq_len,framework,recompute,routing,step_time_s\n";
  const std::string shape = ",llama3.1-8b,h100-sxm,8,1,8,4096,megatron,full,dense,";
  const auto rows = validate(
                        runs::parse_runs(columns + "fast" + shape + "0.199\nslow" + shape + "0.201\n", "runs.csv"), {},
                        [](const ValidationRow&) {}, 1)
                        .rows;
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].notes.size() == 1);
  CHECK(rows[0].notes[0].find("% of the datasheet's peak") != std::string::npos);
  CHECK(rows[1].notes.empty());
}

TEST_CASE("a run that was measured fits: what it leaves open is the least recomputation with which it does") {
  // Llama 3.1 8B on 8 ranks, 17 GiB of state and 32 layers. At 131,072 tokens some 2 GiB of saved tensors a layer, of
  // which norms are an eighth: every layer must be recomputed. At 100,096 tokens 82 GiB are 76 without the norms'.
  const std::string columns = "id,model,gpu,gpus,tp,mbs,gbs,seq_len,framework,recompute,routing,step_time_s\n";
  const auto shape = [](int tokens) { return fmt::format(",llama3.1-8b,h100-sxm,8,8,1,1,{},megatron,", tokens); };
  std::string table = columns;
  for (const char* stated : {"", "none", "full"})
    table += "row" + std::string(stated) + shape(131072) + stated + ",dense,10\n";
  table += "short" + shape(100096) + ",dense,10\n";
  const auto rows = validate(
                        runs::parse_runs(table, "runs.csv"), {}, [](const ValidationRow&) {}, 1)
                        .rows;
  REQUIRE(rows.size() == 4);
  for (const auto& row : rows) CHECK(row.status == runs::RunStatus::ok);
  CHECK(rows[3].assumptions.back().starts_with("recompute: layernorm, the least of those tried that fits ("));
  CHECK(rows[3].notes.empty());
  CHECK(rows[0].verdict == Verdict::fits);
  CHECK(rows[0].notes.empty());
  CHECK(rows[0].assumptions.back().starts_with("recompute: every layer, the least of those tried that fits ("));
  CHECK(std::count(rows[0].assumptions.begin(), rows[0].assumptions.end(), "recompute: none") == 0);
  CHECK(rows[0].step_time_s.predicted == rows[2].step_time_s.predicted);
  CHECK(rows[1].verdict == Verdict::oom);
  REQUIRE(rows[1].notes.size() == 1);
  CHECK(rows[1].notes[0].starts_with("ran, and is predicted not to fit: "));
  CHECK(rows[2].notes.empty());
  CHECK(rows[2].verdict == Verdict::fits);
}
