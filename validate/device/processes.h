#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Which of several processes this one is, as a launcher told it, and how a few bytes get from the first to the others
// without a message library. Plain C++17.
namespace moeplan::device {

struct Process {
  std::int64_t rank = 0, size = 1;              // of all
  std::int64_t local_rank = 0, local_size = 1;  // on this host
  std::string launcher;                         // "mpirun", "srun"; empty: one process alone
};

// From the environment that Open MPI, MPICH or Slurm set; `read` gives a variable, "" where it is not set. A size of 1
// is one process alone, and so is what runs in a Slurm job but in none of its steps. Throws std::runtime_error for
// values that contradict each other, and for ranks that do not lie host by host.
Process find_process(const std::function<std::string(const char*)>& read);
std::string read_environment(const char* name);

// The first process writes `bytes` at `path`, on a file system that all see; it throws where the path is taken, as the
// others might read what an earlier run left. The others wait up to `seconds` for the whole file.
void publish(const std::string& path, const std::vector<char>& bytes);
std::vector<char> await(const std::string& path, std::size_t bytes, double seconds);

}  // namespace moeplan::device
