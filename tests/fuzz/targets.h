#pragma once
#include <span>
#include <string_view>

// The readers, each as a function of bytes: it must take the bytes as what they say or refuse them as the user's fault,
// and ends the program when it does anything else. libFuzzer drives them (tools/fuzz), and the corpora beside this file
// run as ordinary tests (run_corpus.cpp).
namespace moeplan::fuzz {

struct Target {
  std::string_view name;  // also of the folder with its corpus
  void (*run)(std::string_view bytes);
};

std::span<const Target> targets();

// The target of that name; null when there is none.
const Target* find_target(std::string_view name);

}  // namespace moeplan::fuzz
