#pragma once
#include <cstdint>
#include <string>
#include <string_view>

// Reading what a user names, and writing results. Every failure is a base::Error that names the path as the user wrote it.
namespace moeplan::base {

// The whole file as bytes; a name that ends in ".zst" is decompressed (zstd). Refused: missing, a directory, unreadable,
// empty, truncated or broken compression, more than `limit_bytes` after decompression.
std::string read_file(const std::string& path, std::int64_t limit_bytes = std::int64_t{4} << 30);

// As read_file, and refuses text that is not valid UTF-8 (naming line and column) or holds a NUL byte.
std::string read_text(const std::string& path, std::int64_t limit_bytes = std::int64_t{4} << 30);

// Adds nothing when `text` is valid UTF-8 without NUL bytes; else throws an Error with `name`, line and column.
void require_utf8(std::string_view text, const std::string& name);

// Writes to a temporary file beside `path`, then renames: a reader sees the old or the new content, never a part.
void write_file_atomically(const std::string& path, std::string_view content);

}  // namespace moeplan::base
