#include "topology/collective_entries.h"

#include <doctest/doctest.h>

#include "config/document.h"

namespace moeplan::topology {
namespace {

struct Outcome {
  std::vector<CollectiveEntry> entries;
  std::string faults;
};

Outcome read(const std::string& yaml) {
  base::Faults faults;
  Outcome outcome;
  config::Reader reader(config::parse_yaml(yaml, "p.yaml"), faults);
  outcome.entries = read_collectives(reader, "collectives", faults);
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    outcome.faults = error.what();
  }
  return outcome;
}

const std::string kHead = "{ collective: all_reduce, ranks: 8, nodes: 1, evidence: measured, source: s, ";

}  // namespace

TEST_CASE("a table is read at its points and along straight lines of log size and log time between them") {
  const Outcome outcome =
      read("collectives:\n  - " + kHead + "sizes: [1 kB, 4 kB, 16 kB], times: [10 us, 20 us, 80 us] }\n");
  REQUIRE(outcome.faults.empty());
  const CollectiveEntry& entry = outcome.entries.at(0);
  CHECK(entry_time(entry, 4000).seconds == 20e-6);
  CHECK(entry_time(entry, 4000).how == Read::measured);
  // half way from 1 to 4 kB in log size is 2 kB; half way from 10 to 20 us in log time 10 sqrt 2
  CHECK(entry_time(entry, 2000).seconds == doctest::Approx(14.142e-6).epsilon(1e-4));
  CHECK(entry_time(entry, 2000).how == Read::interpolated);
  // Above, the last slope is log 4 / log 4 = 1: in proportion. Below, the first is 1/2: 250 B take half of 1 kB's.
  CHECK(entry_time(entry, 32000).seconds == doctest::Approx(160e-6));
  CHECK(entry_time(entry, 32000).how == Read::extrapolated);
  CHECK(entry_time(entry, 250).seconds == doctest::Approx(5e-6));
  CHECK(entry_time(entry, 250).how == Read::extrapolated);
}

TEST_CASE("outside a table time neither falls with size nor grows faster than it") {
  const Outcome outcome =
      read("collectives:\n  - " + kHead + "sizes: [1 kB, 2 kB, 4 kB], times: [12 us, 10 us, 40 us] }\n");
  const CollectiveEntry& entry = outcome.entries.at(0);
  CHECK(entry_time(entry, 500).seconds == doctest::Approx(12e-6));
  CHECK(entry_time(entry, 8000).seconds == doctest::Approx(80e-6));
}

TEST_CASE("a law joins latency and transfer of the wire's share of the size") {
  const Outcome outcome = read("collectives:\n  - " + kHead + "latency: 10 us, bandwidth: 350 GB/s, exponent: 1 }\n");
  // 8 ranks: 2 * 7/8 = 1.75; 2 MB * 1.75 / 350 GB/s = 10 us, plus 10 us
  CHECK(entry_time(outcome.entries.at(0), 2e6).seconds == doctest::Approx(20e-6));
  CHECK(entry_time(outcome.entries.at(0), 2e6).how == Read::law);
}

TEST_CASE("every fault of an entry is told at its place") {
  const std::string faults =
      read(
          "collectives:\n"
          "  - " +
          kHead +
          "latency: 10 us, bandwidth: 350 GB/s, exponent: 1, sizes: [1 kB], times: [1 us] }\n"
          "  - { collective: all_reduces, ranks: 1, nodes: 1, evidence: measured, source: s }\n"
          "  - { collective: all_gather, ranks: 8, nodes: 3, evidence: measured, source: s, sizes: [2 kB, 1 kB], "
          "times: [1 us, 2 us] }\n"
          "  - { collective: all_to_all, ranks: 8, nodes: 1, evidence: measured, source: s, sizes: [2 kB, 5], times: "
          "[1 us, 0 us] }\n"
          "  - { collective: send_recv, ranks: 2, nodes: 1, evidence: measured, source: s, sizes: [2 kB, 4 kB], "
          "times: [1 us] }\n")
          .faults;
  CHECK(faults.find("p.yaml:2:5") != std::string::npos);
  CHECK(faults.find("got both") != std::string::npos);
  CHECK(faults.find("all_reduce") != std::string::npos);
  CHECK(faults.find("expected a number that divides the 8 ranks, got 3") != std::string::npos);
  CHECK(faults.find("expected sizes that rise; number 2") != std::string::npos);
  CHECK(faults.find("a size such as '80 GiB' above 0, got '5'") != std::string::npos);
  CHECK(faults.find("a time such as '12 us' above 0, got '0 us'") != std::string::npos);
  CHECK(faults.find("got 1 times and 2 sizes") != std::string::npos);
}

TEST_CASE("two entries of one collective, ranks and nodes are a fault that names both") {
  const std::string entry = kHead + "latency: 10 us, bandwidth: 350 GB/s, exponent: 1 }\n";
  const std::string faults = read("collectives:\n  - " + entry + "  - " + entry).faults;
  CHECK(faults.find("p.yaml:3:5") != std::string::npos);
  CHECK(faults.find("a second entry of all_reduce on 8 ranks and 1 nodes") != std::string::npos);
  CHECK(faults.find("see also p.yaml:2:5") != std::string::npos);
}

TEST_CASE("names of nccl-tests are those of the kinds") {
  CHECK(collective_kind("alltoall") == CollectiveKind::all_to_all);
  CHECK(collective_kind("sendrecv") == CollectiveKind::send_recv);
  CHECK(collective_kind("all_gather") == CollectiveKind::all_gather);
  CHECK_FALSE(collective_kind("broadcast"));
}

}  // namespace moeplan::topology
