#include "base/file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

using namespace moeplan::base;
namespace fs = std::filesystem;

namespace {

// A folder of its own for each test case, removed at the end.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "moeplan_file_test_XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::size_t count() const {
    std::size_t entries = 0;
    for (const auto& entry : fs::directory_iterator(path_)) entries += entry.exists() ? 1 : 0;
    return entries;
  }

 private:
  std::string path_;
};

void put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}

template <typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string read_message(const std::string& path, std::int64_t limit_bytes = 1 << 20) {
  return message_of([&] { read_file(path, limit_bytes); });
}

std::string utf8_message(const std::string& text) {
  return message_of([&] { require_utf8(text, "t"); });
}

// A zstd frame that holds "moeplan\n", by hand after RFC 8878: magic, a header without window and
// checksum (0x20: one byte of content size, 8), one raw block (header 0x000041: last, raw, 8 bytes), the content.
const std::string kFrame = std::string("\x28\xB5\x2F\xFD\x20\x08\x41\x00\x00", 9) + "moeplan\n";

// A frame whose one block repeats a byte 4096 times (RLE block: header = 4096 << 3 | 1 << 1 | 1 = 0x8003), window 2^17
// bytes (descriptor byte 0x38: exponent 7, 2^(10+7)).
const std::string kRunFrame = std::string("\x28\xB5\x2F\xFD\x00\x38\x03\x80\x00z", 10);

}  // namespace

TEST_CASE("a file is read whole, whatever its bytes") {
  const Folder folder;
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += static_cast<char>(i * 7 % 256);
  put(folder / "a", bytes);
  CHECK(read_file(folder / "a") == bytes);
}

TEST_CASE("missing files, folders, empty files and empty names are refused by name") {
  const Folder folder;
  CHECK(read_message(folder / "none") == (folder / "none") + ": cannot read: No such file or directory");
  CHECK(read_message(folder / ".") == (folder / ".") + ": expected a file, found a directory");
  put(folder / "empty", "");
  CHECK(read_message(folder / "empty") == (folder / "empty") + ": the file is empty");
  CHECK(read_message("") == "'': expected the path of a file, got an empty text");
  put(folder / "cut", "x");
  CHECK(read_message((folder / "cut") + std::string("\0y", 2)) ==
        (folder / "cut") + ": a path must not hold a NUL byte");
}

TEST_CASE("a named pipe or a device is refused instead of waited for") {
  CHECK_THROWS_AS(read_file("/dev/zero"), Error);
  const std::string pipe =
      (std::filesystem::temp_directory_path() / ("moeplan-pipe-" + std::to_string(::getpid()))).string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_file(pipe), Error);
  std::filesystem::remove(pipe);
}

TEST_CASE("the limit admits a file of just its size and refuses one byte more") {
  const Folder folder;
  put(folder / "a", "12345678");
  CHECK(read_file(folder / "a", 8) == "12345678");
  CHECK(read_message(folder / "a", 7) == (folder / "a") + ": larger than the limit of 7 bytes");
}

TEST_CASE("a .zst file is decompressed, also when it holds several frames") {
  const Folder folder;
  put(folder / "a.zst", kFrame);
  CHECK(read_file(folder / "a.zst") == "moeplan\n");
  put(folder / "b.zst", kFrame + kRunFrame + kFrame);
  CHECK(read_file(folder / "b.zst") == "moeplan\n" + std::string(4096, 'z') + "moeplan\n");
}

TEST_CASE("more output than one buffer of the decompressor comes out whole") {
  const Folder folder;
  std::string frames;
  for (int i = 0; i < 300; ++i) frames += kRunFrame;  // 300 * 4096 = 1,228,800 bytes from 3,000
  put(folder / "a.zst", frames);
  CHECK(read_file(folder / "a.zst") == std::string(1'228'800, 'z'));
}

TEST_CASE("the limit of a .zst file counts what comes out, not what is stored") {
  const Folder folder;
  put(folder / "a.zst", kRunFrame);
  CHECK(read_file(folder / "a.zst", 4096).size() == 4096);
  CHECK(read_message(folder / "a.zst", 4095) == (folder / "a.zst") + ": larger than the limit of 4095 bytes");
}

