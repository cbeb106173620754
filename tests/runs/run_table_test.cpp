#include <doctest/doctest.h>

#include "runs/run_cells.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::runs;
using namespace moeplan::runs::testing;

namespace {

const std::string kHead = "id,model,gpu,gpus,gbs,seq_len";

std::string error_of(const std::string& text) {
  try {
    parse_runs(text, "runs.csv");
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("columns stand in any order, and cells land in the fields of their column") {
  const RunTable table = parse_runs(
      "seq_len,gbs,notes,gpus,gpu,model,id,ep_overlap,recompute_modules,capacity_factor,peak_allocated_mib_by_rank\n"
      "4096,64,\"a, b\",2,h100-sxm,qwen3-30b-a3b,X,on,layernorm moe_act,1.5,10.5;11\n",
      "runs.csv");
  REQUIRE(table.runs.size() == 1);
  const Run& run = table.runs[0];
  CHECK(run.faults.empty());
  CHECK(run.id == "X");
  CHECK(run.gpus == 2);
  CHECK(run.gbs == 64);
  CHECK(run.seq_len == 4096);
  CHECK(run.notes == "a, b");
  CHECK(run.ep_overlap == true);
  CHECK(run.recompute_modules == std::vector<std::string>{"layernorm", "moe_act"});
  CHECK(run.capacity_factor == 1.5);
  CHECK(run.peak_allocated_mib_by_rank == std::vector<double>{10.5, 11.0});
  CHECK_FALSE(run.tp.has_value());
  CHECK(run.place("gpus").column == 16);  // behind 4096,64,"a, b",
}

TEST_CASE("unknown columns are noted, with the nearest name where one is near") {
  const RunTable table = parse_runs(kHead + ",colour,peak_alocated_gib\nA,m,g,1,1,1,red,5\n", "runs.csv");
  REQUIRE(table.notes.size() == 2);
  CHECK(table.notes[0] == "column 'colour' is not read");
  CHECK(table.notes[1] == "column 'peak_alocated_gib' is not read (did you mean 'peak_allocated_gib'?)");
}

TEST_CASE("a table without mandatory columns, without rows, or with a column twice is refused as a whole") {
  CHECK(error_of("id,model,gpu\nA,b,c\n").starts_with("runs.csv:1: columns are missing: gpus, gbs, seq_len"));
  CHECK(error_of("id,model,gpu,gpus,gbs\nA,b,c,1,1\n").starts_with("runs.csv:1: a column is missing: seq_len"));
  CHECK(error_of(kHead + "\n") == "runs.csv:1: no rows after the header");
  CHECK(error_of(kHead + ",gpu\n") == "runs.csv:1:31: column 'gpu' stands twice");
  CHECK(error_of("") == "runs.csv: the file is empty");
}

TEST_CASE("what is wrong with a row is a fault of that row, and the others are read") {
  const RunTable table = parse_runs(kHead +
                                        ",precision,tp_comm_overlap,step_time_s\n"
                                        "A,m,g,eight,64,4096,bf16,on,1.5\n"
                                        "B,m,g,8,0,4096,fp7,yes,-1\n"
                                        "B,m,g,8,64,4096,,,\n"
                                        "C,m,g,8\n"
                                        ",m,g,8,64,4096,,,nan\n",
                                    "runs.csv");
  REQUIRE(table.runs.size() == 5);
  REQUIRE(table.runs[0].faults.size() == 1);
  CHECK(base::format_fault(table.runs[0].faults[0]) == "runs.csv:2:7: gpus: expected a whole number >= 1, got 'eight'");
  REQUIRE(table.runs[1].faults.size() == 4);
  CHECK(table.runs[1].faults[0].where.key == "gbs");
  CHECK(table.runs[1].faults[1].message.starts_with("expected one of bf16, fp16"));
  CHECK(table.runs[1].faults[2].message == "expected on or off, got 'yes'");
  CHECK(table.runs[1].faults[3].message == "expected a number > 0, got '-1'");
  REQUIRE(table.runs[2].faults.size() == 1);
  CHECK(table.runs[2].faults[0].message == "the id stands in line 3 too");
  CHECK(table.runs[3].faults[0].message == "4 cells, but the header has 9");
  REQUIRE(table.runs[4].faults.size() == 2);
  CHECK(table.runs[4].faults[0].message == "expected a number > 0, got 'nan'");
  CHECK(table.runs[4].faults[1].message == "expected an id, got an empty cell");
}

TEST_CASE("of words in a cell the wrong ones are told, each with the nearest name") {
  const Run run = row({{"recompute", "selective"}, {"recompute_modules", "moe_acts mlp layernrom"}});
  REQUIRE(run.faults.size() == 2);
  CHECK(run.faults[0].message.ends_with("got 'moe_acts'"));
  CHECK(run.faults[0].hint == "did you mean 'moe_act'?");
  CHECK(run.faults[1].message.ends_with("got 'layernrom'"));
  CHECK(run.faults[1].hint == "did you mean 'layernorm'?");
  // Without graphs, too.
  const Run graphs = row({{"cuda_graph_scope", "attn moe_ruoter"}});
  REQUIRE(graphs.faults.size() == 1);
  CHECK(graphs.faults[0].where.key == "cuda_graph_scope");
  CHECK(graphs.faults[0].hint == "did you mean 'moe_router'?");
}

TEST_CASE("a list of ranks has a figure for each GPU") {
  CHECK(row({{"gpus", "16"}, {"peak_allocated_mib_by_rank", "1;2"}}).faults.size() == 1);
  CHECK(row({{"gpus", "2"}, {"peak_allocated_mib_by_rank", "1;2"}}).faults.empty());
}

TEST_CASE("rows are kept by the text of a cell: a column that is not there is named") {
  RunTable table = parse_runs(kHead + "\nA,m,g,1,1,1\nB,n,g,1,1,1\nC,m,g,1,1,1\n", "runs.csv");
  keep_where(table, "model", "m", "--filter model=m");
  REQUIRE(table.runs.size() == 2);
  CHECK(table.runs[1].id == "C");
  CHECK_THROWS_WITH_AS(keep_where(table, "modell", "m", "--filter modell=m"),
                       "--filter modell=m: the table has no column 'modell'\n  hint: did you mean 'model'?",
                       base::Error);
}
