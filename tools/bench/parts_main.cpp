// Benchmarks inside the process.
//   bench_parts BASELINE.csv [--only TEXT] [--update]              seconds against targets, CPU seconds against the
//   baseline bench_parts BASELINE.csv --instructions [--only TEXT] [--update]  instructions of a run, counted by
//   callgrind:
//                                                                   a gate that does not depend on the machine's load
//   bench_parts --once NAME N                                      set-up and N runs, for callgrind
// Exit status 1: a target is missed, or a count is more than 3 % above the baseline.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "parts.h"

namespace {

using moeplan::bench::Part;

constexpr double kMoreInstructions = 1.03;

struct Arguments {
  std::string baseline, only;
  bool update = false, instructions = false;
};

// name -> value of the last column.
std::map<std::string, double> read_baseline(const std::string& path) {
  std::map<std::string, double> baseline;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // header
  while (std::getline(file, line)) {
    const std::size_t comma = line.rfind(',');  // names hold commas
    if (comma != std::string::npos) baseline[line.substr(0, comma)] = std::stod(line.substr(comma + 1));
  }
  return baseline;
}

void write_baseline(const std::string& path, const char* header, const std::vector<Part>& parts,
                    const std::map<std::string, double>& values) {
  std::ofstream file(path);
  file << header << '\n';
  for (const Part& part : parts)
    if (const auto found = values.find(part.name); found != values.end()) {
      char text[32];
      std::snprintf(text, sizeof text, "%.6g", found->second);
      file << part.name << ',' << text << '\n';
    }
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Of all threads together: what the machine does besides does not count.
double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return s(usage.ru_utime) + s(usage.ru_stime);
}

struct Measured {
  double median_s = 0, cpu_s = 0, per_s = 0;
};

Measured measure(const Part& part) {
  const auto run = part.set_up(0);
  std::vector<double> seconds;
  std::int64_t count = 0;
  if (part.repeats > 1) run();  // warm
  const double cpu_before_s = cpu_s();
  for (int i = 0; i < part.repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    count = run();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2], cpu = (cpu_s() - cpu_before_s) / part.repeats;
  return {median, cpu, cpu > 0 ? static_cast<double>(count) / cpu : 0};
}

int seconds(const Arguments& arguments, const std::vector<Part>& parts) {
  auto baseline = read_baseline(arguments.baseline);
  bool missed = false;
  std::printf("%-55s %11s %11s %11s %12s %14s %9s\n", "benchmark", "median s", "target s", "CPU s", "baseline CPU",
              "ops/CPU s", "MiB");
  for (const Part& part : parts) {
    if (part.name.find(arguments.only) == std::string::npos) continue;
    const Measured m = measure(part);
    const auto before = baseline.find(part.name);
    const bool late = (part.target_s > 0 && m.median_s > part.target_s) || (part.per_s > 0 && m.per_s < part.per_s);
    std::printf("%-55s %11.6f %11.6f %11.6f %12.6f %14.3g %9.0f%s\n", part.name.c_str(), m.median_s, part.target_s,
                m.cpu_s, before == baseline.end() ? 0 : before->second, m.per_s, peak_mib(), late ? "  missed" : "");
    std::fflush(stdout);
    missed = missed || late;
    baseline[part.name] = m.cpu_s;
  }
  if (arguments.update) write_baseline(arguments.baseline, "benchmark,cpu_s", parts, baseline);
  return missed ? 1 : 0;
}

double counted(const std::string& program, const std::string& name, int runs) {
  const std::string command = "valgrind --tool=callgrind --callgrind-out-file=/dev/null '" + program + "' --once '" +
                              name + "' " + std::to_string(runs) + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return -1;
  std::string text;
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  const int status = pclose(pipe);
  const std::size_t at = text.find("Collected : ");
  if (status != 0 || at == std::string::npos) return -1;
  return std::strtod(text.c_str() + at + 12, nullptr);
}

// Of the second run: set-up and what a first run fills are taken off.
int instructions(const Arguments& arguments, const std::vector<Part>& parts, const char* program) {
  auto baseline = read_baseline(arguments.baseline);
  bool more = false;
  std::printf("%-55s %15s %15s\n", "benchmark", "instructions", "baseline");
  for (const Part& part : parts) {
    if (!part.counted || part.name.find(arguments.only) == std::string::npos) continue;
    const double one = counted(program, part.name, 1), two = counted(program, part.name, 2);
    if (one < 0 || two < 0) {
      std::fprintf(stderr, "error: valgrind could not count '%s'\n", part.name.c_str());
      return 2;
    }
    const double value = two - one;
    const auto before = baseline.find(part.name);
    const bool above = before != baseline.end() && value > kMoreInstructions * before->second;
    std::printf("%-55s %15.0f %15.0f%s\n", part.name.c_str(), value, before == baseline.end() ? 0 : before->second,
                above ? "  more" : "");
    std::fflush(stdout);
    more = more || above;
    baseline[part.name] = value;
  }
  if (arguments.update) write_baseline(arguments.baseline, "benchmark,instructions", parts, baseline);
  return more ? 1 : 0;
}

int once(const std::vector<Part>& parts, const std::string& name, int runs) {
  for (const Part& part : parts)
    if (part.name == name) {
      const auto run = part.set_up(1);  // counts do not depend on how threads take turns
      for (int i = 0; i < runs; ++i) run();
      return 0;
    }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Part> parts = moeplan::bench::all_parts();
  if (argc == 4 && std::string(argv[1]) == "--once") return once(parts, argv[2], std::atoi(argv[3]));
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--update")
      arguments.update = true;
    else if (word == "--instructions")
      arguments.instructions = true;
    else if (word == "--only" && i + 1 < argc)
      arguments.only = argv[++i];
    else
      arguments.baseline = word;
  }
  if (arguments.baseline.empty()) {
    std::fprintf(stderr, "usage: bench_parts BASELINE.csv [--instructions] [--only TEXT] [--update]\n");
    return 2;
  }
  return arguments.instructions ? instructions(arguments, parts, argv[0]) : seconds(arguments, parts);
}
