#include "calibrate/check.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>

#include "measurements/predict.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"

namespace moeplan::calibrate {
namespace {

using measurements::Measurement;

topology::HardwareProfile h200() { return measurements::load_profile("h200-sxm", {}, "test"); }

struct Machine {
  std::vector<Measurement> rows;
  FitOptions options;
  std::vector<measurements::DeviceLine> devices;

  // Rows of a table without times, each taking `factor` times what the profile says.
  void add(const std::string& head, const std::vector<std::string>& lines, double factor) {
    std::string table = head + ",time_us\n";
    for (const std::string& line : lines) table += line + ",1\n";
    for (Measurement& row : measurements::parse_measurements(table, "m.csv").rows) {
      row.seconds = factor * measurements::predict(row, h200()).seconds.value_or(1e-3);
      rows.push_back(row);
    }
  }
  MachineCheck check() const {
    std::vector<const Measurement*> pointers;
    for (const Measurement& row : rows) pointers.push_back(&row);
    return check_machine(pointers, options, devices, h200());
  }
};

const Finding* find(const MachineCheck& check, const std::string& what) {
  const auto at = std::find_if(check.findings.begin(), check.findings.end(),
                               [&](const Finding& finding) { return finding.what == what; });
  return at == check.findings.end() ? nullptr : &*at;
}

Machine with_products(double factor, double sm_mhz, const std::string& slowdown) {
  Machine machine;
  machine.add("gpu,op,dtype,m,n,k",
              {"H200,fwd,bf16,4096,4096,4096", "H200,fwd,bf16,8192,8192,8192", "H200,fwd,bf16,16,512,512"}, factor);
  for (Measurement& row : machine.rows) {
    row.sm_mhz = sm_mhz;
    row.slowdown = slowdown;
  }
  machine.devices.push_back({{}, "moeplan-device 0.1.0", "NVIDIA H200", "580", "13.0", 1980, 700});
  return machine;
}

}  // namespace

TEST_CASE("a machine that is as its profile deviates in nothing") {
  const MachineCheck check = with_products(1.0, 1980, "power cap").check();
  CHECK_FALSE(check.deviates());
  const Finding* products = find(check, "dense GEMM bf16");
  REQUIRE(products != nullptr);
  CHECK(products->measured == doctest::Approx(1));
  CHECK(products->rows == 2);  // the small one tells of launches
}

TEST_CASE("products deviate beyond one and a half times the spread of their cost model, on either side") {
  // gemm.spread of the profile is 0.071: allowed are 10.65 %.
  CHECK_FALSE(with_products(1.10, 1980, "").check().deviates());
  CHECK(with_products(1.11, 1980, "").check().deviates());
  CHECK_FALSE(with_products(1 / 1.10, 1980, "").check().deviates());
  CHECK(with_products(1 / 1.11, 1980, "").check().deviates());
}

TEST_CASE("a clock that never comes near its highest is capped, and what holds clocks down is named") {
  // 5 % below 1980: 1881.
  CHECK_FALSE(with_products(1, 1882, "").check().deviates());
  CHECK(with_products(1, 1880, "").check().deviates());
  const MachineCheck capped = with_products(1.4, 1410, "application clocks").check();
  const Finding* clock = find(capped, "SM clock, highest seen");
  REQUIRE(clock != nullptr);
  CHECK(clock->deviates);
  CHECK(clock->sentence.find("1410 of 1980 MHz") != std::string::npos);
  REQUIRE(find(capped, "clocks held down: application clocks") != nullptr);
  CHECK(find(capped, "dense GEMM bf16")->deviates);
  CHECK(with_products(1, 0, "").check().notes.size() == 1);  // no readings
}

TEST_CASE("collectives between nodes that take twice as long point at network cards") {
  Machine machine;
  machine.add("gpu,collective,n_gpus,n_nodes,size_bytes",
              {"H200,alltoall,16,2,1073741824", "H200,alltoall,16,2,536870912", "H200,alltoall,16,2,1024"}, 2);
  const MachineCheck check = machine.check();
  const Finding* found = find(check, "alltoall on 16 GPUs, 2 nodes");
  REQUIRE(found != nullptr);
  CHECK(found->rows == 2);
  CHECK(found->measured == doctest::Approx(2));
  CHECK(found->sentence.find("network cards or the fabric give 50 %") != std::string::npos);
}

TEST_CASE("among pairs the slow ones are named, and a rank that is slow with every other") {
  Machine machine;
  std::vector<std::string> lines;
  for (int a = 0; a < 6; ++a) {
    for (int b = a + 1; b < 6; ++b) lines.push_back(fmt::format("H200,sendrecv,{}-{},2,2,67108864", a, b));
  }
  machine.add("gpu,collective,pair,n_gpus,n_nodes,size_bytes", lines, 1);
  // Of 15 pairs 5 hold rank 1: the median is that of the other ten.
  for (Measurement& row : machine.rows) row.seconds = row.pair.find('1') == std::string::npos ? 1e-3 : 1.9e-3;
  const MachineCheck check = machine.check();
  const Finding* found = find(check, "pairs of GPUs between nodes");
  REQUIRE(found != nullptr);
  CHECK(found->deviates);
  CHECK(found->measured == doctest::Approx(1.9));
  CHECK(found->sentence.find("0-1 (1.90)") != std::string::npos);
  CHECK(found->sentence.find("rank 1 is slow with every other: its network card") != std::string::npos);
  CHECK(found->sentence.find("rank 0") == std::string::npos);
  // 15 % more than the median pair is allowed, on one pair as on all.
  for (const double slow : {1.149e-3, 1.151e-3}) {
    for (Measurement& row : machine.rows) row.seconds = row.pair == "0-1" ? slow : 1e-3;
    CHECK(machine.check().deviates() == (slow > 1.15e-3));
  }
}

TEST_CASE("fewer multiprocessors or less memory than the profile states is another part") {
  Machine machine;
  machine.options.values = {{{}, "", "device.sm_count", "", 132},
                            {{}, "", "network.host_link_bandwidth", "", 47e9},
                            {{}, "", "host.launch", "", 1}};
  CHECK_FALSE(machine.check().deviates());  // 52 / 47 = 1.106; launches are of the host
  CHECK(machine.check().findings.size() == 2);
  machine.options.values[0].value = 131;
  CHECK(machine.check().deviates());
  machine.options.values[0].value = 132;
  machine.options.values[1].value = 26e9;
  CHECK(machine.check().deviates());
}

}  // namespace moeplan::calibrate
