#!/usr/bin/env bash
# What quickstart.sh and test.sh share: packages, configure, build. Sourced, not run.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

say() { printf '== %s\n' "$*"; }

# Debian packages that the build needs; only the missing ones are installed.
install_packages() {
  local wanted=(g++ cmake ninja-build libboost-graph-dev libeigen3-dev libcli11-dev libyaml-cpp-dev libfmt-dev
                nlohmann-json3-dev libzstd-dev libzip-dev "$@")
  local missing=() package
  for package in "${wanted[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "packages: all in place"
    return
  fi
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "error: need root or sudo to install: ${missing[*]}" >&2; exit 2; }
    sudo=(sudo)
  fi
  say "packages: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build <preset>: configures once, then builds what changed.
build() {
  local preset=$1 log="build/$1/setup.log"
  mkdir -p "build/$preset"
  say "configuring and building into build/$preset (log: $log)"
  if ! { cmake --preset "$preset" && cmake --build --preset "$preset"; } >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "error: the build failed; the whole log is $log" >&2
    exit 3
  fi
}
