#include "targets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "config/document.h"
#include "cost/bytes_matrix.h"
#include "measurements/collective_table.h"
#include "measurements/layer_run.h"
#include "measurements/predict.h"
#include "measurements/profiles.h"
#include "measurements/read_table.h"
#include "model/architecture.h"
#include "model/import_hf.h"
#include "promise.h"
#include "routing/formats.h"
#include "runs/run_scenario.h"
#include "runs/run_table.h"
#include "scenario/import_megatron.h"
#include "scenario/resolve.h"
#include "scenario/stages.h"
#include "topology/collective_entries.h"
#include "topology/hardware.h"
#include "trace_promises.h"

namespace moeplan::fuzz {
namespace {

// What read_text refuses never gets to the parsers of text.
std::string_view text_of(std::string_view bytes) {
  if (bytes.empty()) throw base::Error({"input", 0, 0, {}}, "the file is empty");
  base::require_utf8(bytes, "input");
  return bytes;
}

bool is_utf8(std::string_view bytes) {
  try {
    base::require_utf8(bytes, "input");
    return true;
  } catch (const base::Error&) {
    return false;
  }
}

// Readers of traces tell the first faults, those of YAML files all: no more than a few for each byte.
void trace_taken_or_refused(const std::function<void()>& read) { taken_or_refused(read, routing::kMostFaults); }
void yaml_taken_or_refused(std::string_view bytes, const std::function<void()>& read) {
  taken_or_refused(read, 4 * bytes.size() + 1000);
}

void esft(std::string_view bytes) {
  trace_taken_or_refused([&] {
    std::vector<routing::EsftLayer> layers;
    layers.push_back(routing::parse_esft_layer(text_of(bytes), "input", 1));
    check_trace(routing::combine_esft(std::move(layers), "folder", 0));
  });
}

void counts_csv(std::string_view bytes) {
  trace_taken_or_refused([&] { check_trace(routing::parse_counts_csv(text_of(bytes), "input")); });
}

// A table of runs: a row that becomes a scenario file becomes one that can be parsed.
void runs_csv(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    for (const runs::Run& run : runs::parse_runs(text_of(bytes), "input").runs) {
      const runs::RunScenario mapped = runs::scenario_of(run, {});
      require(mapped.yaml.empty() == (!mapped.faults.empty() || !mapped.missing.empty()),
              "a row has a scenario or says why not");
      if (!mapped.yaml.empty()) config::parse_yaml(mapped.yaml, "input");
    }
  });
}

// A table of timed operations: a row that was taken is predicted, or it is said why not.
void measurements(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    static const topology::HardwareProfile profile = measurements::load_profile("h200-sxm", {}, "input");
    const measurements::MeasurementTable table = measurements::parse_measurements(text_of(bytes), "input");
    for (const measurements::Measurement& row : table.rows) {
      require((row.status == measurements::Status::ok) == row.reason.empty(), "a row is taken or says why not");
      if (row.status != measurements::Status::ok) continue;
      require(row.seconds > 0, "a row that was taken has a time");
      const measurements::Prediction prediction = measurements::predict(row, profile);
      require(prediction.seconds.has_value() == prediction.reason.empty(), "a prediction or a reason");
    }
  });
}

// Runs of layers: what was taken adds up.
void layer_runs(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    const measurements::LayerRunFile file = measurements::parse_layer_runs(text_of(bytes), "input");
    for (const measurements::LayerRun& run : file.runs) {
      require((run.status == measurements::Status::ok) == run.faults.empty(), "a run is taken or says why not");
      if (!run.faults.empty()) continue;
      require(run.forward_s > 0 && run.backward_s > 0, "a run that was taken has times");
      require(std::accumulate(run.chunk_rows.begin(), run.chunk_rows.end(), std::int64_t{0}) == run.tokens * run.top_k,
              "rows of a run that was taken are those of its tokens");
    }
  });
}

void counts_jsonl(std::string_view bytes) {
  trace_taken_or_refused([&] { check_trace(routing::parse_counts_jsonl(text_of(bytes), "input")); });
}

// Each part that a file may be read by.
void npy(std::string_view bytes) {
  for (const char* part : {"", "counts", "routed_experts"}) {
    trace_taken_or_refused([&] { check_trace(routing::parse_npy_trace(bytes, {"input", part})); });
  }
}

void npz(std::string_view bytes) {
  for (const char* part : {"", "counts"}) {
    trace_taken_or_refused([&] { check_trace(routing::parse_npz_trace(bytes, {"input", part})); });
  }
}

void gptoss(std::string_view bytes) {
  trace_taken_or_refused([&] { check_trace(routing::parse_json_trace(text_of(bytes), {"input", ""})); });
}

void olmoe(std::string_view bytes) {
  for (const char* part : {"", "m/c4"}) {
    trace_taken_or_refused([&] { check_trace(routing::parse_json_trace(text_of(bytes), {"input", part})); });
  }
}

void model(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    base::Faults faults;
    const config::Node root = config::parse_yaml(std::string(bytes), "input");
    const model::Architecture arch = model::read_architecture(root, "input", faults);
    faults.throw_if_any();
    require(arch.layer_count() >= 1 && arch.hidden >= 1 && arch.vocab >= 1, "a model that was taken is whole");
    require(arch.moe_layer_count() == 0 || arch.moe.top_k <= arch.moe.experts, "a token chooses experts that exist");
  });
}

