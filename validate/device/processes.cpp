#include "processes.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace moeplan::device {
namespace {

constexpr const char* kSlurm = "srun";
struct Names {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};
// The first whose rank and size are both set counts, but for two things. Slurm's variables stand in the script of a
// job, too, where no step has started any task: they count in a step alone. And PMI, which Slurm may speak to its own
// tasks, gives no number on the host then: those of the step do. Slurm gives no number of tasks on this node that holds
// for uneven nodes; the first of its list is taken ("4(x2)").
constexpr Names kLaunchers[] = {{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                                {kSlurm, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"}};

std::int64_t number(const char* name, const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || value < 0)
    throw std::runtime_error(std::string(name) + ": expected a number, got '" + text + "'");
  return value;
}

// Slurm numbers its steps from 0; the script of a job and an interactive shell have ids from the top of 32 bits.
bool in_slurm_step(const std::function<std::string(const char*)>& read) {
  const std::string step = read("SLURM_STEP_ID");
  constexpr std::int64_t kFirstSpecial = 0xFFFFFFF0;
  return !step.empty() && number("SLURM_STEP_ID", step) < kFirstSpecial;
}

}  // namespace

std::string read_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

Process find_process(const std::function<std::string(const char*)>& read) {
  Process process;
  const bool step = in_slurm_step(read);
  for (const Names& names : kLaunchers) {
    const std::string rank = read(names.rank), size = read(names.size);
    if (rank.empty() || size.empty()) continue;
    const bool slurm = names.launcher == kSlurm;
    if (slurm && !step) continue;
    if (!slurm && step && read(names.local_rank).empty() && read("SLURM_PROCID") == rank) continue;
    process.rank = number(names.rank, rank);
    process.size = number(names.size, size);
    if (process.size <= 1) return {};
    process.launcher = names.launcher;
    const std::string local_rank = read(names.local_rank), local_size = read(names.local_size);
    process.local_rank = local_rank.empty() ? 0 : number(names.local_rank, local_rank);
    process.local_size = local_size.empty() ? 1 : number(names.local_size, local_size);
    if (process.rank >= process.size || process.local_rank >= process.local_size || process.local_size > process.size)
      throw std::runtime_error("the launcher's variables contradict each other: rank " + rank + " of " + size +
                               ", on this host " + local_rank + " of " + local_size);
    if (process.rank % process.local_size != process.local_rank)
      throw std::runtime_error("ranks must lie host by host (srun --distribution=block, mpirun --map-by slot): rank " +
                               rank + " is number " + local_rank + " of " + local_size + " on its host");
    return process;
  }
  return process;
}

void publish(const std::string& path, const std::vector<char>& bytes) {
  if (std::ifstream(path).good())
    throw std::runtime_error(path + ": is there already; remove it, or name another file for this run");
  // Whole or not at all: renaming is one step.
  const std::string partial = path + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) throw std::runtime_error(path + ": cannot be written");
}

std::vector<char> await(const std::string& path, std::size_t bytes, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    std::vector<char> content(bytes);
    std::ifstream file(path, std::ios::binary);
    if (file.read(content.data(), static_cast<std::streamsize>(bytes))) return content;
    if (std::chrono::steady_clock::now() >= until)
      throw std::runtime_error(path + ": the first process did not write it in time; all must see that file system");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace moeplan::device
