#include <algorithm>
#include <functional>

#include "options.h"
#include "run.h"

namespace moeplan::device {
namespace {

// Families in the order in which they run, with the part of the time that each may take.
struct Family {
  const char* name;
  double share;
};
constexpr Family kFamilies[] = {{"launch", 0.01}, {"copy", 0.10},    {"gemm", 0.37},     {"grouped", 0.25},
                                {"memory", 0.10}, {"overlap", 0.07}, {"sustained", 0.10}};

}  // namespace

int measure_command(const std::vector<std::string>& words) {
  std::int64_t device = 0, seed = 1;
  double seconds = 240;
  std::string path;
  bool help = false;
  std::vector<std::string> known, families;
  std::vector<std::int64_t> linears;
  for (const Family& family : kFamilies) known.emplace_back(family.name);
  families = known;
  Options options;
  options.whole("--device", device, 0, 63, "which GPU (0)")
      .text("--output", path, "write to this file")
      .choices("--families", families, known, "what to measure")
      .real("--seconds", seconds, 1, 36000, "time for all families together (240)")
      .wholes("--linears", linears, 16, 1 << 20, "outputs,inputs of linear layers of your model, measured first")
      .whole("--seed", seed, 0, 1 << 30, "of the data (1)")
      .flag("--help", help, "this text");
  options.parse(words);
  if (linears.size() % 2 != 0) throw UsageError("--linears: expected pairs outputs,inputs: an even number of values");
  if (help) {
    std::cout << "moeplan-device measure\n" << options.help();
    return 0;
  }
  require_device();
  Output output(path);
  LineWriter writer(output.stream());
  Timer timer(static_cast<int>(device));
  writer.set_common(common_fields(timer.properties(), timer.monitor()));
  write_device(writer, timer);
  Run run{timer, writer, static_cast<std::uint64_t>(seed)};
  double shares = 0;
  for (const Family& family : kFamilies) {
    if (std::find(families.begin(), families.end(), family.name) != families.end()) shares += family.share;
  }
  for (const Family& family : kFamilies) {
    if (std::find(families.begin(), families.end(), family.name) == families.end()) continue;
    const std::string name = family.name;
    const double time = seconds * family.share / shares;
    const Budget budget(time);
    std::cerr << "measuring " << name << "\n";
    if (name == "launch") measure_launches(run);
    if (name == "copy") measure_copies(run, budget);
    if (name == "gemm") measure_products(run, budget, linears);
    if (name == "grouped") measure_grouped(run, budget);
    if (name == "memory") measure_memory_operations(run, budget);
    if (name == "overlap") measure_overlap(run, budget);
    if (name == "sustained") measure_sustained(run, time);
  }
  write_left_out(writer, "attention", "no library of attention is linked; tools/attention.py times PyTorch's");
  writer.finish();
  return 0;
}

}  // namespace moeplan::device
