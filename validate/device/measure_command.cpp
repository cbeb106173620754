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
  Common common;
  std::int64_t seed = 1;
  double seconds = 240;
  std::vector<std::string> known, families;
  std::vector<std::int64_t> linears;
  for (const Family& family : kFamilies) known.emplace_back(family.name);
  families = known;
  Options options;
  options.choices("--families", families, known, "what to measure")
      .real("--seconds", seconds, 1, 36000, "time for all families together (240)")
      .wholes("--linears", linears, 16, 1 << 20, "outputs,inputs of linear layers of your model, measured first")
      .whole("--seed", seed, 0, 1 << 30, "of the data (1)")
      .check({"--linears"}, [&]() -> std::vector<std::string> {
        if (linears.size() % 2 == 0) return {};
        return {"--linears: expected pairs outputs,inputs: an even number of values, got " +
                std::to_string(linears.size())};
      });
  if (!read_words("measure", options, common, words)) return 0;
  Session session(common);
  LineWriter& writer = session.writer;
  Run run{session.timer, writer, static_cast<std::uint64_t>(seed)};
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
    attempt(writer, "the rest of " + name, [&] {
      if (name == "launch") measure_launches(run);
      if (name == "copy") measure_copies(run, budget);
      if (name == "gemm") measure_products(run, budget, linears);
      if (name == "grouped") measure_grouped(run, budget);
      if (name == "memory") measure_memory_operations(run, budget);
      if (name == "overlap") measure_overlap(run, budget);
      if (name == "sustained") measure_sustained(run, time);
    });
  }
  write_left_out(writer, "attention", "no library of attention is linked; tools/attention.py times PyTorch's");
  writer.finish();
  return 0;
}

}  // namespace moeplan::device
