#include "measurements/nccl_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/units.h"
#include "measurements/bench_table.h"
#include "measurements/log_line.h"
#include "measurements/rank_count.h"

namespace moeplan::measurements {
namespace {

constexpr std::size_t kMostTold = 1000;  // rows set aside that are told one by one

// One sweep over sizes: sizes rise. Two processes without MPI print theirs row by row into one another.
struct Sweep {
  std::int64_t last_size = 0;
};

// One run of one program, or of several that print at the same time: what stands between two heads.
struct Test {
  std::string collective;
  std::vector<std::string> columns;
  std::vector<RankLine> ranks;
  bool ranks_cut = false, ended = false;
  std::int64_t launched = 0, per_node = 0;  // of the launch line
  std::vector<Sweep> sweeps;
  std::vector<TimedLine> lines;
};

class LogReader {
 public:
  LogReader(const std::string& file, const Stated& stated) : file_(file), stated_(stated) {}

  void line(std::string_view raw, int number) {
    const Tagged tagged = split_tag(raw);
    Test& test = test_of(std::string(tagged.tag));
    const std::string_view text = tagged.text;
    if (text.empty()) return;
    if (markdown_.line(text, number) || hccl_.line(text, number)) return;
    if (text.starts_with('#')) return comment(std::string(tagged.tag), text);
    if (data(test, text, number)) return;
    launch(std::string(tagged.tag), text);
  }

  CollectiveLog finish() {
    for (auto& [tag, test] : open_) tests_.push_back(std::move(test));
    for (Test& test : tests_) close(test);
    close_bench(markdown_);
    close_bench(hccl_);
    std::stable_sort(log_.rows.begin(), log_.rows.end(),
                     [](const auto& a, const auto& b) { return a.where.line < b.where.line; });
    std::stable_sort(log_.set_aside.begin(), log_.set_aside.end(),
                     [](const auto& a, const auto& b) { return a.where.line < b.where.line; });
    return std::move(log_);
  }

 private:
  Test& test_of(const std::string& tag) { return open_[tag]; }

  void begin(const std::string& tag) {
    Test& test = open_[tag];
    if (test.lines.empty() && !test.ended) return;  // another head of the same test, or a second process beside it
    tests_.push_back(std::move(test));
    test = Test{};
    test.collective = launched_collective_;
    test.launched = launched_ranks_;
    test.per_node = launched_per_node_;
  }

  void comment(const std::string& tag, std::string_view text) {
    if (const std::size_t at = text.find("Collective test starting:"); at != std::string_view::npos) {
      begin(tag);
      test_of(tag).collective = collective_of_name(text.substr(at));
      return;
    }
    if (text.find("nThread") != std::string_view::npos) return begin(tag);
    if (const std::optional<RankLine> rank = parse_rank_line(text)) {
      Test& test = test_of(tag);
      if (!test.lines.empty() && test.ended) begin(tag);
      test_of(tag).ranks.push_back(*rank);
      return;
    }
    if (text.find("...") != std::string_view::npos) {
      test_of(tag).ranks_cut = true;
      return;
    }
    if (std::vector<std::string> columns = parse_columns(text); !columns.empty()) {
      if (test_of(tag).ended) begin(tag);
      test_of(tag).columns = std::move(columns);
      return;
    }
    if (text.find("Out of bounds values") != std::string_view::npos ||
        text.find("Avg bus bandwidth") != std::string_view::npos)
      test_of(tag).ended = true;
  }

  // A launch line names the collective of logs whose head does not, and how many processes there are.
  void launch(const std::string& tag, std::string_view text) {
    if (text.starts_with("...")) test_of(tag).ranks_cut = true;
    const std::string collective = collective_of_program(text);
    if (collective.empty() || text.find("NCCL INFO") != std::string_view::npos) return;
    launched_collective_ = collective;
    launched_ranks_ = std::max(flag_value(text, "-np"), text.find("mpirun") != std::string_view::npos ||
                                                                text.find("srun") != std::string_view::npos
                                                            ? flag_value(text, "-n")
                                                            : 0);
    launched_per_node_ = flag_value(text, "-p");
    hccl_.launched(collective, launched_ranks_, launched_per_node_);
    for (auto& [other, test] : open_) {
      if (!test.lines.empty() || test.ended) {
        begin(other);
      } else {
        test.collective = collective;
        test.launched = launched_ranks_;
        test.per_node = launched_per_node_;
      }
    }
  }

