#include <filesystem>
#include <ostream>
#include <system_error>

#include "base/file.h"
#include "cli/commands.h"
#include "model/import_hf.h"

namespace moeplan::cli {
namespace {

// To the file of -o, which must not be the input, or to standard output.
void write_result(const Context& context, const std::string& text) {
  const Arguments& arguments = context.arguments;
  if (arguments.out.empty()) {
    context.output.text(text);
    return;
  }
  std::error_code error;
  if (std::filesystem::equivalent(arguments.out, arguments.input, error) && !error) {
    throw base::Error({"-o " + arguments.out, 0, 0, {}}, "would replace the input");
  }
  base::write_file_atomically(arguments.out, text);
}

}  // namespace

int import_hf_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const config::Node root = config::load_yaml(arguments.input);
  const std::string name = arguments.name.empty() ? model::model_name_of(arguments.input) : arguments.name;
  base::Faults faults;
  std::vector<base::Fault> warnings;
  const model::Architecture arch = model::import_hf(root, name, faults, warnings);
  for (const base::Fault& warning : warnings) context.err << "warning: " << base::format_fault(warning) << "\n";
  faults.throw_if_any();
  write_result(context, model::model_yaml(arch));
  return 0;
}

}  // namespace moeplan::cli
