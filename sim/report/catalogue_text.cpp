#include <fmt/core.h>

#include <array>

#include "base/units.h"
#include "model/parameters.h"
#include "report/catalogue.h"
#include "report/format.h"
#include "report/table.h"
#include "topology/hardware_keys.h"

namespace moeplan::report {
namespace {

using topology::Quantity;

constexpr std::int64_t kSequence = 4096;  // of the FLOPs that are shown

std::string value_text(double value, Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
    case Quantity::bytes_or_none:
      if (value >= base::kGiB) return base::format_gib(value);
      return value >= base::kMiB ? fmt::format("{:.2f} MiB", value / base::kMiB) : fmt::format("{:.0f} B", value);
    case Quantity::bytes_per_second:
      return base::format_rate(value);
    case Quantity::flop_per_second:
      return fmt::format("{:.1f} TFLOP/s", value / 1e12);
    case Quantity::seconds:
      return base::format_time(value);
    case Quantity::count:
    case Quantity::length:
    case Quantity::exponent:
    case Quantity::efficiency:
    case Quantity::ratio:
    case Quantity::health:
    case Quantity::share:
    case Quantity::spread:
      break;
    case Quantity::flag:
      return value > 0 ? "true" : "false";
  }
  return fmt::format("{:g}", value);
}

std::string billions(double parameters) { return fmt::format("{:.2f} B", parameters / 1e9); }

std::string attention_text(const model::Attention& attention) {
  if (attention.kind == model::AttentionKind::mla) {
    return fmt::format("mla, {} heads, q rank {}, kv rank {}, qk {} + {}, v {}", attention.heads, attention.q_lora_rank,
                       attention.kv_lora_rank, attention.qk_nope_dim, attention.qk_rope_dim, attention.v_head_dim);
  }
  return fmt::format("gqa, {} heads, {} key and value heads of {}", attention.heads, attention.kv_heads,
                     attention.head_dim);
}

const char* convention_text(model::ActiveConvention convention) {
  switch (convention) {
    case model::ActiveConvention::everything:
      return "embedding and head counted";
    case model::ActiveConvention::without_embedding:
      return "input embedding not counted";
    case model::ActiveConvention::without_embedding_and_head:
      return "embedding and head not counted";
  }
  return "";
}

std::string published_text(double figure) { return figure > 0 ? billions(figure) : "-"; }

}  // namespace

std::string models_text(const std::vector<model::Architecture>& models) {
  Table table({{"model", Align::left},
               {"layers"},
               {"moe"},
               {"experts"},
               {"top-k"},
               {"hidden"},
               {"total"},
               {"active"},
               {"title", Align::left}});
  for (const model::Architecture& model : models) {
    const auto active = active_parameters(model, model.published.active_convention);
    table.add({model.id, fmt::format("{}", model.layer_count()), fmt::format("{}", model.moe_layer_count()),
               fmt::format("{}", model.moe.experts), fmt::format("{}", model.moe.top_k),
               fmt::format("{}", model.hidden), billions(static_cast<double>(model::model_parameters(model).total())),
               billions(static_cast<double>(active)), model.title});
  }
  return table.text(0);
}

