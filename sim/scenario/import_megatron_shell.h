#pragma once
#include <cctype>
#include <string>
#include <vector>

// The part of the shell that launch scripts are made of: words, quotes, continuations, comments, assignments, arrays,
// and references to variables that the same file sets. Nothing is executed; a reference that the file does not resolve
// stays as written, with its '$'.
namespace moeplan::scenario {

// Characters, each with the line (from 1) where it was written, also when it came through a variable.
struct Text {
  std::string chars;
  std::vector<int> lines;
  void add(char c, int line) {
    chars += c;
    lines.push_back(line);
  }
  void add(const Text& more) {
    chars += more.chars;
    lines.insert(lines.end(), more.lines.begin(), more.lines.end());
  }
  int line() const { return lines.empty() ? 0 : lines.front(); }
};

struct ShellVariable {
  std::string name;
  std::vector<Text> values;  // one, or the elements of an array
  bool used = false;         // something refers to it
};

struct Shell {
  std::vector<std::vector<Text>> commands;  // words, expanded, in order
  std::vector<ShellVariable> variables;     // in order of their first assignment
  std::vector<Text> batch;                  // words of #SBATCH lines
  std::vector<int> conditions;              // lines of if, elif, else and case: not evaluated
};

// Throws base::Error: quotes, braces or parentheses that do not close, text that grows beyond a bound.
Shell read_shell(const std::string& text, const std::string& file);

inline bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::vector<Text> split_words(const Text& text);  // at blanks

}  // namespace moeplan::scenario
