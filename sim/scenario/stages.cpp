#include "scenario/stages.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace moeplan::scenario {

namespace {

using StageFaults = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMostLetters = 1U << 16;
constexpr const char* kLayoutKey = "pipeline_model_parallel_layout";

// Writes a layout string out: repeats done, parentheses gone.
class Expander {
 public:
  Expander(const std::string& text, StageFaults& faults) : text_(text), faults_(faults) {}

  std::string run() {
    std::string out = sequence(0);
    if (faults_.empty() && at_ < text_.size()) fault("expected a letter, '|', '(' or '*n'");
    return out;
  }

 private:
  void fault(const std::string& expected) {
    // The whole letter: those of other alphabets have several bytes. What stands before it was read, so is ASCII.
    std::size_t end = at_ + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U) ++end;
    const std::string got = at_ < text_.size() ? "'" + text_.substr(at_, end - at_) + "'" : "the end";
    faults_.emplace_back(kLayoutKey, fmt::format("character {}: {}, got {}", at_ + 1, expected, got));
  }

  std::string sequence(int depth) {
    std::string out;
    while (faults_.empty() && at_ < text_.size() && text_[at_] != ')') {
      std::string item;
      const char c = text_[at_];
      if (c == ' ' || c == ',') {  // both are written for legibility
        ++at_;
        continue;
      }
      if (c == 'E' || c == 't' || c == 'm' || c == 'L' || c == '|') {
        item = std::string(1, c);
        ++at_;
      } else if (c == '(' && depth < 16) {
        ++at_;
        item = sequence(depth + 1);
        if (!faults_.empty()) return out;
        if (at_ >= text_.size()) {
          fault("expected ')'");
          return out;
        }
        ++at_;
      } else {
        fault("expected E, t, m, L, '|' or '('");
        return out;
      }
      const std::size_t times = repeats();
      if (!faults_.empty()) return out;
      if (out.size() + item.size() * times > kMostLetters) {
        faults_.emplace_back(kLayoutKey, fmt::format("more than {} letters", kMostLetters));
        return out;
      }
      for (std::size_t i = 0; i < times; ++i) out += item;
    }
    return out;
  }

  std::size_t repeats() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    std::size_t value = 0, digits = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && digits < 6) {
      value = value * 10 + static_cast<std::size_t>(text_[at_++] - '0');
      ++digits;
    }
    if (digits == 0 || value == 0) fault("expected a number >= 1 after '*'");
    return value;
  }

  const std::string& text_;
  StageFaults& faults_;
  std::size_t at_ = 0;
};

}  // namespace

StageMap::StageMap(std::int64_t pp, std::vector<StageChunk> in_model_order)
    : pp_(pp), chunks_(std::move(in_model_order)) {
  MOEPLAN_CHECK(pp_ >= 1 && !chunks_.empty() && static_cast<std::int64_t>(chunks_.size()) % pp_ == 0,
                "chunks are a multiple of pp");
}

void StageMap::place(schedule::Placement placement) {
  using schedule::Placement;
  MOEPLAN_CHECK(placement == Placement::looped || vpp() == (placement == Placement::v_shape ? 2 : 1),
                "a V has two virtual stages a rank, mirrored ranks one");
  placement_ = placement;
}

const StageChunk& StageMap::chunk(std::int64_t stage, std::int64_t chunk) const {
  std::int64_t at = chunk * pp_ + stage;
  if (reversed(chunk)) at = static_cast<std::int64_t>(chunks_.size()) - 1 - stage;
  return chunks_[static_cast<std::size_t>(at)];
}

std::int64_t StageMap::stage_of_layer(std::int64_t layer, bool from_the_end) const {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const auto& layers = chunks_[c].layers;
    if (layers.empty() || layer < layers.front() || layers.back() < layer) continue;
    const auto at = static_cast<std::int64_t>(c);
    const bool back = (placement_ == schedule::Placement::v_shape && at >= pp_) ||
                      (placement_ == schedule::Placement::mirrored && from_the_end);
    return back ? static_cast<std::int64_t>(chunks_.size()) - 1 - at : at % pp_;
  }
  MOEPLAN_CHECK(false, "every layer has a stage");
}

bool StageMap::holds(std::int64_t stage, std::int64_t layer) const {
  return stage_of_layer(layer) == stage || stage_of_layer(layer, true) == stage;
}

std::vector<std::int32_t> StageMap::layers_of(std::int64_t stage) const {
  std::vector<std::int32_t> layers;
  for (std::int64_t v = 0; v < chunks(); ++v)
    layers.insert(layers.end(), chunk(stage, v).layers.begin(), chunk(stage, v).layers.end());
  std::sort(layers.begin(), layers.end());
  return layers;
}

std::int64_t StageMap::mtp_on(std::int64_t stage) const {
  std::int64_t sum = 0;
  for (std::int64_t v = 0; v < chunks(); ++v) sum += chunk(stage, v).mtp;
  return sum;
}

bool StageMap::embedding_on(std::int64_t stage) const {
  for (std::int64_t v = 0; v < chunks(); ++v)
    if (chunk(stage, v).embedding) return true;
  return false;
}

bool StageMap::loss_on(std::int64_t stage) const {
  for (std::int64_t v = 0; v < chunks(); ++v)
    if (chunk(stage, v).loss) return true;
  return false;
}

std::int64_t StageMap::most_layers() const {
  std::size_t most = 0;
  for (std::int64_t stage = 0; stage < pp_; ++stage) most = std::max(most, layers_of(stage).size());
  return static_cast<std::int64_t>(most);
}