void profile(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    base::Faults faults;
    const config::Node root = config::parse_yaml(std::string(bytes), "input");
    const topology::HardwareProfile hardware = topology::read_hardware(root, "input", faults);
    faults.throw_if_any();
    require(!hardware.all().empty(), "a profile that was taken has values");
  });
}

// With the models and traces of tests/data/scenario at hand.
void scenario(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    const std::string folder = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/scenario";
    const config::Node root = config::parse_yaml(std::string(bytes), "input");
    scenario::Options options;
    options.data_dirs = {folder};
    const scenario::Scenario resolved = scenario::resolve_scenario(root, "input", folder, options, nullptr);
    require(resolved.loads != nullptr, "a scenario that was taken has loads");
    require(resolved.microbatches() >= 1, "a step has microbatches");
  });
}

void hf_config(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    base::Faults faults;
    std::vector<base::Fault> warnings;
    const config::Node root = config::parse_yaml(std::string(bytes), "input");
    const model::Architecture arch = model::import_hf(root, "input", faults, warnings);
    faults.throw_if_any();
    require(arch.layer_count() >= 1 && arch.hidden >= 1 && arch.vocab >= 1,
            "a config that was taken makes a whole model");
  });
}

// Two stages; layers and MTP blocks as many as the text itself has, so that texts are taken at all. The string comes
// out of a text, so other bytes do not get here.
void stages(std::string_view bytes) {
  if (!is_utf8(bytes)) return;
  const std::string text(bytes);
  scenario::StageRules rules;
  rules.pp = 2;
  rules.layers = static_cast<std::int64_t>(std::count(text.begin(), text.end(), 't'));
  rules.mtp = static_cast<std::int64_t>(std::count(text.begin(), text.end(), 'm'));
  const auto [map, faults] = scenario::parse_stages(text, rules);
  require(faults.empty() == (map.pp() == 2), "a layout string is taken or refused");
  taken_or_refused(
      [&] {
        base::Faults told;
        for (const auto& [key, message] : faults) told.add({"input", 0, 0, key}, message);
        told.throw_if_any();
      },
      16);
  if (!faults.empty()) return;
  require(map.embedding_on(0) && map.loss_on(1), "the ends stand on their stages");
  require(static_cast<std::int64_t>(map.layers_of(0).size() + map.layers_of(1).size()) == rules.layers,
          "every layer has a stage");
}

config::Node reads_back(const std::string& written) {
  try {
    return config::parse_yaml(written, "written");
  } catch (const base::Error& error) {
    require(false, error.what());
    throw;
  }
}

// What is written must be YAML, and a model file that reads back; the scenario may still be refused (a layout that does
// not fit the model).
void megatron(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    scenario::MegatronSettings settings;
    settings.name = "m";
    settings.model_file = "./m.yaml";
    settings.gpus = 8;
    const scenario::MegatronScenario result = scenario::import_megatron(std::string(text_of(bytes)), "input", settings);
    reads_back(result.scenario);
    if (result.model.empty()) return;
    base::Faults faults;
    model::read_architecture(reads_back(result.model), "m", faults);
    require(faults.empty(), "a model file that was written reads back");
  });
}

// A log or a table: what is taken is whole, and the entries that are written read back.
void nccl_log(std::string_view bytes) {
  yaml_taken_or_refused(bytes, [&] {
    const std::string_view text = text_of(bytes);
    const bool table = measurements::is_collective_csv(text);
    const measurements::CollectiveLog log =
        table ? measurements::read_collective_csv(text, "input", {}) : measurements::read_nccl_log(text, "input", {});
    for (const measurements::CollectiveRow& row : log.rows) {
      require(row.ranks >= 2 && row.nodes >= 0 && !row.collective.empty(), "a row that was taken says what it timed");
      require(row.size_bytes >= 1 && row.time_s > 0, "a row that was taken has a size and a time");
    }
    std::vector<std::string> left_out;
    const std::string yaml = measurements::tables_yaml(measurements::collect(log.rows), {}, left_out);
    base::Faults faults;
    config::Reader reader(reads_back(yaml), faults);
    topology::read_collectives(reader, "collectives", faults);
    require(faults.empty(), "entries that were written read back");
  });
}

void bytes_matrix(std::string_view bytes) {
  taken_or_refused(
      [&] {
        base::Faults faults;
        const cost::BytesMatrix matrix = cost::read_bytes_matrix(text_of(bytes), "input", faults);
        faults.throw_if_any();
        require(matrix.bytes.size() == matrix.ranks * matrix.ranks, "a matrix that was taken is square");
        for (const std::int64_t one : matrix.bytes) require(one >= 0, "bytes are never negative");
      },
      100);
}

constexpr std::array kTargets = {
    Target{"scenario", scenario},
    Target{"model", model},
    Target{"profile", profile},
    Target{"hf_config", hf_config},
    Target{"stages", stages},
    Target{"megatron", megatron},
    Target{"nccl_log", nccl_log},
    Target{"bytes_matrix", bytes_matrix},
    Target{"esft", esft},
    Target{"counts_csv", counts_csv},
    Target{"runs_csv", runs_csv},
    Target{"measurements", measurements},
    Target{"layer_runs", layer_runs},
    Target{"counts_jsonl", counts_jsonl},
    Target{"npy", npy},
    Target{"npz", npz},
    Target{"gptoss", gptoss},
    Target{"olmoe", olmoe},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target* find_target(std::string_view name) {
  const auto found = std::find_if(kTargets.begin(), kTargets.end(), [&](const Target& t) { return t.name == name; });
  return found == kTargets.end() ? nullptr : &*found;
}

}  // namespace moeplan::fuzz
