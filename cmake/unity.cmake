# MOEPLAN_UNITY=ON compiles up to twelve files of a folder at once: headers are read and templates made once for all of
# them, which takes a third off a clean build. Names in unnamed namespaces are then shared by a folder, so two files
# may not give one name two meanings: rename one, or move what both need into a header. The presets clang, asan and
# tsan compile each file by itself and show a header that a file uses and does not include.
set(MOEPLAN_FILES_AT_ONCE 12)
# Files that share names with others of their folder and are compiled by themselves.
set(MOEPLAN_ALONE
  sim/topology/cluster.cpp
  sim/engine/lockstep.cpp sim/engine/plan_source.cpp sim/engine/step_template.cpp
  sim/search/uncertainty.cpp sim/search/validate.cpp sim/search/validate_summary.cpp
  tests/calibrate/collective_fit_test.cpp tests/calibrate/device_plan_test.cpp tests/calibrate/fit_test.cpp
  tests/plan/precision_test.cpp tests/plan/side_streams_test.cpp tests/plan/static_memory_test.cpp
  tests/plan/weight_gradient_test.cpp
  tests/policy/lrmoe_test.cpp tests/policy/replicate_test.cpp)

function(moeplan_unity target)
  if(NOT MOEPLAN_UNITY OR target STREQUAL moeplan_plan)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MOEPLAN_FILES_AT_ONCE})
  get_target_property(sources ${target} SOURCES)
  foreach(file IN LISTS MOEPLAN_ALONE)
    if("${CMAKE_SOURCE_DIR}/${file}" IN_LIST sources)
      set_source_files_properties(${CMAKE_SOURCE_DIR}/${file} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()
