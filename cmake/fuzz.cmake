# Fuzzing builds everything with coverage for libFuzzer and with sanitizers that end the program.
if(MOEPLAN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MOEPLAN_FUZZ=ON needs clang (-DCMAKE_CXX_COMPILER=clang++-16 and Debian's libclang-rt-16-dev), got ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
