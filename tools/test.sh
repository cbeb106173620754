#!/usr/bin/env bash
# Installs what is missing, builds with warnings as errors, and runs every test.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages doctest-dev librapidcheck-dev
build dev
say "ctest"
ctest --preset dev --parallel "$(nproc)" --no-tests=error
