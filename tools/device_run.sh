#!/usr/bin/env bash
# One run on one GPU: builds moeplan-device, checks it, measures, runs layers, and writes everything into one folder.
#   tools/device_run.sh [FOLDER]            FOLDER: else $OUT, else device_run
# Eight minutes on an H200. MEASURE_SECONDS (200) and LAYER_SECONDS (110) change how long the two long parts may take.
# Files of an earlier run in FOLDER are replaced.
# Exit status: 0 done, 1 something failed (log.txt says what), 2 bad usage or no compiler, 77 no GPU. No setting of the GPU is changed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
case "${1:-}" in -h | --help) usage && exit 0 ;; esac
wrong=0
refuse() {
  echo "error: $*" >&2
  wrong=1
}
[ $# -le 1 ] || refuse "expected one folder, got $# words"
[[ "${1:-}" != -* ]] || refuse "unknown option '$1'"
for name in MEASURE_SECONDS LAYER_SECONDS; do
  value=${!name:-10}
  [[ "$value" =~ ^[1-9][0-9]{0,4}$ ]] || refuse "$name: expected a whole number from 1 to 99999, got '$value'"
done
if [ $wrong -ne 0 ]; then
  usage >&2
  exit 2
fi
out=${1:-${OUT:-device_run}}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
log=$out/log.txt
measure_seconds=${MEASURE_SECONDS:-200}
layer_seconds=${LAYER_SECONDS:-110}
failed=0
begin=$(date +%s)

say() { printf '%4d s  %s\n' $(($(date +%s) - begin)) "$*" | tee -a "$log"; }
: >"$log"

# Machine code for the GPU that is here; without one for all that are known, which shows that they build.
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d '.' | sed 's/^90$/90a/' | tr '\n' ' ')
[[ "$architectures" =~ ^[0-9]+a?\ ([0-9]+a?\ )*$ ]] || architectures="80 90a 100 120"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say "building moeplan-device for $architectures"
"$root/validate/build.sh" "$work/moeplan-device" "$architectures" >>"$log" 2>&1
status=$?
if [ $status -ne 0 ]; then
  tail -n 20 "$log" >&2
  say "the build failed"
  [ $status -eq 2 ] && exit 2
  exit 1
fi

# part NAME SECONDS WORDS...: runs one command of the program with a limit, and goes on whatever it says.
part() {
  local name=$1 limit=$2
  shift 2
  say "$name"
  timeout "$limit" "$@" >>"$log" 2>&1
  local code=$?
  [ $code -eq 0 ] && return 0
  [ $code -eq 77 ] && return 77
  say "$name failed with status $code"
  failed=1
  return $code
}

part probe 30 "$work/moeplan-device" probe --output "$out/probe.jsonl"
if [ $? -eq 77 ]; then
  tail -n 1 "$log" >&2
  rm -f "$out/probe.jsonl"
  exit 77
fi
# Of an earlier run: each file here is of this one, now that there is a device.
rm -f "$out"/{check,measure,layer,attention}.jsonl "$out"/{profile.yaml,commit.txt}
(cd "$root" && git describe --always --dirty 2>/dev/null || echo unknown) >"$out/commit.txt"
part check 60 "$work/moeplan-device" check --output "$out/check.jsonl"
part measure $((measure_seconds + 30)) "$work/moeplan-device" measure --seconds "$measure_seconds" --output "$out/measure.jsonl"
part layer $((layer_seconds + 30)) "$work/moeplan-device" layer --seconds "$layer_seconds" --output "$out/layer.jsonl"
if python3 -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null; then
  part attention 45 python3 "$root/tools/attention.py" --seconds 30 --output "$out/attention.jsonl"
else
  say "attention left out: python3 here has no PyTorch that sees the GPU"
fi

# field NAME: its number in a line of JSON on standard input.
field() { sed -n "s/.*\"$1\":\([0-9.e+-]*\).*/\1/p" | head -n 1; }
# The whole GPU against what is known of an H200: outside these bounds the measurement is wrong, not the GPU.
if [ -s "$out/measure.jsonl" ]; then
  product=$(grep '"op":"fwd","dtype":"bf16","layout":"TN","m":8192,"n":8192,"k":8192' "$out/measure.jsonl" | field time_us)
  copy=$(grep '"kind":"copy","bytes":8589934592' "$out/measure.jsonl" | field time_us)
  ours=$(grep '"kind":"hbm_stream_copy","bytes":8589934592' "$out/measure.jsonl" | field time_us)
  say "$(awk -v product="${product:-0}" -v copy="${copy:-0}" -v ours="${ours:-0}" 'BEGIN {
    if (product > 0) printf "bf16 8192 cubed %.0f TFLOP/s; ", 2 * 8192 ^ 3 / product / 1e6
    if (copy > 0) printf "copy %.2f TB/s; ", 8589934592 / copy / 1e6
    if (ours > 0) printf "copy kernel %.2f TB/s", 8589934592 / ours / 1e6
  }')"
  if grep -q '"gpu":"NVIDIA H200"' "$out/measure.jsonl"; then
    awk -v product="${product:-0}" -v copy="${copy:-0}" 'BEGIN {
      rate = product > 0 ? 2 * 8192 ^ 3 / product / 1e6 : 0
      moved = copy > 0 ? 8589934592 / copy / 1e6 : 0
      exit !(rate >= 770 * 0.97 && rate <= 800 * 1.03 && moved >= 4.0 && moved <= 4.3)
    }' || { say "not what an H200 gives (747 to 824 TFLOP/s, 4.0 to 4.3 TB/s)"; failed=1; }
  fi
fi

# Where the planner is built and runs here, the profile comes with the run.
moeplan=$root/build/release/moeplan
if [ -x "$moeplan" ] && "$moeplan" --version >/dev/null 2>&1; then
  tables=()
  for file in probe measure attention; do [ -s "$out/$file.jsonl" ] && tables+=("$out/$file.jsonl"); done
  part "calibrate fit" 120 "$moeplan" calibrate fit "${tables[@]}" -o "$out/profile.yaml"
else
  say "the planner is not built here: moeplan calibrate fit $out/*.jsonl makes the profile elsewhere"
fi
say "done: $out"
exit $failed
