#pragma once
#include <exception>
#include <string>
#include <vector>

// The one error type for faults that a user can cause. Everything a user hands in (files, options) is checked with a
// Faults collector, so that all faults of a file are reported in one go. Our own invariants use CHECK (check.h).
namespace moeplan::base {

// A place in something the user wrote. Lines and columns count from 1; 0 means "not known".
// `file` may also be the text of an option ("--set parallel.ep=8").
struct Where {
  std::string file;
  int line = 0;
  int column = 0;
  std::string key;  // dotted key path, such as "parallel.expert_model_parallel_size"; empty when there is none
};

// One fault: where, what was found and what was expected, an optional hint ("did you mean 'h100-sxm'?") and the other
// places that take part (the second file of a disagreement, the first use of a duplicate key).
struct Fault {
  Where where;
  std::string message;
  std::string hint;
  std::vector<Where> also;
};

// "scenarios/a.yaml:12:9: model.experts: expected an integer >= 1, got '0'", then indented lines "hint: ..." and
// "see also FILE:LINE:COLUMN: KEY".
std::string format_fault(const Fault& fault);

class Error : public std::exception {
 public:
  explicit Error(std::vector<Fault> faults);
  explicit Error(Where where, std::string message, std::string hint = {});
  const std::vector<Fault>& faults() const { return faults_; }
  const char* what() const noexcept override { return text_.c_str(); }  // all faults, one after the other

 private:
  std::vector<Fault> faults_;
  std::string text_;
};

// Collects faults; throw_if_any() throws them all as one Error, ordered by file, line and column.
class Faults {
 public:
  void add(Where where, std::string message, std::string hint = {}, std::vector<Where> also = {});
  void add(const Error& error);  // takes over the faults of an error that was caught
  bool empty() const { return faults_.empty(); }
  std::size_t size() const { return faults_.size(); }
  void throw_if_any() const;

 private:
  std::vector<Fault> faults_;
};

}  // namespace moeplan::base
