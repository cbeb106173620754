#include "scenario/import_megatron_shell.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "scenario/import_megatron_arithmetic.h"

namespace moeplan::scenario {
namespace {

constexpr std::size_t kMostCharacters = std::size_t{1} << 23;  // of all expansions together
constexpr int kMostExpansions = 16;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// The words of one expansion: unquoted text is split at blanks, quoted text is not.
struct Fields {
  std::vector<Text> done;
  Text current;
  bool open = false;
  void add(char c, int line) {
    current.add(c, line);
    open = true;
  }
  void close() {
    if (open) done.push_back(std::move(current));
    current = Text();
    open = false;
  }
};

struct State {
  const std::string& file;
  Shell shell;
  std::size_t characters = 0;
};

class Reader {
 public:
  Reader(const Text& source, State& state, int depth) : source_(source), state_(state), depth_(depth) {
    if (depth > kMostExpansions) fail(source.line(), "nested too deeply");
  }

  void run() {
    while (!end()) statement_part();
    finish_command();
  }

  // All of the source as if in double quotes.
  Text quoted_text() {
    Fields fields;
    while (!end()) quoted_part(fields);
    return fields.current;
  }

  // The default of a reference, whose quotes are no part of it: ${NODES:-"1"}.
  Text default_text() {
    Fields fields;
    while (!end()) {
      if (peek() == '"') {
        double_quotes(fields);
      } else if (peek() == '\'') {
        single_quotes(fields);
      } else {
        quoted_part(fields);
      }
    }
    return fields.current;
  }

 private:
  bool end() const { return at_ >= source_.chars.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.chars.size() ? source_.chars[at_ + ahead] : '\0';
  }
  int line() const { return source_.lines.empty() ? 0 : source_.lines[std::min(at_, source_.lines.size() - 1)]; }
  [[noreturn]] void fail(int at_line, const std::string& message) const {
    throw base::Error({state_.file, at_line, 0, {}}, message);
  }
  void take(Fields& fields) {
    count(1);
    fields.add(peek(), line());
    ++at_;
  }
  void count(std::size_t characters) {
    state_.characters += characters;
    if (state_.characters > kMostCharacters) fail(line(), "variables expand to more text than any launch script has");
  }
  bool continuation() const { return peek() == '\\' && peek(1) == '\n'; }

  void statement_part() {
    const char c = peek();
    if (continuation()) {
      at_ += 2;
    } else if (c == '\n') {
      ++at_;
      finish_command();
      skip_here_document();
    } else if (is_blank(c)) {
      ++at_;
    } else if (c == '#') {
      comment();
    } else if (c == '<' || c == '>' || (c == '&' && peek(1) == '>')) {
      redirection();
    } else if (c == ';' || c == '&' || c == '|' || c == ')' || (c == '(' && command_.empty())) {
      ++at_;
      finish_command();
    } else if (!(command_.empty() && assignment())) {
      add_words(word(true));
    }
  }

  void add_words(const std::vector<Text>& words) {
    static constexpr std::array<std::string_view, 17> kSkipped = {
        "export", "local", "declare", "readonly", "then", "do", "eval", "exec", "time",
        "nohup",  "fi",    "done",    "esac",     "{",    "}",  "!",    "set"};
    static constexpr std::array<std::string_view, 4> kConditions = {"if", "elif", "else", "case"};
    for (const Text& text : words) {
      if (command_.empty() && std::count(kConditions.begin(), kConditions.end(), text.chars) > 0) {
        state_.shell.conditions.push_back(text.line());
      } else if (!command_.empty() || std::count(kSkipped.begin(), kSkipped.end(), text.chars) == 0) {
        command_.push_back(text);
      }
    }
  }

  void finish_command() {
    if (!command_.empty()) state_.shell.commands.push_back(std::move(command_));
    command_.clear();
  }

  void comment() {
    Text text;
    for (; !end() && peek() != '\n'; ++at_) text.add(peek(), line());
    if (!text.chars.starts_with("#SBATCH")) return;
    const std::vector<Text> words = split_words(text);
    state_.shell.batch.insert(state_.shell.batch.end(), words.begin() + 1, words.end());
  }