std::string StageMap::text() const {
  std::string text;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (c > 0) text += '|';
    if (chunks_[c].embedding) text += 'E';
    text.append(chunks_[c].layers.size(), 't');
    text.append(static_cast<std::size_t>(chunks_[c].mtp), 'm');
    if (chunks_[c].loss) text += 'L';
  }
  return text;
}

std::pair<StageMap, StageFaults> even_stages(const StageRules& rules) {
  StageFaults faults;
  const std::int64_t chunks = rules.pp * rules.vpp;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks), 0);
  // Rest of a division that must come out even, with what it is about.
  const auto divide = [&](std::int64_t number, std::int64_t by, const char* key, const std::string& what) {
    if (by > 0 && number >= 0 && number % by == 0) return number / by;
    faults.emplace_back(key,
                        fmt::format("expected {} to divide evenly over {} virtual stages, got {}", what, by, number));
    return std::int64_t{0};
  };
  const std::int64_t extra = (rules.account_for_embedding ? 1 : 0) + (rules.account_for_loss ? 1 : 0);
  if (rules.first_layers || rules.last_layers) {
    if (extra > 0) {
      faults.emplace_back("account_for_embedding_in_pipeline_split",
                          "cannot be combined with first or last layer counts");
      return {StageMap(), faults};
    }
    // A stage with a count of its own spreads it over its virtual stages; the others share the rest.
    std::int64_t rest = rules.layers, stages = rules.pp;
    for (const auto& own : {rules.first_layers, rules.last_layers})
      if (own) {
        rest -= *own;
        --stages;
      }
    if (stages < 0 || (stages == 0 && rest != 0)) {
      faults.emplace_back(
          "decoder_first_pipeline_num_layers",
          fmt::format("first and last counts leave {} layers for {} stages", rest, std::max<std::int64_t>(stages, 0)));
      return {StageMap(), faults};
    }
    const std::int64_t middle = stages == 0 ? 0
                                            : divide(rest, stages * rules.vpp, "pipeline_model_parallel_size",
                                                     "the layers of the other stages");
    for (std::int64_t c = 0; c < chunks; ++c) counts[static_cast<std::size_t>(c)] = middle;
    const auto spread = [&](const std::optional<std::int64_t>& own, std::int64_t stage, const char* key) {
      if (!own) return;
      const std::int64_t each = divide(*own, rules.vpp, key, "the count");
      for (std::int64_t v = 0; v < rules.vpp; ++v) counts[static_cast<std::size_t>(v * rules.pp + stage)] = each;
    };
    spread(rules.first_layers, 0, "decoder_first_pipeline_num_layers");
    spread(rules.last_layers, rules.pp - 1, "decoder_last_pipeline_num_layers");
  } else {
    const std::string what =
        extra == 0 ? "the model's layers" : "the model's layers and the accounted embedding and loss";
    const std::int64_t each = divide(rules.layers + extra, chunks, "pipeline_model_parallel_size", what);
    for (auto& count : counts) count = each;
    if (rules.account_for_embedding) --counts.front();
    if (rules.account_for_loss) --counts.back();
    if (faults.empty() && (counts.front() < 0 || counts.back() < 0))
      faults.emplace_back("account_for_embedding_in_pipeline_split",
                          "a virtual stage of one layer has no room for embedding or loss");
  }
  if (!faults.empty()) return {StageMap(), faults};
  std::vector<StageChunk> map(static_cast<std::size_t>(chunks));
  std::int32_t layer = 0;
  for (std::size_t c = 0; c < map.size(); ++c)
    for (std::int64_t i = 0; i < counts[c]; ++i) map[c].layers.push_back(layer++);
  map.front().embedding = true;
  map.back().loss = true;
  map.back().mtp = static_cast<std::int32_t>(rules.mtp);
  return {StageMap(rules.pp, std::move(map)), faults};
}

std::pair<StageMap, StageFaults> parse_stages(const std::string& text, const StageRules& rules) {
  StageFaults faults;
  const std::string letters = Expander(text, faults).run();
  if (!faults.empty()) return {StageMap(), faults};
  std::vector<StageChunk> chunks(1);
  std::int64_t layers = 0, mtp = 0, embeddings = 0, losses = 0;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    switch (letters[i]) {
      case '|':
        chunks.emplace_back();
        break;
      case 't':
        chunks.back().layers.push_back(static_cast<std::int32_t>(layers++));
        break;
      case 'm':
        ++chunks.back().mtp;
        ++mtp;
        break;
      case 'E':
        chunks.back().embedding = true;
        ++embeddings;
        break;
      default:
        chunks.back().loss = true;
        ++losses;
        break;
    }
  }
  const auto expect = [&](bool holds, const std::string& message) {
    if (!holds) faults.emplace_back(kLayoutKey, message);
  };
  expect(layers == rules.layers, fmt::format("expected {} layers (t) as the model has, got {}", rules.layers, layers));
  expect(mtp == rules.mtp, fmt::format("expected {} MTP blocks (m) as the model has, got {}", rules.mtp, mtp));
  expect(embeddings == 1 && letters.front() == 'E', "expected one embedding (E), first");
  const std::size_t first_mtp = letters.find('m'), last_layer = letters.rfind('t');
  expect(first_mtp == std::string::npos || last_layer == std::string::npos || first_mtp > last_layer,
         "expected MTP blocks (m) behind the last layer (t), whose output they read");
  expect(losses == 1 && letters.back() == 'L', "expected one loss (L), last");
  const auto count = static_cast<std::int64_t>(chunks.size());
  expect(count % rules.pp == 0,
         fmt::format("expected a multiple of the {} pipeline stages as number of virtual stages, got {}", rules.pp,
                     count));
  if (!faults.empty()) return {StageMap(), faults};
  return {StageMap(rules.pp, std::move(chunks)), faults};
}

}  // namespace moeplan::scenario
