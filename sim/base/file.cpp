#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace moeplan::base {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& message) {
  throw Error(Where{path, 0, 0, {}}, message);
}

std::string system_text(int error) { return std::generic_category().message(error); }

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

File open_for_reading(const std::string& path) {
  if (path.empty()) fail("''", "expected the path of a file, got an empty text");
  // open() takes C strings: bytes after a NUL would be dropped, and another file read than the one named.
  if (path.find('\0') != std::string::npos) fail(path.substr(0, path.find('\0')), "a path must not hold a NUL byte");
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) fail(path, "cannot read: " + system_text(errno));
  // A named pipe without a writer would wait for ever; those that a shell makes for <(command) have one.
  if (S_ISFIFO(info.st_mode) && !path.starts_with("/dev/") && !path.starts_with("/proc/"))
    fail(path, "is a named pipe, expected a file");
  if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode) || S_ISSOCK(info.st_mode)) {
    if (path != "/dev/stdin") fail(path, "is a device, expected a file");
  }
  if (S_ISDIR(info.st_mode)) fail(path, "expected a file, found a directory");
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(path, "cannot read: " + system_text(errno));
  return file;
}

void append_limited(std::string& content, const char* data, std::size_t size, std::int64_t limit_bytes,
                    const std::string& path) {
  if (size > static_cast<std::size_t>(limit_bytes) - content.size()) {
    fail(path, "larger than the limit of " + std::to_string(limit_bytes) + " bytes");
  }
  content.append(data, size);
}

std::size_t read_block(std::FILE* file, std::vector<char>& buffer, const std::string& path) {
  const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), file);
  if (size < buffer.size() && std::ferror(file) != 0) fail(path, "cannot read: " + system_text(errno));
  return size;
}

std::string read_plain(const std::string& path, std::int64_t limit_bytes) {
  const File file = open_for_reading(path);
  std::vector<char> buffer(std::size_t{1} << 18);
  std::string content;
  while (const std::size_t size = read_block(file.get(), buffer, path)) {
    append_limited(content, buffer.data(), size, limit_bytes, path);
  }
  return content;
}

// Streams, so that a small file that expands without end stops at the limit and not at the memory.
std::string read_zstd(const std::string& path, std::int64_t limit_bytes) {
  const File file = open_for_reading(path);
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  if (!context) fail(path, "cannot decompress: out of memory");
  std::vector<char> in_buffer(ZSTD_DStreamInSize());
  std::vector<char> out_buffer(ZSTD_DStreamOutSize());
  std::string content;
  bool any_input = false;
  bool frame_open = false;
  while (const std::size_t size = read_block(file.get(), in_buffer, path)) {
    any_input = true;
    ZSTD_inBuffer input{in_buffer.data(), size, 0};
    bool output_full = false;
    while (input.pos < input.size || output_full) {
      ZSTD_outBuffer output{out_buffer.data(), out_buffer.size(), 0};
      const std::size_t left = ZSTD_decompressStream(context.get(), &output, &input);
      if (ZSTD_isError(left) != 0) fail(path, std::string("broken zstd data: ") + ZSTD_getErrorName(left));
      append_limited(content, out_buffer.data(), output.pos, limit_bytes, path);
      frame_open = left != 0;
      // After the end of a frame a call without input would already ask for the next one: stop there.
      output_full = frame_open && output.pos == output.size;
    }
  }
  if (any_input && frame_open) fail(path, "truncated: the zstd data ends in the middle of a frame");
  return content;
}

// A file descriptor that is closed, and a path that is removed, unless kept.
class Temporary {
 public:
  Temporary(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!kept_) ::unlink(path_.c_str());
  }
  int descriptor() const { return descriptor_; }
  bool close() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return ::close(descriptor) == 0;
  }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  int descriptor_;
  bool kept_ = false;
};

void write_all(int descriptor, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path, "cannot write: " + system_text(errno));
    content.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A pipe or a device (such as /dev/null) must be written into: a rename would put a file in its place.
void write_in_place(const std::string& path, std::string_view content) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path, "cannot write: " + system_text(errno));
  Temporary guard(path, descriptor);
  guard.keep();
  write_all(descriptor, content, path);
  if (!guard.close()) fail(path, "cannot write: " + system_text(errno));
}

}  // namespace

std::string read_file(const std::string& path, std::int64_t limit_bytes) {
  std::string content = path.ends_with(".zst") ? read_zstd(path, limit_bytes) : read_plain(path, limit_bytes);
  if (content.empty()) fail(path, "the file is empty");
  return content;
}

std::string read_text(const std::string& path, std::int64_t limit_bytes) {
  std::string content = read_file(path, limit_bytes);
  require_utf8(content, path);
  return content;
}

void write_file_atomically(const std::string& path, std::string_view content) {
  if (path.empty()) fail("''", "expected the path of a file, got an empty text");
  if (path.find('\0') != std::string::npos) fail(path.substr(0, path.find('\0')), "a path must not hold a NUL byte");
  std::string target = path;
  mode_t mode = 0;
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) fail(path, "cannot write: it is a directory");
    if (!S_ISREG(info.st_mode)) return write_in_place(path, content);
    mode = info.st_mode & 07777;
    std::error_code error;
    // Through a symbolic link: the file it points to is replaced, the link stays.
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (!error) target = real.string();
  }
  std::string temporary_path;
  int descriptor = -1;
  for (int attempt = 0; descriptor < 0; ++attempt) {
    temporary_path = target + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(attempt);
    descriptor = ::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0 && (errno != EEXIST || attempt > 1000)) fail(path, "cannot write: " + system_text(errno));
  }
  Temporary temporary(temporary_path, descriptor);
  if (mode != 0 && ::fchmod(descriptor, mode) != 0) fail(path, "cannot write: " + system_text(errno));
  write_all(descriptor, content, path);
  // EINVAL and ENOTSUP: the file system has no such call; the content is written all the same.
  if (::fsync(descriptor) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail(path, "cannot write: " + system_text(errno));
  if (!temporary.close()) fail(path, "cannot write: " + system_text(errno));
  if (::rename(temporary_path.c_str(), target.c_str()) != 0) fail(path, "cannot write: " + system_text(errno));
  temporary.keep();
}

}  // namespace moeplan::base