  void redirection() {
    // The number of a stream ("2>") was read as a word.
    if (at_ > 0 && !command_.empty() && command_.back().chars.size() == 1 &&
        command_.back().chars[0] == source_.chars[at_ - 1]) {
      command_.pop_back();
    }
    std::string sign;
    for (; !end() && std::string_view("<>&|-").find(peek()) != std::string_view::npos; ++at_) sign += peek();
    while (!end() && is_blank(peek()) && peek() != '\n') ++at_;
    const std::vector<Text> target = word(true);
    if (sign.starts_with("<<") && !sign.starts_with("<<<") && !target.empty()) here_document_ = target.front().chars;
  }

  void skip_here_document() {
    if (here_document_.empty()) return;
    while (!end()) {
      std::string text;
      for (; !end() && peek() != '\n'; ++at_) text += peek();
      if (!end()) ++at_;
      const std::size_t first = text.find_first_not_of(" \t");
      if (first != std::string::npos && text.substr(first) == here_document_) break;
    }
    here_document_.clear();
  }

  // NAME=value, NAME+=value, NAME=( words ).
  bool assignment() {
    std::size_t length = 0;
    while (is_name(peek(length))) ++length;
    if (length == 0 || std::isdigit(static_cast<unsigned char>(peek())) != 0) return false;
    const bool adds = peek(length) == '+' && peek(length + 1) == '=';
    if (!adds && peek(length) != '=') return false;
    const std::string name = source_.chars.substr(at_, length);
    at_ += length + (adds ? 2 : 1);
    std::vector<Text> values;
    const bool array = peek() == '(';
    if (array) {
      values = elements();
    } else {
      values = word(false);
      if (values.empty()) values.emplace_back();
    }
    store(name, std::move(values), adds, array);
    return true;
  }

  std::vector<Text> elements() {
    const int first = line();
    std::vector<Text> values;
    ++at_;
    while (true) {
      if (end()) fail(first, "'(' is not closed");
      if (continuation()) {
        at_ += 2;
      } else if (is_blank(peek())) {
        ++at_;
      } else if (peek() == '#') {
        comment();
      } else if (peek() == ')') {
        ++at_;
        return values;
      } else {
        const std::size_t before = at_;
        for (Text& text : word(true)) values.push_back(std::move(text));
        if (at_ == before) ++at_;  // a sign that no word may start with
      }
    }
  }

  void store(const std::string& name, std::vector<Text> values, bool adds, bool array) {
    std::vector<ShellVariable>& all = state_.shell.variables;
    auto found = std::find_if(all.begin(), all.end(), [&](const ShellVariable& v) { return v.name == name; });
    if (found == all.end()) {
      all.push_back({name, std::move(values), false});
    } else if (!adds) {
      found->values = std::move(values);
    } else if (array || found->values.empty()) {
      found->values.insert(found->values.end(), values.begin(), values.end());
    } else {
      found->values.back().add(values.front());
    }
  }

  // One word as written; several where an unquoted reference is split, none where it is empty.
  std::vector<Text> word(bool split) {
    Fields fields;
    int parentheses = 0;
    while (!end()) {
      const char c = peek();
      if (continuation()) {
        at_ += 2;
        continue;
      }
      if (is_blank(c) || c == ';' || c == '<' || c == '>' || (c == '&' && parentheses == 0)) break;
      // Lists of arguments hold layouts ("Et|(tt|)*3L") and patterns ("([0]*3+[1]*58)") without quotes.
      if (c == '|' && (!fields.open || is_blank(peek(1)) || peek(1) == '\0' || peek(1) == '|')) break;
      if (c == ')' && parentheses == 0) break;
      if (c == '(') ++parentheses;
      if (c == ')') --parentheses;
      if (c == '\\') {
        ++at_;
        if (!end()) take(fields);
      } else if (c == '\'') {
        single_quotes(fields);
      } else if (c == '"') {
        double_quotes(fields);
      } else if (c == '$' || c == '`') {
        reference(fields, split, false);
      } else {
        take(fields);
      }
    }
    fields.close();
    return fields.done;
  }

