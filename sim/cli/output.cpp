#include "cli/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ostream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace moeplan::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_path(const std::string& where, const std::string& message) {
  throw base::Error(base::Where{where, 0, 0, {}}, message);
}

void require_access(const std::string& where, const std::string& target, int mode) {
  if (::access(target.c_str(), mode) != 0) {
    refuse_path(where, "cannot write: " + std::generic_category().message(errno));
  }
}

}  // namespace

void check_writable(const std::string& option, const std::string& path, const std::vector<std::string>& inputs) {
  const std::string where = option + " " + path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) refuse_path(where, "cannot write: it is a directory");
  if (fs::is_fifo(status) && !path.starts_with("/dev/"))
    refuse_path(where, "cannot write: it is a named pipe, which would wait for a reader");
  fs::path target = path;
  if (fs::exists(status)) {
    require_access(where, path, W_OK);
    if (!fs::is_regular_file(status)) return;  // a pipe or a device is written in place
    const fs::path real = fs::canonical(path, error);
    if (!error) target = real;
  }
  // The new content is written beside the old and renamed, so that the folder must take a file.
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) refuse_path(where, "cannot write: the folder does not exist");
  require_access(where, folder.string(), W_OK | X_OK);
  for (const std::string& input : inputs)
    if (fs::equivalent(path, input, error) && !error) refuse_path(where, "would replace the input '" + input + "'");
}

Output::Output(std::ostream& out, std::string json, const std::vector<std::string>& inputs)
    : out_(out), json_(std::move(json)) {
  if (to_file()) check_writable("--json", json_, inputs);
}

bool Output::open() const { return out_.good(); }

void Output::text(const std::string& text) {
  if (json_alone()) return;
  out_ << text << std::flush;
}

void Output::json(const std::string& json) {
  if (json_alone()) {
    out_ << json << std::flush;
  } else if (to_file()) {
    base::write_file_atomically(json_, json);
  }
}

}  // namespace moeplan::cli
