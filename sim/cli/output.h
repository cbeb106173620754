#pragma once
#include <iosfwd>
#include <string>
#include <vector>

namespace moeplan::cli {

// Where the results of a command go: text to standard output, JSON to the file of --json, or JSON alone to standard
// output.
class Output {
 public:
  // Throws base::Error when `json` ("" none, "-" standard output, else a path) cannot be written, or is one of
  // `inputs`: seen before long work, not after it.
  Output(std::ostream& out, std::string json, const std::vector<std::string>& inputs);
  bool wants_json() const { return !json_.empty(); }
  bool to_file() const { return wants_json() && json_ != "-"; }
  bool json_alone() const { return json_ == "-"; }
  // False once standard output takes nothing more (a closed pipe, a full disk).
  bool open() const;

  void text(const std::string& text);  // flushed; dropped under --json -
  void json(const std::string& json);  // the file is replaced as a whole

 private:
  std::ostream& out_;
  std::string json_;
};

// Throws base::Error when write_file_atomically could not write to `path`, or would replace one of `inputs`. `option` is
// the one that names it.
void check_writable(const std::string& option, const std::string& path, const std::vector<std::string>& inputs);

}  // namespace moeplan::cli
