#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cost/bytes_matrix.h"
#include "cost/collective_links.h"
#include "measurements/profiles.h"
#include "report/collective.h"
#include "topology/hardware.h"

namespace moeplan::cli {
namespace {

using topology::CollectiveKind;
constexpr std::int64_t kMostMatrixBytes = std::int64_t{1} << 30;
constexpr double kMostSize = 1e15;

// One question, checked: what is asked for and what it runs on.
struct Question {
  CollectiveKind kind = CollectiveKind::all_to_all;
  std::size_t ranks = 0;
  double bytes = 0;                  // --size, or of a pair
  std::vector<std::int64_t> matrix;  // of --bytes-matrix
  std::optional<cost::PlainFabric> plain;
  std::optional<topology::HardwareProfile> profile;
  std::vector<cost::Degraded> degraded;
};

class Reading {
 public:
  explicit Reading(const Arguments& arguments) : arguments_(arguments) {}

  Question read() {
    collective();
    amount();
    hardware();
    for (const std::string& text : arguments_.degrade) degraded(text);
    faults_.throw_if_any();
    return std::move(question_);
  }

 private:
  void fault(const std::string& option, std::string message, std::string hint = {}) {
    faults_.add({option, 0, 0, {}}, std::move(message), std::move(hint));
  }

  void collective() {
    const auto& names = topology::collective_names();
    const auto found = std::find(names.begin(), names.end(), arguments_.topic);
    if (found == names.end()) {
      fault("collective", "expected one of " + base::join_names(names) + ", got '" + arguments_.topic + "'",
            base::nearest_hint(arguments_.topic, names));
      return;
    }
    question_.kind = static_cast<CollectiveKind>(found - names.begin());
    named_ = true;
  }

  std::optional<double> quantity(const char* option, const std::string& text, base::Dimension dimension, bool zero) {
    const std::optional<double> value = base::parse_quantity(text, dimension);
    if (value && (zero || *value > 0) && *value <= 1e18) return value;
    fault(std::string(option) + " " + text,
          "expected " + base::dimension_example(dimension) + (zero ? "" : ", above 0"));
    return std::nullopt;
  }

  void amount() {
    if (!named_) return;
    const bool exchange = question_.kind == CollectiveKind::all_to_all;
    const auto refuse = [&](const char* option, const std::string& text) {
      if (!text.empty())
        fault(option, fmt::format("does not go with {}: it takes {}", arguments_.topic,
                                  exchange ? "--uniform or --bytes-matrix" : "--size"));
    };
    if (exchange) {
      refuse("--size", arguments_.size);
      if (arguments_.bytes_matrix.empty() == arguments_.uniform.empty())
        fault("collective all_to_all", arguments_.uniform.empty() ? "expected --bytes-matrix FILE, or --uniform SIZE"
                                                                  : "--bytes-matrix and --uniform exclude each other");
      if (!arguments_.bytes_matrix.empty()) return matrix();
      if (!arguments_.uniform.empty()) size("--uniform", arguments_.uniform);
    } else {
      refuse("--uniform", arguments_.uniform);
      refuse("--bytes-matrix", arguments_.bytes_matrix);
      if (arguments_.size.empty()) {
        fault("collective " + arguments_.topic, "expected --size SIZE, such as --size '1 GiB'");
      } else {
        size("--size", arguments_.size);
      }
    }
    if (arguments_.ranks == 0) fault("collective " + arguments_.topic, "expected --ranks N");
    question_.ranks = static_cast<std::size_t>(arguments_.ranks);
    if (question_.ranks > cost::kMostMatrixRanks)
      fault("--ranks " + std::to_string(arguments_.ranks),
            fmt::format("expected at most {}: every pair of ranks is worked out", cost::kMostMatrixRanks));
  }

  void size(const char* option, const std::string& text) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool bare = status == std::errc() && end == text.data() + text.size();  // a bare number: bytes
    const std::optional<double> parsed = base::parse_quantity(bare ? text + " B" : text, base::Dimension::bytes);
    if (!parsed || *parsed > kMostSize || *parsed != std::floor(*parsed)) {
      fault(std::string(option) + " " + text,
            "expected " + base::dimension_example(base::Dimension::bytes) + ", in whole bytes up to 1e15");
      return;
    }
    question_.bytes = *parsed;
  }

  void matrix() {
    try {
      const std::string text = base::read_text(arguments_.bytes_matrix, kMostMatrixBytes);
      cost::BytesMatrix read = cost::read_bytes_matrix(text, arguments_.bytes_matrix, faults_);
      question_.ranks = read.ranks;
      question_.matrix = std::move(read.bytes);
    } catch (const base::Error& error) {
      faults_.add(error);
      return;
    }
    if (arguments_.ranks != 0 && static_cast<std::size_t>(arguments_.ranks) != question_.ranks)
      fault("--ranks " + std::to_string(arguments_.ranks),
            fmt::format("the matrix has {} ranks; --ranks can be left out", question_.ranks));
  }