  bool data(Test& test, std::string_view text, int number) {
    TimedLine line;
    line.line = number;
    switch (parse_row(text, test.columns, line.timing)) {
      case RowKind::none:
        return false;
      case RowKind::nothing_measured:
        return true;
      case RowKind::cut:
        set_aside(number, "the row is cut or mixed with another: no time with bandwidths that belong to it");
        return true;
      case RowKind::row:
        break;
    }
    // To the sweep whose last size is nearest below: sizes of one sweep rise.
    Sweep* best = nullptr;
    for (Sweep& sweep : test.sweeps) {
      if (sweep.last_size < line.timing.size && (best == nullptr || sweep.last_size > best->last_size)) best = &sweep;
    }
    if (best == nullptr) best = &test.sweeps.emplace_back();
    best->last_size = line.timing.size;
    if (line.timing.wrong > 0) {
      set_aside(number, fmt::format("{} values of the result were wrong", line.timing.wrong));
      return true;
    }
    test.lines.push_back(line);
    return true;
  }

  void close(Test& test) {
    if (test.lines.empty()) return;
    Job job;
    job.collective = test.collective.empty() ? launched_collective_ : test.collective;
    job.launched = test.launched;
    job.launched_per_node = test.per_node;
    job.ranks_cut = test.ranks_cut;
    job.rank_lines = test.ranks;
    add(job, test.lines);
  }

  void close_bench(BenchTable& table) {
    for (const auto& [line, why] : table.set_aside) set_aside(line, why);
    if (table.lines.empty()) return;
    Job job;
    job.collective = table.collective;
    job.gpu = table.gpu;
    job.launched = table.ranks;
    job.launched_per_node = table.per_node;
    add(job, table.lines);
  }

  void add(Job& job, const std::vector<TimedLine>& lines) {
    if (job.collective.empty()) job.collective = collective_of_name(file_);
    if (job.collective.empty()) job.collective = stated_.collective;
    if (job.collective.empty()) {
      return set_aside_all(lines,
                           "nothing names the collective of these rows: neither a head, a launch line nor the "
                           "file's name; state it with --collective");
    }
    const Resolved resolved = resolve_job(job, lines, stated_.ranks, stated_.nodes);
    for (const auto& [line, why] : resolved.set_aside) set_aside(line, why);
    std::set<int> refused;
    for (const auto& [line, why] : resolved.set_aside) refused.insert(line);
    for (const TimedLine& line : lines) {
      if (refused.contains(line.line)) continue;
      CollectiveRow row;
      row.collective = job.collective;
      row.ranks = resolved.ranks;
      row.nodes = resolved.nodes;
      row.gpu = resolved.gpu.empty() ? stated_.gpu : resolved.gpu;
      row.size_bytes = static_cast<double>(line.timing.size);
      row.time_s = line.timing.time_us / 1e6;
      row.where = {file_, line.line, 0, {}};
      log_.rows.push_back(std::move(row));
    }
  }

  void set_aside(int line, const std::string& why) {
    if (log_.set_aside.size() < kMostTold) log_.set_aside.push_back({{file_, line, 0, {}}, why, {}, {}});
  }

  void set_aside_all(const std::vector<TimedLine>& lines, const std::string& why) {
    for (const TimedLine& line : lines) set_aside(line.line, why);
  }

  const std::string& file_;
  const Stated& stated_;
  std::map<std::string, Test> open_;  // by tag
  std::vector<Test> tests_;
  std::string launched_collective_;
  std::int64_t launched_ranks_ = 0, launched_per_node_ = 0;
  MarkdownTable markdown_;
  HcclTable hccl_;
  CollectiveLog log_;
};

}  // namespace

CollectiveLog read_nccl_log(std::string_view text, const std::string& file, const Stated& stated) {
  LogReader reader(file, stated);
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.line(text.substr(0, end), ++number);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

}  // namespace moeplan::measurements
