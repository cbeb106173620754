#include "device/processes.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>

namespace moeplan::device {
namespace {

Process found(const std::map<std::string, std::string>& variables) {
  return find_process([&](const char* name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::string() : at->second;
  });
}

std::string temporary(const char* name) { return "/tmp/moeplan_test_" + std::to_string(getpid()) + "_" + name; }

}  // namespace

TEST_CASE("without a launcher there is one process") {
  const Process process = found({});
  CHECK(process.size == 1);
  CHECK(process.rank == 0);
  CHECK(process.launcher.empty());
  CHECK(found({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}).launcher.empty());
}

TEST_CASE("ranks come from Open MPI before Slurm, which may have started it") {
  const Process process = found({{"OMPI_COMM_WORLD_RANK", "9"},
                                 {"OMPI_COMM_WORLD_SIZE", "16"},
                                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                                 {"SLURM_PROCID", "0"},
                                 {"SLURM_NTASKS", "2"}});
  CHECK(process.launcher == "mpirun");
  CHECK(process.rank == 9);
  CHECK(process.size == 16);
  CHECK(process.local_rank == 1);
  CHECK(process.local_size == 8);
}

TEST_CASE("Slurm's list of tasks a node is read at its first entry") {
  const Process process = found({{"SLURM_STEP_ID", "0"},
                                 {"SLURM_PROCID", "5"},
                                 {"SLURM_NTASKS", "8"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_TASKS_PER_NODE", "4(x2)"}});
  CHECK(process.launcher == "srun");
  CHECK(process.local_size == 4);
}

TEST_CASE("in a Slurm job, but in none of its steps, there is one process") {
  const auto in_job = [](const std::string& step) {
    std::map<std::string, std::string> variables = {{"SLURM_JOB_ID", "7"},
                                                    {"SLURM_PROCID", "0"},
                                                    {"SLURM_NTASKS", "8"},
                                                    {"SLURM_LOCALID", "0"},
                                                    {"SLURM_TASKS_PER_NODE", "8"}};
    if (!step.empty()) variables["SLURM_STEP_ID"] = step;
    return found(variables).size;
  };
  CHECK(in_job("") == 1);
  CHECK(in_job("4294967291") == 1);  // the script of sbatch
  CHECK(in_job("4294967290") == 1);  // the shell of salloc
  CHECK(in_job("4294967280") == 1);
  CHECK(in_job("4294967279") == 8);
  CHECK(in_job("0") == 8);
}

TEST_CASE("where Slurm's step speaks PMI to its tasks, their numbers on the host are the step's") {
  std::map<std::string, std::string> variables = {
      {"PMI_RANK", "5"},     {"PMI_SIZE", "8"},      {"SLURM_STEP_ID", "0"},           {"SLURM_PROCID", "5"},
      {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}};
  CHECK(found(variables).local_rank == 1);
  CHECK(found(variables).local_size == 4);
  // MPICH's own launcher, itself started by Slurm once a node, numbers its processes.
  variables["MPI_LOCALRANKID"] = "0";
  variables["MPI_LOCALNRANKS"] = "5";
  CHECK(found(variables).local_size == 5);
  CHECK(found(variables).launcher == "mpirun");
}

TEST_CASE("ranks that go round the hosts are refused") {
  const auto cyclic = [](const std::string& local_rank) {
    return found({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", local_rank},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  };
  CHECK(cyclic("1").rank == 1);
  CHECK_THROWS_WITH_AS(cyclic("0"), doctest::Contains("host by host"), std::runtime_error);
}

TEST_CASE("variables that contradict each other are refused") {
  CHECK_THROWS_AS(found({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), std::runtime_error);
  CHECK(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).rank == 1);
  CHECK_THROWS_AS(found({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), std::runtime_error);
  CHECK_THROWS_AS(found({{"SLURM_STEP_ID", "3"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "4"}}),
                  std::runtime_error);
}

TEST_CASE("the first process hands bytes on through a file that must be new") {
  const std::string path = temporary("id");
  std::remove(path.c_str());
  CHECK_THROWS_WITH_AS(await(path, 3, 0.05), doctest::Contains("in time"), std::runtime_error);
  publish(path, {'a', '\0', 'c'});
  CHECK(await(path, 3, 0.05) == std::vector<char>{'a', '\0', 'c'});
  CHECK_THROWS_AS(await(path, 4, 0.05), std::runtime_error);  // never whole
  CHECK_THROWS_WITH_AS(publish(path, {'d'}), doctest::Contains("already"), std::runtime_error);
  std::remove(path.c_str());
}

TEST_CASE("a folder that is not there is told at once") {
  CHECK_THROWS_WITH_AS(publish("/nonexistent/id", {'a'}), doctest::Contains("cannot be written"), std::runtime_error);
}

}  // namespace moeplan::device
