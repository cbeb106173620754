#include "routing/zip_members.h"

#include <zip.h>

#include <memory>

#include "base/error.h"

namespace moeplan::routing {

struct ZipMembers::Archive {
  zip_t* handle = nullptr;
};

namespace {

[[noreturn]] void fail(const std::string& file, const std::string& message) {
  throw base::Error({file, 0, 0, {}}, message);
}

std::string text_of(zip_error_t& error) {
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

zip_t* open_archive(std::string_view bytes, const std::string& file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) fail(file, "not a zip archive: " + text_of(error));
  zip_t* handle = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (handle == nullptr) {
    zip_source_free(source);
    fail(file, "not a whole zip archive: " + text_of(error));
  }
  zip_error_fini(&error);
  return handle;
}

struct MemberCloser {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

}  // namespace

ZipMembers::ZipMembers(std::string_view bytes, const std::string& file) : archive_(nullptr), file_(file) {
  archive_ = new Archive{open_archive(bytes, file)};
}

ZipMembers::~ZipMembers() {
  zip_discard(archive_->handle);
  delete archive_;
}

std::vector<std::string> ZipMembers::names() const {
  std::vector<std::string> result;
  const zip_int64_t count = zip_get_num_entries(archive_->handle, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive_->handle, static_cast<zip_uint64_t>(i), 0);
    if (name != nullptr) result.emplace_back(name);
  }
  return result;
}

std::optional<std::string> ZipMembers::read(const std::string& name, std::int64_t limit_bytes) const {
  const zip_int64_t index = zip_name_locate(archive_->handle, name.c_str(), 0);
  if (index < 0) return std::nullopt;
  const std::unique_ptr<zip_file_t, MemberCloser> member(
      zip_fopen_index(archive_->handle, static_cast<zip_uint64_t>(index), 0));
  if (!member) fail(file_, "cannot read '" + name + "': " + zip_strerror(archive_->handle));
  // The stated size is not trusted: what comes is counted.
  std::string content;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (true) {
    const zip_int64_t size = zip_fread(member.get(), buffer.data(), buffer.size());
    if (size < 0) fail(file_, "cannot read '" + name + "': " + zip_file_strerror(member.get()));
    if (size == 0) return content;
    if (size > limit_bytes - static_cast<std::int64_t>(content.size())) {
      fail(file_, "'" + name + "' is larger than the limit of " + std::to_string(limit_bytes) + " bytes");
    }
    content.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace moeplan::routing
