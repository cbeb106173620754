#!/usr/bin/env bash
# Installs what is missing, builds with warnings as errors, and runs every test.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages doctest-dev librapidcheck-dev
build dev
say "ctest"
log=build/dev/ctest.log status=0
ctest --preset dev --parallel "$(nproc)" --no-tests=error | tee "$log" || status=$?
# Counts last: ctest lists what it skipped (devices that are not there) behind them.
skipped=$(grep -c '\*\*\*Skipped' "$log" || true)
say "$(grep -E '% tests passed' "$log"), of them $skipped skipped for want of a device"
exit "$status"
