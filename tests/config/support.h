#pragma once
#include <string>

#include "base/error.h"

// The text of the base::Error that `function` throws, or "no error".
template <typename Function>
std::string message_of(Function function) {
  try {
    function();
  } catch (const moeplan::base::Error& error) {
    return error.what();
  }
  return "no error";
}
