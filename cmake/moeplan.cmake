include(${CMAKE_SOURCE_DIR}/cmake/layers.cmake)
include(${CMAKE_SOURCE_DIR}/cmake/unity.cmake)

add_library(moeplan_options INTERFACE)
target_compile_features(moeplan_options INTERFACE cxx_std_20)
target_compile_options(moeplan_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=stringop-overflow>  # a false one, inside fmt 9 at -O3
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MOEPLAN_WERROR}>>:-Werror>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)  # equal bits on machines with and without FMA
target_include_directories(moeplan_options INTERFACE ${CMAKE_SOURCE_DIR}/sim)

# moeplan_library(<folder> [PRIVATE <imported target>...]): every .cpp of sim/<folder> in one static library that
# sees only the folders its row of layers.cmake names. Libraries of others stay private: headers hold std types.
function(moeplan_library folder)
  cmake_parse_arguments(ARG "" "" "PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/sim/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)
    add_library(moeplan_${folder} INTERFACE)
    return()
  endif()
  add_library(moeplan_${folder} STATIC ${sources})
  moeplan_unity(moeplan_${folder})
  target_link_libraries(moeplan_${folder} PUBLIC moeplan_options)
  foreach(dep IN LISTS MOEPLAN_DEPS_${folder})
    target_link_libraries(moeplan_${folder} PUBLIC moeplan_${dep})
  endforeach()
  target_link_libraries(moeplan_${folder} PRIVATE ${ARG_PRIVATE})
endfunction()

# moeplan_test(<folder>): every .cpp of tests/<folder> in one doctest program that links only that library.
function(moeplan_test folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  moeplan_unity(test_${folder})
  target_link_libraries(test_${folder} PRIVATE moeplan_${folder} moeplan_test_main ${ARGN})
  target_compile_definitions(test_${folder} PRIVATE MOEPLAN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(test_${folder} PRIVATE -O0)  # the checks themselves need no speed, their compilation does
  # A name that the runner cannot pass on selects nothing: that is a failure, not a pass.
  doctest_discover_tests(test_${folder} TEST_PREFIX "${folder}: " PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 \\|")
endfunction()
