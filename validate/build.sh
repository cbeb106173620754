#!/usr/bin/env bash
# Builds moeplan-device alone, with nvcc and a C++17 library: nothing of the simulator, no CMake.
#   validate/build.sh [OUTPUT [ARCHITECTURES]]    OUTPUT (moeplan-device); ARCHITECTURES: native, or a list "80 90a"
# NCCL is used where its header and library are found (NCCL_HOME, the toolkit, the system).
set -euo pipefail
usage() { sed -n '2,5s/^# \?//p' "${BASH_SOURCE[0]}"; }
case "${1:-}" in
  -h | --help) usage && exit 0 ;;
  -*)
    echo "error: unknown option '$1'" >&2
    usage >&2
    exit 2
    ;;
esac
if [ $# -gt 2 ]; then
  echo "error: expected at most OUTPUT and ARCHITECTURES, got $# words" >&2
  usage >&2
  exit 2
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=${1:-moeplan-device}
architectures=${2:-native}

nvcc=${CUDACXX:-}
if [ -n "$nvcc" ] && ! command -v "$nvcc" >/dev/null; then
  echo "error: CUDACXX: '$nvcc' is no program that can be run" >&2
  exit 2
fi
for folder in "${CUDA_PATH:-}" "${CUDA_HOME:-}"; do
  [ -n "$nvcc" ] || [ -z "$folder" ] || [ ! -x "$folder/bin/nvcc" ] || nvcc=$folder/bin/nvcc
done
[ -n "$nvcc" ] || nvcc=$(command -v nvcc || true)
for candidate in /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc; do
  [ -n "$nvcc" ] || [ ! -x "$candidate" ] || nvcc=$candidate
done
if [ -z "$nvcc" ]; then
  echo "no CUDA compiler: looked at CUDACXX, CUDA_PATH, CUDA_HOME, PATH, /usr/local/cuda*, /opt/cuda" >&2
  exit 2
fi

if ! "$nvcc" --version 2>/dev/null | grep -q NVIDIA; then
  echo "error: '$nvcc' is no nvcc: it does not say so of itself" >&2
  exit 2
fi

targets=()
if [[ ! "$architectures" =~ ^(native|[0-9]+[af]?( +[0-9]+[af]?)*\ *)$ ]]; then
  echo "error: ARCHITECTURES: expected native, or numbers such as '80 90a', got '$architectures'" >&2
  exit 2
fi
if [ "$architectures" = native ]; then
  targets=(-arch=native)
else
  for architecture in $architectures; do targets+=(-gencode "arch=compute_$architecture,code=sm_$architecture"); done
fi

# Compiled one file at a time, as many at once as there are cores.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-O2 -std=c++17 -I"$root")
libraries=(-lcublasLt -lcublas -ldl)
if printf '#include <nccl.h>\nint main() { int v = 0; return ncclGetVersion(&v); }\n' >"$work/probe.cpp" &&
  "$nvcc" ${NCCL_HOME:+-I"$NCCL_HOME/include" -L"$NCCL_HOME/lib"} "$work/probe.cpp" -o "$work/probe" -lnccl >/dev/null 2>&1; then
  flags+=(-DMOEPLAN_HAVE_NCCL ${NCCL_HOME:+-I"$NCCL_HOME/include"})
  libraries+=(${NCCL_HOME:+-L"$NCCL_HOME/lib"} -lnccl)
else
  echo "no NCCL found: built without the command collectives" >&2
fi
export nvcc work
compile() {
  local source=$1 object
  shift
  object=$work/$(basename "$source").o
  "$nvcc" "$@" -c "$source" -o "$object"
}
export -f compile
printf '%s\0' "$root"/device/*.cpp "$root"/device/*.cu "$root"/layer/*.cpp |
  xargs -0 -P "$(nproc)" -I{} bash -c 'compile "$@"' _ {} "${flags[@]}" "${targets[@]}"
"$nvcc" "${targets[@]}" "$work"/*.o -o "$output" "${libraries[@]}"
