#pragma once
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

// The command line of the device program: options of one command, read with every fault at once. Plain C++17.
namespace moeplan::device {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Options are declared with the variable that they set, whose value is the default.
class Options {
 public:
  Options& text(const std::string& name, std::string& target, const std::string& help);
  Options& whole(const std::string& name, std::int64_t& target, std::int64_t least, std::int64_t most,
                 const std::string& help);
  Options& real(const std::string& name, double& target, double least, double most, const std::string& help);
  Options& flag(const std::string& name, bool& target, const std::string& help);
  // Some of `known`, with commas between them, each once.
  Options& choices(const std::string& name, std::vector<std::string>& target, const std::vector<std::string>& known,
                   const std::string& help);
  // Whole numbers with commas between them.
  Options& wholes(const std::string& name, std::vector<std::int64_t>& target, std::int64_t least, std::int64_t most,
                  const std::string& help);
  Options& reals(const std::string& name, std::vector<double>& target, double least, double most,
                 const std::string& help);
  // What several options must fulfil together: `faults` gives a line a fault, and is asked where none of `names` had a
  // fault of its own.
  Options& check(const std::vector<std::string>& names, std::function<std::vector<std::string>()> faults);

  // "--name value" or "--name=value". Throws UsageError with one line a fault: an unknown option with the nearest name,
  // an option that stands twice, a missing value, a value out of range,
  // a check that does not hold.
  void parse(const std::vector<std::string>& words) const;
  std::string help() const;  // one line an option

 private:
  struct Option {
    std::string name, kind, help;                        // kind: how help calls the value, empty for a flag
    std::function<std::string(const std::string&)> set;  // what is wrong with a value; empty: nothing, and it is set
  };
  struct Check {
    std::vector<std::string> names;
    std::function<std::vector<std::string>()> faults;
  };
  Options& add(Option option);
  std::vector<Option> options_;
  std::vector<Check> checks_;
};

// The name that differs least from `word`, by at most a third of its letters; empty: none does.
std::string nearest_name(const std::string& word, const std::vector<std::string>& names);

}  // namespace moeplan::device
