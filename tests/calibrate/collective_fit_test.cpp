#include <doctest/doctest.h>

#include <cmath>

#include "base/random.h"
#include "calibrate/fit.h"
#include "config/document.h"
#include "measurements/profiles.h"

namespace moeplan::calibrate {
namespace {

topology::HardwareProfile h200() { return measurements::load_profile("h200-sxm", {}, "test"); }

// 21 sizes from 1 KiB to 1 GiB under a law of known parameters, each time off by a normal share of `noise`.
std::vector<measurements::CollectiveRow> sweep(const std::string& name, std::int64_t ranks, std::int64_t nodes,
                                               double latency, double bandwidth, double exponent, double noise) {
  topology::CollectiveEntry law;
  law.kind = *topology::collective_kind(name);
  law.ranks = ranks;
  law.nodes = nodes;
  law.latency_s = latency;
  law.bandwidth = bandwidth;
  law.exponent = exponent;
  const base::Random random(3);
  std::vector<measurements::CollectiveRow> rows;
  for (int repeat = 0; repeat < 20; ++repeat) {
    double size = 1024;
    for (std::size_t i = 0; i < 21; ++i, size *= 2) {
      const std::size_t draw = static_cast<std::size_t>(repeat) * 21 + i;
      rows.push_back({name,
                      ranks,
                      nodes,
                      "",
                      size,
                      topology::entry_time(law, size).seconds * std::exp(noise * random.normal(0, draw)),
                      {}});
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("synthetic collectives with 5 % noise give back latency and bandwidth to 3 %") {
  std::vector<std::string> notes;
  const std::vector<CollectiveFit> fits =
      fit_collectives(sweep("alltoall", 8, 1, 9e-6, 330e9, 0.64, 0.05), h200(), "synthetic.log", notes);
  CHECK(notes.empty());
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].entry.latency_s == doctest::Approx(9e-6).epsilon(0.03));
  CHECK(fits[0].entry.bandwidth == doctest::Approx(330e9).epsilon(0.03));
  CHECK(fits[0].entry.exponent == doctest::Approx(0.64).epsilon(0.05));
  CHECK(fits[0].entry.link_rate == 450e9);
  CHECK(fits[0].kept_out.n == 10);
  CHECK(fits[0].kept_out.median < 0.03);
  CHECK(fits[0].before.n == 21);  // the shipped profile has an all-to-all on eight GPUs
}

TEST_CASE("what no law describes is kept as a table, and what a profile cannot hold is left out with a reason") {
  std::vector<measurements::CollectiveRow> rows = sweep("all_reduce", 8, 1, 16e-6, 480e9, 0.6, 0);
  for (measurements::CollectiveRow& row : rows)
    row.time_s *= std::fmod(std::log2(row.size_bytes), 2) == 0 ? 3 : 1;  // every second size thrice as long
  for (const std::int64_t nodes : {0, 3}) {
    for (measurements::CollectiveRow row : sweep("all_gather", 8, nodes, 1e-5, 1e11, 1, 0)) rows.push_back(row);
  }
  rows.push_back({"broadcast", 8, 1, "", 1e6, 1e-3, {}});
  std::vector<std::string> notes;
  const std::vector<CollectiveFit> fits = fit_collectives(rows, h200(), "x.log", notes);
  REQUIRE(fits.size() == 1);
  CHECK(fits[0].entry.sizes_bytes.size() == 21);
  CHECK(fits[0].entry.latency_s == 0);
  CHECK(notes.size() == 4);
}

TEST_CASE("a profile with fitted collectives, values and spreads reads back as it was") {
  FitOptions options;
  options.source = "run.jsonl";
  options.collectives = sweep("alltoall", 16, 2, 20e-6, 45e9, 0.7, 0.02);
  options.values = {{{}, "", "host.launch", "a loop", 3e-6},
                    {{}, "", "host.launch", "a loop", 5e-6},
                    {{}, "", "host.launch", "a loop", 4e-6}};
  options.overlaps = {{{}, "", "sms", 12, 1e-3, 1.12e-3}, {{}, "", "to_host", 0, 1e-3, 1.01e-3}};
  topology::HardwareProfile base = h200();
  base.fabric = "ib";
  const Fit fit = fit_profile({}, base, options);
  // 132 / (132 - 12) = 1.1.
  REQUIRE(fit.notes.size() == 2);
  CHECK(fit.notes[0] ==
        "products beside a copy kernel on 12 multiprocessors take 1.120 times as long; the models say 1.100");
  CHECK(fit.notes[1].find("take 1.010 times as long") != std::string::npos);
  CHECK(fit.profile.host.launch.value == 4e-6);
  CHECK(fit.profile.host.launch.source == "run.jsonl: a loop");
  REQUIRE(fit.read_off.size() == 1);
  REQUIRE(fit.spreads.size() == 1);
  CHECK(fit.spreads[0].key == "network.spread");
  CHECK(fit.profile.network.spread->value == fit.spreads[0].value);
  const topology::CollectiveEntry* entry = fit.profile.collective(topology::CollectiveKind::all_to_all, 16, 2);
  REQUIRE(entry != nullptr);
  CHECK(entry->fabric == "ib");
  CHECK(entry->link_rate == 50e9);  // eight cards of 50 GB/s for eight GPUs

  base::Faults faults;
  const topology::HardwareProfile again =
      topology::read_hardware(config::parse_yaml(profile_yaml(fit.profile), "again.yaml"), "again", faults);
  faults.throw_if_any();
  CHECK(again.fabric == "ib");
  REQUIRE(again.collectives.size() == fit.profile.collectives.size());
  for (std::size_t i = 0; i < again.collectives.size(); ++i) {
    const topology::CollectiveEntry &a = again.collectives[i], &b = fit.profile.collectives[i];
    CHECK(a.kind == b.kind);
    CHECK(a.ranks == b.ranks);
    CHECK(a.bandwidth == doctest::Approx(b.bandwidth).epsilon(1e-6));
    CHECK(a.latency_s == doctest::Approx(b.latency_s).epsilon(1e-6));
    CHECK(a.source == b.source);
  }
  CHECK(again.network.spread->value == doctest::Approx(fit.profile.network.spread->value));
}

}  // namespace moeplan::calibrate
