#include <string>

#include "cases.h"
#include "changed_loads.h"
#include "engine/step.h"
#include "memory/replay.h"
#include "report/report.h"
#include "search/evaluate.h"
#include "search/sweep.h"

// What must not change a result, and what must change it in proportion.
using namespace moeplan;
using moeplan::property::Case;

namespace {

plan::Plan with_loads(const std::shared_ptr<const scenario::Scenario>& scenario,
                      std::shared_ptr<const routing::LoadSource> loads, std::int64_t factor = 1) {
  auto changed = std::make_shared<scenario::Scenario>(*scenario);
  changed->loads = std::move(loads);
  changed->training.micro_batch_size *= factor;
  changed->training.global_batch_size *= factor;
  return plan::make_plan(changed, 0, 1);
}

}  // namespace

TEST_CASE("which expert of a rank is which changes neither memory nor time") {
  property::for_all("rotated experts", 60, [] {
    Case c = *property::any_case();
    // What draws by expert number (dropped pairs, LRMoE's scores) draws something else.
    c.policies = c.dispatcher == "allgather"
                     ? "{}"
                     : *rc::gen::element<std::string>("{}", "{ memfine: { rule: fixed, chunks: 2 } }");
    const auto scenario = c.make();
    const plan::Plan plan = plan::make_plan(scenario, 0, 1);
    const plan::Plan rotated =
        with_loads(scenario, std::make_shared<property::RotatedLoads>(scenario->loads, 8 / c.ep));
    for (std::int64_t rank = 0; rank < c.gpus(); ++rank) {
      const memory::RankMemory a = memory::replay(plan, rank), b = memory::replay(rotated, rank);
      RC_ASSERT(a.peak.allocated_bytes == b.peak.allocated_bytes);
      RC_ASSERT(a.routed_peak_bytes == b.routed_peak_bytes);
    }
    RC_ASSERT(engine::run_step(plan).step_s == engine::run_step(rotated).step_s);
  });
}

TEST_CASE("twice the loads are twice the rows on every way, and twice the routed bytes") {
  property::for_all("doubled loads", 60, [] {
    Case c = *property::any_case();
    if (c.policies.find("lrmoe") != std::string::npos || c.policies.find("capacity") != std::string::npos ||
        c.policies.find("adaptive") != std::string::npos) {
      c.policies = "{}";  // quotas, capacities and chunk counts follow the loads by rules of their own
    }
    const auto scenario = c.make();
    const plan::Plan once = plan::make_plan(scenario, 0, 1);
    const plan::Plan twice = with_loads(scenario, std::make_shared<property::DoubledLoads>(scenario->loads), 2);
    RC_ASSERT(once.decisions.size() == twice.decisions.size());
    for (std::size_t d = 0; d < once.decisions.size(); ++d) {
      const auto &a = once.decisions[d].forward_rows, &b = twice.decisions[d].forward_rows;
      RC_ASSERT(a.size() == b.size());
      for (std::size_t chunk = 0; chunk < a.size(); ++chunk) {
        for (std::size_t i = 0; i < a[chunk].matrix.size(); ++i)
          RC_ASSERT(2 * a[chunk].matrix[i] == b[chunk].matrix[i]);
      }
    }
    // Each tensor is rounded up to 512 bytes: at most so much apart for each of those alive together.
    const double tensors = 40.0 * 4 * static_cast<double>(c.microbatches);
    for (std::int64_t rank = 0; rank < c.gpus(); ++rank) {
      const auto a = static_cast<double>(memory::replay(once, rank).routed_peak_bytes);
      const auto b = static_cast<double>(memory::replay(twice, rank).routed_peak_bytes);
      RC_ASSERT(b <= 2 * a);
      RC_ASSERT(b >= 2 * a - 2 * 512 * tensors);
    }
  });
}

TEST_CASE("the JSON of a run has the same bytes whatever the threads") {
  property::for_all("threads", 25, [] {
    const Case c = *property::any_case();
    const auto scenario = c.make();
    RC_ASSERT(report::run_json(search::evaluate(scenario, 1)) == report::run_json(search::evaluate(scenario, 3)));
  });
}

TEST_CASE("parts of a sweep, put together, are the whole sweep") {
  const std::string file = MOEPLAN_SOURCE_DIR "/tests/data/search/small.yaml";
  scenario::Options options;
  options.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
  // ep 3 divides nothing: a refused row stays the same refused row.
  const auto rows_of = [&](const std::string& eps) {
    std::string text;
    const std::vector<search::Axis> axes = {search::parse_axis("ep=" + eps), search::parse_axis("mbs=1,2")};
    search::run_sweep(
        file, options, axes,
        [&](const search::SweepRow& row) { text += report::sweep_csv_row(row) + report::sweep_jsonl_row(axes, row); },
        2);
    return text;
  };
  CHECK(rows_of("1,2,3,4") == rows_of("1") + rows_of("2,3") + rows_of("4"));
}