std::string model_text(const model::Architecture& model) {
  const model::ModelParameters parameters = model::model_parameters(model);
  const model::Published& published = model.published;
  std::string text = fmt::format("{}: {}\n", model.id, model.title) + wrapped("  source: ", model.source);
  text += fmt::format("  {} layers ({} MoE), hidden {}, vocabulary {}, {} embeddings\n", model.layer_count(),
                      model.moe_layer_count(), model.hidden, model.vocab, model.tied_embeddings ? "tied" : "untied");
  text += "  attention: " + attention_text(model.attention) + "\n";
  if (model.moe_layer_count() > 0) {
    text += fmt::format("  experts: {} of width {}, {} a token; shared expert of width {}\n", model.moe.experts,
                        model.moe.ffn, model.moe.top_k, model.moe.shared_ffn);
  }
  Table table({{"parameters", Align::left}, {"count"}});
  const std::pair<const char*, std::int64_t> rows[] = {
      {"embedding", parameters.embedding}, {"head", parameters.head},       {"final norm", parameters.final_norm},
      {"attention", parameters.attention}, {"norms", parameters.norms},     {"dense MLP", parameters.mlp},
      {"router", parameters.router},       {"experts", parameters.experts}, {"shared experts", parameters.shared},
      {"positions", parameters.positions}, {"MTP blocks", parameters.mtp},  {"total", parameters.total()}};
  for (const auto& [name, count] : rows) {
    const std::string row = name;
    const bool rare = row == "positions" || row == "MTP blocks";  // most models have none: no row of zeros
    if (count > 0 || !rare) table.add({row, thousands(count)});
  }
  text += table.text();
  // Publishers leave multi-token-prediction blocks out.
  text += fmt::format("  total  {} counted{}, {} published\n",
                      billions(static_cast<double>(parameters.total() - parameters.mtp)),
                      model.mtp_layers > 0 ? " without MTP" : "", published_text(published.total_parameters));
  text += fmt::format("  active {} counted ({}), {} published\n",
                      billions(static_cast<double>(active_parameters(model, published.active_convention))),
                      convention_text(published.active_convention), published_text(published.active_parameters));
  if (!published.source.empty()) text += wrapped("  published in: ", published.source);
  return text + fmt::format("  {:.4g} GFLOP a token, forward and backward, at a sequence length of {}\n",
                            model::training_flops_per_token(model, kSequence) / 1e9, kSequence);
}

std::string hardware_text(const std::vector<topology::HardwareProfile>& profiles) {
  Table table({{"hardware", Align::left},
               {"capacity"},
               {"peak bf16"},
               {"measured"},
               {"published"},
               {"datasheet"},
               {"assumed"},
               {"title", Align::left}});
  for (const topology::HardwareProfile& profile : profiles) {
    std::array<int, 4> count{};
    for (const auto& [key, value] : profile.all()) ++count[static_cast<std::size_t>(value.evidence)];
    table.add({profile.id, base::format_gib(profile.device.memory_capacity.value),
               value_text(profile.device.peak_bf16.value, Quantity::flop_per_second), fmt::format("{}", count[0]),
               fmt::format("{}", count[1]), fmt::format("{}", count[2]), fmt::format("{}", count[3]), profile.title});
  }
  return table.text(0) + "measured ... assumed: how many values of the profile rest on which evidence\n";
}

namespace {

// "  all_gather of 8 on 1 nodes  12.7 us, 363.7 GB/s, exponent 0.675  published  source".
std::string entry_text(const topology::CollectiveEntry& entry) {
  const std::string name = fmt::format(
      "{} of {} on {} node{}{}", topology::collective_names()[static_cast<std::size_t>(entry.kind)], entry.ranks,
      entry.nodes, entry.nodes == 1 ? "" : "s", entry.fabric.empty() ? std::string() : ", " + entry.fabric);
  const std::string value = entry.sizes_bytes.empty()
                                ? fmt::format("{} and {}, exponent {:.3g}", base::format_time(entry.latency_s),
                                              base::format_rate(entry.bandwidth), entry.exponent)
                                : fmt::format("table of {} sizes", entry.sizes_bytes.size());
  return fmt::format("  {}: {}, {}\n", name, value, topology::evidence_name(entry.evidence)) +
         wrapped("    ", entry.source);
}

}  // namespace

std::string profile_text(const topology::HardwareProfile& profile) {
  std::string text = fmt::format("{}: {}\n", profile.id, profile.title);
  if (!profile.aliases.empty()) text += wrapped("  aliases: ", joined(profile.aliases, ", "));
  topology::visit_values(profile,
                         [&](const char* section, const char* key, const topology::Value& value, Quantity quantity) {
                           text += wrapped("  " + padded(fmt::format("{}.{}", section, key), 30, Align::left) + " " +
                                               padded(value_text(value.value, quantity), 14, Align::right) + "  " +
                                               padded(topology::evidence_name(value.evidence), 9, Align::left) + "  ",
                                           value.source);
                         });
  for (const topology::CollectiveEntry& entry : profile.collectives) text += entry_text(entry);
  return text;
}

std::string names_text(const std::string& first, const std::string& second, const Names& names) {
  Table table({{first, Align::left}, {second, Align::left}});
  for (const auto& [name, description] : names) table.add({name, description});
  return table.text(0);
}

}  // namespace moeplan::report