  void single_quotes(Fields& fields) {
    const int first = line();
    ++at_;
    fields.open = true;
    while (!end() && peek() != '\'') take(fields);
    if (end()) fail(first, "a quote (') is not closed");
    ++at_;
  }

  void double_quotes(Fields& fields) {
    const int first = line();
    ++at_;
    fields.open = true;
    while (!end() && peek() != '"') quoted_part(fields);
    if (end()) fail(first, "a quote (\") is not closed");
    ++at_;
  }

  void quoted_part(Fields& fields) {
    if (continuation()) {
      at_ += 2;
    } else if (peek() == '\\' && std::string_view("\"\\$`").find(peek(1)) != std::string_view::npos &&
               peek(1) != '\0') {
      ++at_;
      take(fields);
    } else if (peek() == '$' || peek() == '`') {
      reference(fields, false, true);
    } else {
      take(fields);
    }
  }

  // The text up to the sign that closes what was opened, which is skipped.
  Text enclosed(char opens, char closes) {
    const int first = line();
    Text text;
    for (int depth = 1; !end(); ++at_) {
      if (peek() == closes) --depth;
      if (peek() == opens && opens != closes) ++depth;
      if (depth == 0) {
        ++at_;
        return text;
      }
      count(1);
      text.add(peek(), line());
    }
    fail(first, std::string("'") + opens + "' is not closed");
  }

  void reference(Fields& fields, bool split, bool quoted) {
    const std::size_t start = at_;
    const bool backtick = peek() == '`';
    ++at_;
    std::optional<std::vector<Text>> values;
    if (backtick) {
      enclosed('`', '`');
    } else if (peek() == '(') {
      ++at_;
      const Text inner = enclosed('(', ')');
      if (inner.chars.starts_with("(") && inner.chars.ends_with(")")) values = arithmetic(inner);
    } else if (peek() == '{') {
      ++at_;
      values = braces(enclosed('{', '}'));
    } else if (is_name(peek()) && std::isdigit(static_cast<unsigned char>(peek())) == 0) {
      std::string name;
      for (; is_name(peek()); ++at_) name += peek();
      values = value_of(name);
    } else if (!end() && !is_blank(peek()) && peek() != '"') {
      ++at_;  // $1, $@, $?
    }
    if (values) {
      insert(fields, *values, split, quoted);
      return;
    }
    if (backtick) fields.add('$', source_.lines[start]);  // so that it is seen to be unresolved
    for (std::size_t i = start; i < at_; ++i) {
      count(1);
      fields.add(source_.chars[i] == '\n' ? ' ' : source_.chars[i], source_.lines[i]);
    }
  }

  void insert(Fields& fields, const std::vector<Text>& values, bool split, bool quoted) {
    for (std::size_t v = 0; v < values.size(); ++v) {
      if (v > 0 && (split || quoted)) fields.close();
      if (v > 0 && !split && !quoted) fields.add(' ', values[v].line());
      if (quoted) fields.open = true;
      count(values[v].chars.size());
      for (std::size_t i = 0; i < values[v].chars.size(); ++i) {
        if (split && is_blank(values[v].chars[i])) {
          fields.close();
        } else {
          fields.add(values[v].chars[i], values[v].lines[i]);
        }
      }
    }
  }

  std::optional<std::vector<Text>> value_of(const std::string& name) {
    for (ShellVariable& variable : state_.shell.variables) {
      if (variable.name != name) continue;
      variable.used = true;
      return variable.values;
    }
    return std::nullopt;
  }

