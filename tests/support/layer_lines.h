#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

// Lines as moeplan-device layer writes them, for tests of what reads them: no run of a device.
namespace moeplan::test {

// A layer of 64 tokens, hidden 64, 4 experts of 32, top-2, all experts alike; `fields` replace or add raw JSON values.
// Samples that are not given are the time that is, and the highest of the peaks is that of both.
inline std::string layer_line(const std::map<std::string, std::string>& fields = {}) {
  std::map<std::string, std::string> all = {{"schema", "\"moeplan.layer/1\""},
                                            {"program", "\"moeplan-device 0.1.0\""},
                                            {"gpu", "\"NVIDIA H200\""},
                                            {"driver", "\"580.95.05\""},
                                            {"cuda", "\"13.0\""},
                                            {"tokens", "64"},
                                            {"hidden", "64"},
                                            {"ffn", "32"},
                                            {"experts", "4"},
                                            {"top_k", "2"},
                                            {"distribution", "\"uniform\""},
                                            {"chunks", "1"},
                                            {"backward", "\"kept\""},
                                            {"retention", "1"},
                                            {"chunk_rows", "[32,32,32,32]"},
                                            {"library", "\"cuBLAS grouped 13.1.0\""},
                                            {"steps", "3"},
                                            {"forward_us", "100"},
                                            {"backward_us", "200"},
                                            {"forward_uncertainty", "0.01"},
                                            {"backward_uncertainty", "0"},
                                            {"forward_samples_us", "[101,100,99]"},
                                            {"backward_samples_us", "[200,200,200]"},
                                            {"forward_peak_bytes", "77824"},
                                            {"backward_peak_bytes", "86016"},
                                            {"peak_allocated_bytes", "86016"},
                                            {"peak_reserved_bytes", "2097152"}};
  for (const auto& [key, value] : fields) all[key] = value;
  for (const std::string direction : {"forward", "backward"}) {
    const auto time = fields.find(direction + "_us");
    if (time == fields.end() || time->second.empty() || fields.count(direction + "_samples_us") > 0) continue;
    all[direction + "_samples_us"] = "[" + time->second + "," + time->second + "," + time->second + "]";
  }
  if (fields.count("peak_allocated_bytes") == 0)
    all["peak_allocated_bytes"] = std::to_string(
        std::max(std::atoll(all["forward_peak_bytes"].c_str()), std::atoll(all["backward_peak_bytes"].c_str())));
  std::string line;
  for (const auto& [key, value] : all)
    if (!value.empty()) line += (line.empty() ? "{\"" : ",\"") + key + "\":" + value;  // an empty value leaves it out
  return line + "}\n";
}

inline std::string device_line() {
  return R"({"schema":"moeplan.device/1","record":"device","gpu":"NVIDIA H200"})"
         "\n";
}
// Behind `lines` lines, the device line among them.
inline std::string end_line(int lines) {
  return R"({"schema":"moeplan.device/1","record":"end","lines":)" + std::to_string(lines) + "}\n";
}

inline std::string json_list(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

}  // namespace moeplan::test
