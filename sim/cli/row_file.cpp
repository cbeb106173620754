#include "cli/row_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace moeplan::cli {

RowFile::RowFile(std::string option, std::string path, const std::vector<std::string>& inputs)
    : option_(std::move(option)), path_(std::move(path)) {
  if (!wanted()) return;
  std::error_code error;
  if (path_ == "-") fail("expected the path of a file");
  if (std::filesystem::is_directory(path_, error)) fail("cannot write: it is a directory");
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    fail("cannot write: the folder does not exist");
  }
  const bool exists = std::filesystem::exists(path_, error);
  const std::string target = exists ? path_ : (folder.empty() ? "." : folder.string());
  if (::access(target.c_str(), exists ? W_OK : W_OK | X_OK) != 0) {
    fail("cannot write: " + std::generic_category().message(errno));
  }
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(path_, input, error) && !error) fail("would replace the input '" + input + "'");
  }
}

RowFile::~RowFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RowFile::fail(const std::string& message) const {
  throw base::Error(base::Where{option_ + " " + path_, 0, 0, {}}, message);
}

void RowFile::add(std::string_view lines) {
  if (!wanted()) return;
  if (descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail("cannot write: " + std::generic_category().message(errno));
  }
  while (!lines.empty()) {
    const ssize_t written = ::write(descriptor_, lines.data(), lines.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write: " + std::generic_category().message(errno));
    lines.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace moeplan::cli
