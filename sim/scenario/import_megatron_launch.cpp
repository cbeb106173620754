#include <algorithm>
#include <array>
#include <string_view>

#include "scenario/import_megatron_given.h"
#include "scenario/import_megatron_shell.h"

// A launch script or a list of arguments.
namespace moeplan::scenario {
namespace {

using Words = std::vector<Text>;

bool is_option(const Text& word) { return word.chars.starts_with("--") && word.chars.size() > 2; }

std::size_t script_of(const Words& words) {
  const auto at = std::find_if(words.begin(), words.end(), [](const Text& w) { return w.chars.ends_with(".py"); });
  return static_cast<std::size_t>(at - words.begin());
}

std::size_t options_behind(const Words& words, std::size_t first) {
  std::size_t count = 0;
  for (std::size_t i = first; i < words.size(); ++i) count += is_option(words[i]) ? 1 : 0;
  return count;
}

// The command that starts a .py with the most options; the number of commands where there is none.
std::size_t launching_command(const Shell& shell) {
  std::size_t best = shell.commands.size(), most = 0;
  for (std::size_t c = 0; c < shell.commands.size(); ++c) {
    const std::size_t count = options_behind(shell.commands[c], script_of(shell.commands[c]));
    if (count > most) {
      most = count;
      best = c;
    }
  }
  return best;
}

void note(MegatronInput& input, int line, const std::string& message) {
  input.not_understood.push_back({{input.file, line, 0, {}}, message, {}, {}});
}

// "--a 1 2 --b=3": values reach to the next option.
void collect(const Words& words, std::size_t first, MegatronInput& input) {
  for (std::size_t i = first; i < words.size();) {
    if (!is_option(words[i])) {
      if (!words[i].chars.empty()) {
        const bool reference = words[i].chars.starts_with("$");
        note(input, words[i].line(),
             "'" + one_line(words[i].chars) +
                 "' was not understood: " + (reference ? "this file does not set it" : "it belongs to no option"));
      }
      ++i;
      continue;
    }
    MegatronOption option;
    option.line = words[i].line();
    const std::size_t equals = words[i].chars.find('=');
    option.written = words[i].chars.substr(0, equals);
    option.name = option.written.substr(2);
    std::replace(option.name.begin(), option.name.end(), '-', '_');
    if (equals != std::string::npos) option.values.push_back(words[i].chars.substr(equals + 1));
    for (++i; equals == std::string::npos && i < words.size() && !is_option(words[i]); ++i) {
      const std::string& value = words[i].chars;
      // "$EXTRA_ARGS" or "$@" behind the value of an option is no value of it.
      if (value.starts_with("$") && !option.values.empty()) break;
      option.values.push_back(value);
    }
    add_option(input, std::move(option));
  }
}

// The value of the first of `names` among launcher words: "--nnodes 2", "--nnodes=2", "-N 2", "-N2".
std::string launcher_value(const Words& words, const std::vector<std::string_view>& names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i].chars;
    for (const std::string_view name : names) {
      if (word == name) return i + 1 < words.size() ? words[i + 1].chars : "";
      if (word.starts_with(std::string(name) + "=")) return word.substr(name.size() + 1);
      if (name.size() == 2 && word.starts_with(name) && whole_number(word.substr(2))) return word.substr(2);
    }
  }
  return "";
}

void set_gpus(MegatronInput& input, const std::string& a_node, const std::string& nodes, const std::string& from) {
  const std::optional<std::int64_t> per_node = whole_number(a_node), count = whole_number(nodes);
  if (input.gpus > 0 || !per_node || !count || *per_node > (1 << 20) || *count > (1 << 20)) return;
  input.gpus = *per_node * *count;
  input.gpus_from = from;
}

std::string or_one(const std::string& text) { return text.empty() ? "1" : text; }

