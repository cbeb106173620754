#include "json_lines.h"

#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace moeplan::device {
namespace {

// Bytes of the UTF-8 character that begins at `at`, 0 where none does (overlong forms, surrogates and what lies beyond
// U+10FFFF are none).
std::size_t character_bytes(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(at + 1) || !follows(at + 2)) return 0;
    if (first == 0xE0 && byte(at + 1) < 0xA0) return 0;
    if (first == 0xED && byte(at + 1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(at + 1) || !follows(at + 2) || !follows(at + 3)) return 0;
    if (first == 0xF0 && byte(at + 1) < 0x90) return 0;
    if (first == 0xF4 && byte(at + 1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

template <class Value, class Write>
std::string list(const std::vector<Value>& values, const Write& write) {
  std::string text = "[";
  for (const Value& value : values) text += (text.size() > 1 ? "," : "") + write(value);
  return text + "]";
}

}  // namespace

std::string json_string(const std::string& text) {
  std::string result = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) {
      result += "\xEF\xBF\xBD";
      ++at;
      continue;
    }
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escape;
    } else {
      result.append(text, at, bytes);
    }
    at += bytes;
  }
  return result + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) throw std::invalid_argument("a number that is not finite has no JSON form");
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", value);
  return digits;
}

JsonObject& JsonObject::raw(const std::string& key, const std::string& value) {
  fields_ += (fields_.empty() ? "" : ",") + json_string(key) + ":" + value;
  return *this;
}

JsonObject& JsonObject::add(const std::string& key, const std::string& value) { return raw(key, json_string(value)); }

JsonObject& JsonObject::add(const std::string& key, double value) {
  try {
    return raw(key, json_number(value));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(key + ": " + error.what());
  }
}

JsonObject& JsonObject::add(const std::string& key, bool value) { return raw(key, value ? "true" : "false"); }

JsonObject& JsonObject::add(const std::string& key, std::int64_t value) { return raw(key, std::to_string(value)); }

JsonObject& JsonObject::add(const std::string& key, const std::vector<double>& values) {
  return raw(key, list(values, json_number));
}

JsonObject& JsonObject::add(const std::string& key, const std::vector<std::int64_t>& values) {
  return raw(key, list(values, [](std::int64_t value) { return std::to_string(value); }));
}

JsonObject& JsonObject::add(const JsonObject& other) {
  if (!other.fields_.empty()) fields_ += (fields_.empty() ? "" : ",") + other.fields_;
  return *this;
}

void LineWriter::line(const JsonObject& object) {
  out_ << object.text() << '\n';
  out_.flush();
  if (!out_) throw std::runtime_error("the output cannot be written");
  ++lines_;
}

void LineWriter::write(const std::string& record, const JsonObject& fields) {
  line(JsonObject().add("schema", "moeplan.device/1").add("record", record).add(common_).add(fields));
}

void LineWriter::write_schema(const std::string& schema, const JsonObject& fields) {
  line(JsonObject().add("schema", schema).add(common_).add(fields));
}

void LineWriter::finish() { write("end", JsonObject().add("lines", lines_)); }

}  // namespace moeplan::device
