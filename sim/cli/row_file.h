#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace moeplan::cli {

// A file that grows by whole lines while a command runs; what stands in it is complete whenever the command is stopped.
class RowFile {
 public:
  // Nothing for an empty path. Throws base::Error when `path` cannot be written or is one of `inputs`; `option` is how
  // messages call it. An old file stays as it is until the first line.
  RowFile(std::string option, std::string path, const std::vector<std::string>& inputs);
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;
  ~RowFile();

  bool wanted() const { return !path_.empty(); }
  // Appends lines, each with its line feed, by one write; does nothing when no file is wanted. Throws base::Error.
  void add(std::string_view lines);

 private:
  [[noreturn]] void fail(const std::string& message) const;
  std::string option_, path_;
  int descriptor_ = -1;
};

}  // namespace moeplan::cli
