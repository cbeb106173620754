#include <csignal>
#include <iostream>

#include "cli/cli.h"
#include "cli/standard_output.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves early is seen at the stream
  std::ios::sync_with_stdio(false);
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const int status = moeplan::cli::run(arguments, std::cout, std::cerr);
  return moeplan::cli::finish_standard_output(std::cout, std::cerr, status);
}