// In the order of trust: the launcher's words, those of the batch job, a variable WORLD_SIZE.
void find_gpus(const Shell& shell, const Words& launcher, MegatronInput& input) {
  const std::vector<std::string_view> nodes = {"--nnodes", "--nodes", "-N"};
  const std::vector<std::string_view> tasks = {"--ntasks-per-node", "--gpus-per-node"};
  // torchrun: its own number of nodes, whose default is 1; that of the batch job where only the job knows it.
  std::string torchrun_nodes = or_one(launcher_value(launcher, {"--nnodes"}));
  if (torchrun_nodes.starts_with("$")) torchrun_nodes = launcher_value(shell.batch, nodes);
  set_gpus(input, launcher_value(launcher, {"--nproc_per_node", "--nproc-per-node"}), torchrun_nodes,
           "nproc_per_node x nnodes of the launcher");
  const bool torchrun = !launcher_value(launcher, {"--nproc_per_node", "--nproc-per-node"}).empty();
  if (!torchrun) {
    set_gpus(input, launcher_value(launcher, {"--ntasks", "-n", "-np"}), "1", "tasks of the launcher");
    set_gpus(input, launcher_value(launcher, tasks), launcher_value(launcher, nodes),
             "tasks and nodes of the launcher");
    set_gpus(input, launcher_value(shell.batch, {"--ntasks", "-n"}), "1", "#SBATCH lines");
    set_gpus(input, launcher_value(shell.batch, tasks), launcher_value(shell.batch, nodes), "#SBATCH lines");
  }
  for (const ShellVariable& variable : shell.variables) {
    if (variable.name == "WORLD_SIZE" && variable.values.size() == 1) {
      set_gpus(input, variable.values.front().chars, "1", "WORLD_SIZE");
    }
  }
}

bool has_options(const ShellVariable& variable) {
  return std::any_of(variable.values.begin(), variable.values.end(),
                     [](const Text& text) { return text.chars.find("--") != std::string::npos; });
}

void note_conditions(const Shell& shell, MegatronInput& input) {
  if (shell.conditions.empty()) return;
  std::string lines;
  for (const int line : shell.conditions) lines += (lines.empty() ? "" : ", ") + std::to_string(line);
  note(input, shell.conditions.front(), "conditions are not evaluated, every branch is read; lines " + one_line(lines));
}

}  // namespace

MegatronInput read_megatron_launch(const std::string& text, const std::string& file) {
  const Shell shell = read_shell(text, file);
  MegatronInput input;
  input.file = file;
  note_conditions(shell, input);
  const std::size_t launching = launching_command(shell);
  Words words, launcher;
  if (launching < shell.commands.size()) {
    const Words& command = shell.commands[launching];
    const auto script = command.begin() + static_cast<std::ptrdiff_t>(script_of(command));
    launcher.assign(command.begin(), script);
    words.assign(script + 1, command.end());
    for (std::size_t c = 0; c < shell.commands.size(); ++c) {
      const Words& other = shell.commands[c];
      if (c == launching) continue;
      if (is_option(other.front())) {
        note(input, other.front().line(),
             "'" + one_line(other.front().chars) + "' stands outside of the launching command");
      } else if (options_behind(other, script_of(other)) > 0) {
        note(input, other.front().line(),
             "a second command that starts a program: only that of line " + std::to_string(command.front().line()) +
                 " is read");
      }
    }
  } else {
    for (const Words& command : shell.commands) words.insert(words.end(), command.begin(), command.end());
    launcher = words;
  }
  for (const ShellVariable& variable : shell.variables) {
    if (variable.used || !has_options(variable)) continue;
    if (launching < shell.commands.size()) {
      note(input, variable.values.front().line(),
           "options in " + variable.name + " are not used by the launching command");
      continue;
    }
    for (const Text& value : variable.values) {
      const Words parts = split_words(value);
      words.insert(words.end(), parts.begin(), parts.end());
    }
  }
  collect(words, 0, input);
  find_gpus(shell, launcher, input);
  return input;
}

}  // namespace moeplan::scenario
