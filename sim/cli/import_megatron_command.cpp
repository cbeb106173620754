#include <filesystem>
#include <ostream>
#include <sstream>
#include <system_error>

#include "base/file.h"
#include "cli/commands.h"
#include "config/data.h"
#include "model/import_hf.h"
#include "scenario/import_megatron.h"

namespace moeplan::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kMostScriptBytes = std::int64_t{1} << 26;

// Where the two results go, and how the scenario names its model.
struct Targets {
  std::string scenario, model, reference;
};

[[noreturn]] void refuse_option(const std::string& option, const std::string& message) {
  throw base::Error({option, 0, 0, {}}, message);
}

Targets targets_of(const Arguments& arguments, const std::string& name) {
  Targets targets{arguments.out, arguments.model_out, {}};
  const fs::path out(arguments.out);
  if (targets.model.empty() && !out.empty()) {
    targets.model = (out.parent_path() / (out.stem().string() + ".model.yaml")).string();
  }
  for (const auto& [option, path] : {std::pair("-o ", targets.scenario), std::pair("--model-out ", targets.model)}) {
    std::error_code error;
    if (!path.empty() && fs::equivalent(path, arguments.input, error) && !error) {
      refuse_option(option + path, "would replace the input");
    }
  }
  if (targets.model.empty()) {
    targets.reference = "models/" + name + ".yaml";
    return targets;
  }
  const fs::path model = fs::absolute(targets.model).lexically_normal();
  const fs::path scenario = fs::absolute(out.empty() ? fs::path("scenario.yaml") : out).lexically_normal();
  if (!out.empty() && model == scenario) refuse_option("--model-out " + targets.model, "names the file of -o");
  // From the folder of the scenario, where its readers start; always with a '/', so that it is seen to be a path.
  targets.reference = "./" + model.lexically_relative(scenario.parent_path()).string();
  return targets;
}

std::string as_comment(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) result += "# " + line + "\n";
  return result;
}

}  // namespace

int import_megatron_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const std::string name = arguments.name.empty() ? model::model_name_of(arguments.input) : arguments.name;
  const Targets targets = targets_of(arguments, name);
  config::Catalogue("hw_profiles", {}).load(arguments.hardware, ".", {"--hardware " + arguments.hardware, 0, 0, {}});
  scenario::MegatronSettings settings;
  settings.name = name;
  settings.model_file = targets.reference;
  settings.hardware = arguments.hardware;
  settings.gpus = arguments.gpus;
  settings.vocabulary = arguments.vocabulary;
  const scenario::MegatronScenario result =
      scenario::import_megatron(base::read_text(arguments.input, kMostScriptBytes), arguments.input, settings);
  for (const base::Fault& warning : result.warnings) context.err << "warning: " << base::format_fault(warning) << "\n";
  std::string text = result.scenario;
  if (result.model.empty()) {
    if (!arguments.model_out.empty()) context.err << "note: the model is a shipped one: no model file is written\n";
  } else if (!targets.model.empty()) {
    base::write_file_atomically(targets.model, result.model);
  } else {
    text += "\n# --- " + targets.reference + "\n" + as_comment(result.model);
  }
  if (targets.scenario.empty()) {
    context.output.text(text);
  } else {
    base::write_file_atomically(targets.scenario, text);
  }
  return 0;
}

}  // namespace moeplan::cli
