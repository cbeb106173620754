#pragma once
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

// JSON lines of the device program: one object a line, fields in the order in which they were added.
// Plain C++17 without CUDA.
namespace moeplan::device {

// `text` as a JSON string with its quotes; bytes below 0x20 as \u00XX, bytes that are no UTF-8 as U+FFFD.
std::string json_string(const std::string& text);
// Nine significant digits. Throws std::invalid_argument for what JSON has no number for (NaN, infinities).
std::string json_number(double value);

class JsonObject {
 public:
  JsonObject& add(const std::string& key, const std::string& value);
  JsonObject& add(const std::string& key, const char* value) { return add(key, std::string(value)); }
  JsonObject& add(const std::string& key, double value);
  JsonObject& add(const std::string& key, bool value);
  JsonObject& add(const std::string& key, std::int64_t value);
  JsonObject& add(const std::string& key, int value) { return add(key, std::int64_t{value}); }
  JsonObject& add(const std::string& key, const std::vector<double>& values);
  JsonObject& add(const std::string& key, const std::vector<std::int64_t>& values);
  JsonObject& add(const JsonObject& other);  // its fields, after those that are here

  bool empty() const { return fields_.empty(); }
  std::string text() const { return "{" + fields_ + "}"; }

 private:
  JsonObject& raw(const std::string& key, const std::string& value);
  std::string fields_;
};

// Each line is the common fields and then those of the record, and is flushed: a run that is stopped leaves whole
// lines, and no end line.
class LineWriter {
 public:
  explicit LineWriter(std::ostream& out) : out_(out) {}

  // What every line from here on begins with: program, versions, device.
  void set_common(const JsonObject& fields) { common_ = fields; }

  // A record of this program's own schema, "moeplan.device/1". `record` says what the line is: "device", "measurement",
  // "value", "end".
  void write(const std::string& record, const JsonObject& fields);
  // A line of another schema, such as "moeplan.layer/1".
  void write_schema(const std::string& schema, const JsonObject& fields);
  // The last line, with the number of those before it: without one the file was cut.
  void finish();

  std::int64_t lines() const { return lines_; }

 private:
  void line(const JsonObject& object);
  std::ostream& out_;
  JsonObject common_;
  std::int64_t lines_ = 0;
};

}  // namespace moeplan::device
