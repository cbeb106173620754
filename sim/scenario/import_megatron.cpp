#include "scenario/import_megatron.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/document.h"
#include "model/import_hf.h"
#include "scenario/import_megatron_sections.h"

namespace moeplan::scenario {
namespace {

// The rules of model files hold for imported ones too.
void check_as_model_file(const model::Architecture& arch, const std::string& file, base::Faults& faults) {
  try {
    base::Faults found;
    model::read_architecture(config::parse_yaml(model::model_yaml(arch), "model file"), arch.id, found);
    found.throw_if_any();
  } catch (const base::Error& error) {
    for (const base::Fault& fault : error.faults()) {
      faults.add({file, 0, 0, {}},
                 "as a model file, " + (fault.where.key.empty() ? "it" : fault.where.key) + ": " + fault.message,
                 fault.hint);
    }
  }
}

// Plain where YAML reads it back as it is, else quoted.
std::string yaml_text(const std::string& text) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool letter =
      !text.empty() &&
      std::string("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/.").find(text[0]) != std::string::npos;
  if (letter && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : one_line(text, text.size()))
    quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

void add_faults(std::string& text, const std::string& title, const std::vector<base::Fault>& faults) {
  if (faults.empty()) return;
  text += "\n# " + title + "\n";
  for (const base::Fault& fault : faults) {
    text += "#   " + (fault.where.line > 0 ? fmt::format("line {}: ", fault.where.line) : "") +
            (fault.where.key.empty() ? "" : fault.where.key + ": ") + fault.message + "\n";
  }
}

// Names in lines of at most 116 columns.
void add_names(std::string& text, const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += "\n# " + title + "\n#  ";
  std::size_t column = 3;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string word = " " + names[i] + (i + 1 < names.size() ? "," : "");
    if (column > 3 && column + word.size() > 116) {
      text += "\n#  ";
      column = 3;
    }
    text += word;
    column += word.size();
  }
  text += "\n";
}

std::string head(const std::string& file, const MegatronSettings& settings,
                 const std::vector<std::string>& assumptions) {
  std::string text =
      "# Imported from " + one_line(file) + " by moeplan import megatron. docs/scenario.md lists all keys.\n";
  text += "#\n# Assumed, because the options do not say it:\n";
  text += "#   hardware: " + one_line(settings.hardware) + " (moeplan list hardware)\n";
  for (const std::string& assumption : assumptions) text += "#   " + assumption + "\n";
  return text + "\n";
}

}  // namespace

MegatronScenario import_megatron(const std::string& text, const std::string& file, const MegatronSettings& settings) {
  const MegatronInput input = read_megatron(text, file);
  base::Faults faults;
  MegatronOptions options(input, faults);
  model::Architecture arch = megatron_model(options, settings);
  const std::int64_t gpus = settings.gpus > 0 ? settings.gpus : input.gpus;
  if (gpus == 0) {
    faults.add({file, 0, 0, {}}, "the number of GPUs is not stated by a launcher, #SBATCH lines or world_size",
               "add --gpus N");
  }
  const std::string sections = megatron_sections(options, arch, gpus);
  faults.throw_if_any();

  const bool stated = arch.vocab > 0;
  const std::string shipped = shipped_model(arch, options.size_or("tensor_model_parallel_size", 1));
  if (arch.vocab == 0) {
    throw base::Error({file, 0, 0, {}}, "the size of the vocabulary is not stated (--vocab-size, --padded-vocab-size)",
                      "add --vocab-size N");
  }
  if (!stated) options.assume("vocabulary: that of " + shipped);
  MegatronScenario result;
  if (shipped.empty()) {
    check_as_model_file(arch, file, faults);
    faults.throw_if_any();
    result.model = model::model_yaml(arch);
  }
  const MegatronOptions::Sorted sorted = options.sort_out();
  result.scenario = head(file, settings, sorted.assumptions);
  result.scenario += "model: " + yaml_text(shipped.empty() ? settings.model_file : shipped) + "\n\n";
  result.scenario += fmt::format("cluster:\n  hardware: {}\n  gpus: {}{}\n\n", yaml_text(settings.hardware), gpus,
                                 settings.gpus > 0 ? "" : "  # " + input.gpus_from);
  result.scenario += sections;
  add_faults(result.scenario, "Not understood:", sorted.not_understood);
  add_faults(result.scenario, "Not supported in this version:", sorted.unsupported);
  add_names(result.scenario, "Ignored, because they have no part in the simulation:", sorted.ignored);
  add_names(result.scenario, "None or False in the run:", input.off);
  result.warnings = sorted.not_understood;
  result.warnings.insert(result.warnings.end(), sorted.unsupported.begin(), sorted.unsupported.end());
  return result;
}

}  // namespace moeplan::scenario
