#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "targets.h"

// run_corpus TARGET FOLDER: feeds every file of the folder, and every file cut at a few places, to the target, without
// libFuzzer. A folder without files is a fault: nothing would have been tested.
int main(int count, char** words) {
  if (count != 3) {
    std::fprintf(stderr, "usage: run_corpus TARGET FOLDER\n");
    return 2;
  }
  const moeplan::fuzz::Target* target = moeplan::fuzz::find_target(words[1]);
  if (target == nullptr) {
    std::fprintf(stderr, "no target '%s'\n", words[1]);
    return 2;
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(words[2])) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  int inputs = 0;
  for (const std::string& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line names the input that ended the program
    for (std::size_t eighth = 0; eighth <= 8; ++eighth, ++inputs) {
      target->run(std::string_view(bytes).substr(0, bytes.size() * eighth / 8));
    }
  }
  std::printf("%d inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