TEST_CASE("every truncation of a .zst file is seen") {
  const Folder folder;
  for (std::size_t size = 0; size < kFrame.size(); ++size) {
    put(folder / "a.zst", kFrame.substr(0, size));
    const std::string expected =
        size == 0 ? ": the file is empty" : ": truncated: the zstd data ends in the middle of a frame";
    CAPTURE(size);
    CHECK(read_message(folder / "a.zst") == (folder / "a.zst") + expected);
  }
  put(folder / "a.zst", kFrame + kFrame.substr(0, 5));
  CHECK(read_message(folder / "a.zst").find(": truncated: ") != std::string::npos);
}

TEST_CASE("what is no zstd data is refused under the name .zst, and an empty frame is an empty file") {
  const Folder folder;
  put(folder / "a.zst", "plain text, not compressed");
  CHECK(read_message(folder / "a.zst").find((folder / "a.zst") + ": broken zstd data: ") == 0);
  put(folder / "b.zst", kFrame + "trailing garbage");
  CHECK(read_message(folder / "b.zst").find(": broken zstd data: ") != std::string::npos);
  put(folder / "c.zst", std::string("\x28\xB5\x2F\xFD\x20\x00\x01\x00\x00", 9));  // one empty raw block
  CHECK(read_message(folder / "c.zst") == (folder / "c.zst") + ": the file is empty");
}

TEST_CASE("text must be UTF-8: both sides of each border of the encoding") {
  // 1, 2, 3 and 4 bytes at their ends: U+007F, U+0080, U+07FF, U+0800, U+D7FF, U+E000, U+FFFF, U+10000, U+10FFFF.
  CHECK(utf8_message("\x7F \xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF \xF0\x90\x80\x80 "
                     "\xF4\x8F\xBF\xBF") == "no error");
  // Overlong forms, a surrogate, above U+10FFFF, a lone continuation, a lead without one, bytes that never occur.
  for (const char* bad : {"\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\x80",
                          "\xC2", "\xE2\x82", "\xF0\x9F\x98", "\xF5\x80\x80\x80", "\xFE", "\xFF", "\xC2 "}) {
    CHECK(utf8_message(std::string("ok\nab") + bad) == "t:2:3: not valid UTF-8 text");
  }
}

TEST_CASE("a NUL byte is refused with its place") {
  CHECK(utf8_message(std::string("a\nb\0", 4)) == "t:2:2: a NUL byte, which no text holds");
  const Folder folder;
  put(folder / "a", "x\xFFy");
  CHECK(message_of([&] { read_text(folder / "a"); }) == (folder / "a") + ":1:2: not valid UTF-8 text");
}

TEST_CASE("writing makes or replaces the file and leaves nothing else behind") {
  const Folder folder;
  const std::string content("a\0b\n", 4);
  write_file_atomically(folder / "out", content);
  CHECK(read_file(folder / "out") == content);
  write_file_atomically(folder / "out", "new");
  CHECK(read_file(folder / "out") == "new");
  write_file_atomically(folder / "none", "");
  CHECK(fs::file_size(folder / "none") == 0);
  CHECK(folder.count() == 2);
}

TEST_CASE("a replaced file keeps its permissions, and a link keeps pointing to its file") {
  const Folder folder;
  put(folder / "real", "old");
  REQUIRE(::chmod((folder / "real").c_str(), 0640) == 0);
  fs::create_symlink("real", folder / "link");
  write_file_atomically(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(read_file(folder / "real") == "new");
  struct stat info = {};
  REQUIRE(::stat((folder / "real").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("a device is written into, never replaced") {
  write_file_atomically("/dev/null", "gone");
  CHECK(fs::is_character_file("/dev/null"));
  CHECK(message_of([] { write_file_atomically("/dev/full", "x"); }) ==
        "/dev/full: cannot write: No space left on device");
}

TEST_CASE("a failed write names the path and keeps what was there") {
  const Folder folder;
  CHECK(message_of([&] { write_file_atomically(folder / "no/such/out", "x"); }) ==
        (folder / "no/such/out") + ": cannot write: No such file or directory");
  CHECK(message_of([&] { write_file_atomically(folder / ".", "x"); }) ==
        (folder / ".") + ": cannot write: it is a directory");
  CHECK(message_of([&] { write_file_atomically("", "x"); }) == "'': expected the path of a file, got an empty text");
  CHECK(folder.count() == 0);
}
