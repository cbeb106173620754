#!/usr/bin/env bash
# Which lines of the kernel bodies (validate/kernels) the host tests do not run: lists them and fails, if there are any.
#   tools/kernel_coverage.sh [BUILD_FOLDER]    needs g++ with gcov, and doctest
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$(mktemp -d)}
mkdir -p "$build"
cd "$build"
flags=(-std=c++20 -O0 --coverage -I"$root/validate" -I"$root/tests/kernels" -I"$root/sim")
sources=("$root/tests/support/doctest_main.cpp" "$root"/tests/kernels/*_test.cpp "$root"/validate/layer/*.cpp
  "$root"/sim/memory/{caching_allocator,expandable_segments,free_blocks,give_back}.cpp "$root"/sim/base/{check,checked,error,units}.cpp)
printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -I{} sh -c 'g++ "$@" -c "{}" -o "$(basename "{}" .cpp).o"' _ "${flags[@]}"
g++ --coverage ./*.o -lfmt -o test_kernels
./test_kernels
gcov -t ./*_test.o 2>/dev/null | awk -v root="$root/validate/kernels/" '
  /^ *-: *0:Source:/ { sub(/.*Source:/, ""); file = index($0, root) == 1 ? substr($0, length(root) + 1) : ""; next }
  file == "" { next }
  match($0, /^ *[0-9#=*]+: *[0-9]+:/) {
    split($0, part, ":")
    place = file ":" part[2] + 0
    seen[place] = 1
    if (part[1] !~ /[#=]/) run[place] = 1
  }
  END {
    for (place in seen) { ++lines; if (!(place in run)) { print "not run: " place; ++missed } }
    printf "%d lines of kernel bodies, %d not run\n", lines, missed
    exit lines == 0 || missed > 0
  }'
