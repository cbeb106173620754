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
  const Process process =
      found({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_LOCALID", "1"}, {"SLURM_TASKS_PER_NODE", "4(x2)"}});
  CHECK(process.launcher == "srun");
  CHECK(process.local_size == 4);
}

TEST_CASE("variables that contradict each other are refused") {
  CHECK_THROWS_AS(found({{"PMI_RANK", "2"}, {"PMI_SIZE", "2"}}), std::runtime_error);
  CHECK(found({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).rank == 1);
  CHECK_THROWS_AS(found({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), std::runtime_error);
  CHECK_THROWS_AS(found({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "4"}}), std::runtime_error);
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
