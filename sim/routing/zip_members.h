#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan::routing {

// A zip archive in memory (libzip). Errors are base::Error that name `file`.
class ZipMembers {
 public:
  // Throws when `bytes`, which must outlive this object, are no whole archive.
  ZipMembers(std::string_view bytes, const std::string& file);
  ~ZipMembers();
  ZipMembers(const ZipMembers&) = delete;
  ZipMembers& operator=(const ZipMembers&) = delete;

  std::vector<std::string> names() const;  // in the order of the archive
  // The content of a member, checked by its checksum; nothing when there is none of that name. Throws when it is
  // encrypted, broken or larger than `limit_bytes`.
  std::optional<std::string> read(const std::string& name, std::int64_t limit_bytes) const;

 private:
  struct Archive;
  Archive* archive_;
  std::string file_;
};

}  // namespace moeplan::routing