  // What stands between ${ and }: a name, an element list, or a name with a default.
  std::optional<std::vector<Text>> braces(const Text& inner) {
    std::size_t length = 0;
    while (length < inner.chars.size() && is_name(inner.chars[length])) ++length;
    std::string rest = inner.chars.substr(length);
    std::optional<std::vector<Text>> values = value_of(inner.chars.substr(0, length));
    if (length == 0 || rest.empty() || rest == "[@]" || rest == "[*]") return length == 0 ? std::nullopt : values;
    const bool also_empty = rest[0] == ':';
    const std::size_t sign = also_empty ? 1 : 0;
    if (sign >= rest.size() || (rest[sign] != '-' && rest[sign] != '=')) return std::nullopt;
    const bool empty =
        values && std::all_of(values->begin(), values->end(), [](const Text& t) { return t.chars.empty(); });
    if (values && !(also_empty && empty)) return values;
    Text fallback;
    for (std::size_t i = length + sign + 1; i < inner.chars.size(); ++i) fallback.add(inner.chars[i], inner.lines[i]);
    return std::vector<Text>{Reader(fallback, state_, depth_ + 1).default_text()};
  }

  // (( a * b )), names with or without '$'. Nothing when a name is not set or the value is no number.
  std::optional<std::vector<Text>> arithmetic(const Text& inner) {
    const Text expanded = Reader(inner, state_, depth_ + 1).quoted_text();
    std::string plain;
    for (std::size_t i = 0; i < expanded.chars.size();) {
      std::string name;
      while (i < expanded.chars.size() && is_name(expanded.chars[i])) name += expanded.chars[i++];
      if (name.empty()) {
        plain += expanded.chars[i++];
      } else if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
        plain += name;
      } else {
        const auto values = value_of(name);
        if (!values || values->size() != 1) return std::nullopt;
        plain += values->front().chars;
      }
    }
    const std::optional<std::int64_t> value = evaluate_arithmetic(plain);
    if (!value) return std::nullopt;
    Text text;
    for (const char c : std::to_string(*value)) text.add(c, inner.line());
    return std::vector<Text>{text};
  }

  const Text source_;
  State& state_;
  int depth_;
  std::size_t at_ = 0;
  std::vector<Text> command_;
  std::string here_document_;
};

// A quoted word that holds a whole command (bash -c "python x.py --a 1") is read as one.
void open_quoted_commands(State& state) {
  std::vector<std::vector<Text>> commands = std::move(state.shell.commands);
  state.shell.commands.clear();
  for (std::vector<Text>& command : commands) {
    std::vector<Text> words;
    for (Text& word : command) {
      const bool command_inside = word.chars.find(".py") != std::string::npos &&
                                  word.chars.find(" --") != std::string::npos &&
                                  std::any_of(word.chars.begin(), word.chars.end(), is_blank);
      if (!command_inside) {
        words.push_back(std::move(word));
        continue;
      }
      const std::size_t before = state.shell.commands.size();
      try {
        Reader(word, state, 1).run();
      } catch (const base::Error&) {  // prose that names a file ("isn't x.py --help"), not a command
        words.push_back(std::move(word));
        continue;
      }
      // The launcher in front of it (srun) belongs to the command that it launches.
      if (state.shell.commands.size() > before) {
        std::vector<Text>& last = state.shell.commands.back();
        last.insert(last.begin(), words.begin(), words.end());
        words.clear();
      }
    }
    if (!words.empty()) state.shell.commands.push_back(std::move(words));
  }
}

}  // namespace

std::vector<Text> split_words(const Text& text) {
  Fields fields;
  for (std::size_t i = 0; i < text.chars.size(); ++i) {
    if (is_blank(text.chars[i])) {
      fields.close();
    } else {
      fields.add(text.chars[i], text.lines[i]);
    }
  }
  fields.close();
  return fields.done;
}

Shell read_shell(const std::string& text, const std::string& file) {
  Text source;
  int line = 1;
  for (const char c : text) {
    if (c != '\r') source.add(c, line);
    if (c == '\n') ++line;
  }
  State state{file, {}, 0};
  Reader(source, state, 0).run();
  open_quoted_commands(state);
  return std::move(state.shell);
}

}  // namespace moeplan::scenario