  void hardware() {
    const Arguments& a = arguments_;
    const std::pair<const char*, bool> given[] = {{"--gpus-per-node", a.gpus_per_node > 0},
                                                  {"--scale-up", !a.scale_up.empty()},
                                                  {"--scale-up-latency", !a.scale_up_latency.empty()},
                                                  {"--nic", !a.nic.empty()},
                                                  {"--nic-latency", !a.nic_latency.empty()},
                                                  {"--oversubscription", !a.oversubscription.empty()}};
    if (!a.hardware_filter.empty()) {
      for (const auto& [option, is_given] : given)
        if (is_given) fault(option, "does not go with --hardware: the profile says it");
      try {
        question_.profile =
            measurements::load_profile(a.hardware_filter, a.options.data_dirs, "--hardware " + a.hardware_filter);
      } catch (const base::Error& error) {
        faults_.add(error);
      }
      return;
    }
    if (a.gpus_per_node == 0 || a.scale_up.empty() || a.nic.empty()) {
      fault("collective", "expected --hardware ID, or --gpus-per-node, --scale-up and --nic");
      return;
    }
    cost::PlainFabric plain;
    plain.gpus_per_node = a.gpus_per_node;
    const auto set = [&](const char* option, const std::string& text, base::Dimension dimension, bool zero,
                         double& value) {
      if (!text.empty()) value = quantity(option, text, dimension, zero).value_or(1);
    };
    set("--scale-up", a.scale_up, base::Dimension::bytes_per_second, false, plain.scale_up_rate);
    set("--scale-up-latency", a.scale_up_latency, base::Dimension::seconds, true, plain.scale_up_latency);
    set("--nic", a.nic, base::Dimension::bytes_per_second, false, plain.nic_rate);
    set("--nic-latency", a.nic_latency, base::Dimension::seconds, true, plain.nic_latency);
    if (!a.oversubscription.empty()) plain.oversubscription = number("--oversubscription", a.oversubscription, 1, 1000);
    question_.plain = plain;
  }

  double number(const std::string& option, std::string_view text, double low, double high) {
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
    fault(option + " " + std::string(text), fmt::format("expected a number from {} to {}", low, high));
    return low;
  }

  void degraded(const std::string& text) {
    static const std::vector<std::string> kinds = {"nic", "rail", "pod"};
    const std::string option = "--degrade " + text;
    const std::size_t colon = text.find(':'), equals = text.find('=');
    const auto kind = std::find(kinds.begin(), kinds.end(), text.substr(0, colon));
    cost::Degraded degraded;
    const char* const first = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
    const char* const last = text.data() + (equals == std::string::npos ? text.size() : equals);
    if (kind == kinds.end() || colon == std::string::npos || equals == std::string::npos || first >= last ||
        std::from_chars(first, last, degraded.which).ptr != last || degraded.which < 0) {
      return fault(option, "expected nic:RANK=SHARE, rail:NIC=SHARE or pod:POD=SHARE",
                   kind == kinds.end() ? base::nearest_hint(text.substr(0, colon), kinds) : std::string());
    }
    degraded.what = static_cast<cost::Degraded::What>(kind - kinds.begin());
    degraded.share = number("--degrade", std::string_view(text).substr(equals + 1), 0, 1);
    question_.degraded.push_back(degraded);
  }

  const Arguments& arguments_;
  Question question_;
  base::Faults faults_;
  bool named_ = false;
};

std::vector<std::pair<std::string, std::string>> described(const Question& question) {
  if (question.profile) return {{"hardware", question.profile->id}};
  const cost::PlainFabric& plain = *question.plain;
  return {{"gpus_per_node", std::to_string(plain.gpus_per_node)},
          {"scale_up", base::format_rate(plain.scale_up_rate)},
          {"scale_up_latency", base::format_time(plain.scale_up_latency)},
          {"nic", base::format_rate(plain.nic_rate)},
          {"nic_latency", base::format_time(plain.nic_latency)},
          {"oversubscription", fmt::format("{}", plain.oversubscription)}};
}

report::CollectiveAnswer answer_to(const Arguments& arguments, const Question& question) {
  const auto count = static_cast<std::int64_t>(question.ranks);
  const topology::HardwareProfile profile = question.profile ? *question.profile : cost::plain_profile(*question.plain);
  const topology::Cluster cluster(profile, count);
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
  const cost::Fabric whole =
      question.plain ? cost::plain_fabric(*question.plain, count) : cost::group_fabric(ranks, cluster, profile);
  cost::Fabric fabric = whole;
  base::Faults faults;
  for (std::size_t i = 0; i < question.degraded.size(); ++i) {
    if (const auto why = cost::degrade(fabric, question.degraded[i], cluster.gpus_per_node()))
      faults.add({"--degrade " + arguments.degrade[i], 0, 0, {}}, *why);
  }
  faults.throw_if_any();

  report::CollectiveAnswer answer;
  answer.collective = arguments.topic;
  answer.ranks = count;
  answer.matrix = !question.matrix.empty();
  answer.fabric = described(question);
  for (const std::string& text : arguments.degrade) answer.fabric.emplace_back("degrade", text);
  if (question.kind == CollectiveKind::all_to_all) {
    std::vector<std::int64_t> bytes = question.matrix;
    if (!answer.matrix) {
      bytes.assign(question.ranks * question.ranks, std::llround(question.bytes));
      for (std::size_t i = 0; i < question.ranks; ++i) bytes[i * question.ranks + i] = 0;
    }
    for (const std::int64_t one : bytes) answer.bytes += static_cast<double>(one);
    answer.time = cost::exchange_with_links(bytes, ranks, cluster, profile, whole, fabric);
  } else {
    answer.bytes = question.bytes;
    answer.time = cost::collective_with_links(question.kind, question.bytes, ranks, cluster, profile, whole, fabric);
  }
  if (answer.time.priced.basis == cost::CollectiveBasis::extrapolated)
    answer.warnings.push_back("the size lies outside the measured sweep: extrapolated");
  return answer;
}

}  // namespace

int collective_command(const Context& context) {
  const Question question = Reading(context.arguments).read();
  const report::CollectiveAnswer answer = answer_to(context.arguments, question);
  context.output.text(report::collective_text(answer));
  if (context.output.wants_json()) context.output.json(report::collective_json(answer));
  return 0;
}

}  // namespace moeplan::cli
