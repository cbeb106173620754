#!/usr/bin/env bash
# Runs the fuzz targets one after the other, each for some seconds from its corpus in tests/fuzz.
# usage: tools/fuzz/run.sh BUILD_FOLDER [SECONDS] [TARGET...]     (a folder configured with clang and -DMOEPLAN_FUZZ=ON)
# New inputs go to BUILD_FOLDER/fuzz/<target>, inputs that end the program to BUILD_FOLDER/fuzz/<target>-found-*.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${1:?usage: run.sh BUILD_FOLDER [SECONDS] [TARGET...]}
seconds=${2:-120}
shift $(($# < 2 ? $# : 2))
targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
  for program in "$build"/tools/fuzz/fuzz_*; do targets+=("${program##*/fuzz_}"); done
fi
status=0
for target in "${targets[@]}"; do
  mkdir -p "$build/fuzz/$target"
  echo "== $target: $seconds s"
  nice "$build/tools/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=16384 -rss_limit_mb=2048 -timeout=20 \
    -print_final_stats=1 -artifact_prefix="$build/fuzz/$target-found-" "$build/fuzz/$target" \
    "$root/tests/fuzz/$target" >"$build/fuzz/$target.log" 2>&1 || status=1
  grep -E 'stat::number_of_executed_units|ERROR|SUMMARY|broken promise' "$build/fuzz/$target.log" || true
done
exit $status
