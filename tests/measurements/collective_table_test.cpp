#include "measurements/collective_table.h"

#include <doctest/doctest.h>

#include <cmath>

#include "config/document.h"
#include "config/reader.h"
#include "topology/collective_entries.h"

namespace moeplan::measurements {
namespace {

CollectiveRow row(const std::string& collective, double size, double time_us, std::int64_t nodes = 1) {
  CollectiveRow result;
  result.collective = collective;
  result.ranks = 8;
  result.nodes = nodes;
  result.gpu = "H100";
  result.size_bytes = size;
  result.time_s = time_us / 1e6;
  result.where = {"logs/a.log", 3, 0, {}};
  return result;
}

std::vector<topology::CollectiveEntry> read_back(const std::string& yaml) {
  base::Faults faults;
  config::Reader reader(config::parse_yaml(yaml, "entries.yaml"), faults);
  const auto entries = topology::read_collectives(reader, "collectives", faults);
  reader.finish();
  faults.throw_if_any();
  return entries;
}

}  // namespace

TEST_CASE("rows of one collective, ranks and nodes make a table of rising sizes with the median of repeats") {
  const auto tables = collect({row("all_reduce", 2048, 30), row("all_reduce", 1024, 10), row("all_reduce", 1024, 14),
                               row("all_reduce", 1024, 90), row("all_gather", 1024, 5)});
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].collective == "all_gather");
  CHECK(tables[1].sizes_bytes == std::vector<double>{1024, 2048});
  CHECK(tables[1].times_s[0] == doctest::Approx(14e-6));
  CHECK(tables[1].files == std::vector<std::string>{"a.log"});
}

TEST_CASE("the CSV has one row a size and reads back as the same rows") {
  const auto tables = collect({row("all_reduce", 1024, 10), row("all_reduce", 17179869184, 30000)});
  const std::string csv = tables_csv(tables);
  CHECK(csv ==
        "collective,ranks,nodes,gpu,size_bytes,time_us,source\n"
        "all_reduce,8,1,H100,1024,10,a.log\nall_reduce,8,1,H100,17179869184,30000,a.log\n");
  REQUIRE(is_collective_csv(csv));
  const CollectiveLog log = read_collective_csv(csv, "t.csv", {});
  CHECK(log.set_aside.empty());
  REQUIRE(log.rows.size() == 2);
  CHECK(log.rows[1].size_bytes == 17179869184.0);
  CHECK(log.rows[1].where.line == 3);
}

TEST_CASE("entries of both forms read back as entries of a profile") {
  std::vector<CollectiveRow> rows;
  for (int i = 0; i < 12; ++i) {
    const double size = 1024 * std::pow(4.0, i);
    rows.push_back(row("alltoall", size, 10 + size / 1e5));
  }
  std::vector<std::string> left_out;
  const auto table = read_back(tables_yaml(collect(rows), {}, left_out));
  REQUIRE(table.size() == 1);
  CHECK(table[0].kind == topology::CollectiveKind::all_to_all);
  CHECK(table[0].sizes_bytes.size() == 12);
  CHECK(topology::entry_time(table[0], 1024).seconds == doctest::Approx(10.01024e-6).epsilon(1e-4));
  const auto law = read_back(tables_yaml(collect(rows), {EntryForm::law, {}, {}, nullptr}, left_out));
  REQUIRE(law.size() == 1);
  CHECK(law[0].sizes_bytes.empty());
  CHECK(topology::entry_time(law[0], 4194304).seconds == doctest::Approx(51.9e-6).epsilon(0.05));
  CHECK(law[0].source.find("every second of 12 sizes") != std::string::npos);
  CHECK(left_out.empty());
}

TEST_CASE("what a profile cannot hold is left out with its reason") {
  std::vector<std::string> left_out;
  const std::string yaml = tables_yaml(collect({row("broadcast", 1024, 10), row("all_reduce", 1024, 10, 0),
                                                row("all_gather", 1024, 10, 3), row("sendrecv", 1024, 10)}),
                                       {}, left_out);
  CHECK(yaml.find("collectives: []") != std::string::npos);
  REQUIRE(left_out.size() == 4);
  CHECK(left_out[0].find("unequal") != std::string::npos);        // all_gather on 3 nodes
  CHECK(left_out[1].find("--nodes") != std::string::npos);        // all_reduce
  CHECK(left_out[2].find("no cost model") != std::string::npos);  // broadcast
  CHECK(left_out[3].find("one size") != std::string::npos);
}

TEST_CASE("a table as CSV sets rows with impossible cells aside, each with its line") {
  const std::string csv =
      "gpu,n_gpus,n_nodes,collective,size_bytes,time_us,note\n"
      "H100,8,1,all_reduce,1024,10,fine\n"
      "H100,8,1,all_reduce,-5,10,\n"
      "H100,8,1,all_reduce,1024,nan,\n"
      "H100,1,1,all_reduce,1024,10,\n"
      "H100,8,1,all_reduce,1024,,a rate only\n"
      "H100,8,1,ep_dispatch,1024,10,another operation\n"
      "H100,8,1\n";
  const CollectiveLog log = read_collective_csv(csv, "t.csv", {});
  CHECK(log.rows.size() == 1);
  REQUIRE(log.set_aside.size() == 4);
  CHECK(log.set_aside[0].where.line == 3);
  CHECK(log.set_aside[1].where.line == 4);
  CHECK(log.set_aside[2].where.line == 5);
  CHECK(log.set_aside[3].where.line == 8);
}

TEST_CASE("a log is no table, and a table of other columns is none either") {
  CHECK_FALSE(is_collective_csv("# nThread 1\n"));
  CHECK_FALSE(is_collective_csv("a,b\n1,2\n"));
  CHECK_FALSE(is_collective_csv("\"open\n"));
}

}  // namespace moeplan::measurements
