// Times whole processes of the program and compares them with targets and a stored baseline.
//   bench_commands PROGRAM BASELINE.csv [--update]
// Each command runs until 7 times or 10 seconds are used up; printed are median wall time and largest resident memory. Exit status 1 when a target is missed.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Command {
  const char* name;
  std::vector<const char*> arguments;
  double target_s;
  double target_mib;  // 0: none
};

const std::vector<Command> kCommands = {
    {"version", {"--version"}, 0.020, 0},
    {"run quickstart", {"run", "scenarios/quickstart.yaml"}, 0.3, 100},
    {"chunks quickstart", {"chunks", "scenarios/quickstart.yaml"}, 2.0, 0},
    {"compare quickstart", {"compare", "scenarios/quickstart.yaml"}, 10.0, 0},
    {"exchange of 64 skewed ranks, blocking 4:1",
     {"collective", "all_to_all", "--bytes-matrix", "tests/data/network/m64_zipf1.csv", "--gpus-per-node", "8",
      "--scale-up", "360 GB/s", "--scale-up-latency", "1 us", "--nic", "45 GB/s", "--nic-latency", "5 us",
      "--oversubscription", "4"},
     0.05,
     0},
    {"uniform exchange of 1024 ranks",
     {"collective", "all_to_all", "--uniform", "1 MB", "--ranks", "1024", "--gpus-per-node", "8", "--scale-up",
      "360 GB/s", "--nic", "45 GB/s", "--oversubscription", "4"},
     0.05,
     100},
};

struct Measured {
  double seconds = 0, mib = 0;
};

Measured run_once(const char* program, const Command& command) {
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    std::vector<char*> argv = {const_cast<char*>(program)};
    for (const char* argument : command.arguments) argv.push_back(const_cast<char*>(argument));
    argv.push_back(nullptr);
    execv(program, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
    std::fprintf(stderr, "error: '%s' ended with status %d\n", command.name, status);
    std::exit(2);
  }
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), static_cast<double>(usage.ru_maxrss) / 1024.0};
}

Measured measure(const char* program, const Command& command) {
  std::vector<double> seconds;
  double mib = 0, total = 0;
  while (seconds.size() < 7 && (seconds.size() < 3 || total < 10)) {
    const Measured m = run_once(program, command);
    seconds.push_back(m.seconds);
    total += m.seconds;
    mib = std::max(mib, m.mib);
  }
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], mib};
}

std::map<std::string, Measured> read_baseline(const char* path) {
  std::map<std::string, Measured> baseline;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string name, seconds, mib;
    if (std::getline(cells, name, ',') && std::getline(cells, seconds, ',') && std::getline(cells, mib, ',')) baseline[name] = {std::stod(seconds), std::stod(mib)};
  }
  return baseline;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_commands PROGRAM BASELINE.csv [--update]\n");
    return 2;
  }
  const bool update = argc > 3 && std::string(argv[3]) == "--update";
  const auto baseline = read_baseline(argv[2]);
  std::string table = "command,median_s,peak_mib\n";
  bool missed = false;
  std::printf("%-20s %10s %10s %10s %10s %10s\n", "command", "median s", "target s", "baseline s", "MiB", "target MiB");
  for (const Command& command : kCommands) {
    const Measured m = measure(argv[1], command);
    const auto found = baseline.find(command.name);
    std::printf("%-20s %10.3f %10.3f %10.3f %10.1f %10.0f\n", command.name, m.seconds, command.target_s, found == baseline.end() ? 0.0 : found->second.seconds, m.mib, command.target_mib);
    missed = missed || m.seconds > command.target_s || (command.target_mib > 0 && m.mib > command.target_mib);
    char row[128];
    std::snprintf(row, sizeof row, "%s,%.4f,%.1f\n", command.name, m.seconds, m.mib);
    table += row;
  }
  if (update) std::ofstream(argv[2]) << table;
  if (missed) std::printf("a target was missed\n");
  return missed ? 1 : 0;
}
