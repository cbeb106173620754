#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/reader.h"

namespace moeplan::scenario {

// Where the values of a scenario stand, by the path of their key, whatever name or option wrote them.
class Places {
 public:
  explicit Places(base::Where root) : root_(std::move(root)) {}
  void set(std::string_view path, base::Where where);
  bool stated(std::string_view path) const;
  // Of the value; where it is not stated, of the nearest mapping above that is, else of the file.
  base::Where where(std::string_view path) const;

 private:
  base::Where root_;
  std::map<std::string, base::Where, std::less<>> places_;
};

// Declares to `reader`, which reads the mapping at `path` ("" for the file), every key that the table knows there, with
// its short names, and notes the places of those that are stated.
void declare_keys(config::Reader& reader, std::string_view path, Places& places);

}  // namespace moeplan::scenario
