#!/usr/bin/env bash
# From a bare Debian 12 to the first answer: installs what is missing, builds, then runs the main job on the shipped scenario.
# Ends with the status of `moeplan run`: 0 the scenario fits, 1 it does not.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

scenario=scenarios/quickstart.yaml
install_packages
build release
moeplan=build/release/moeplan

say "moeplan run $scenario"
status=0
"$moeplan" run "$scenario" || status=$?
[ "$status" -le 1 ] || exit "$status"
say "moeplan chunks $scenario"
"$moeplan" chunks "$scenario" || [ $? -eq 1 ] || exit 3
say "moeplan compare $scenario"
"$moeplan" compare "$scenario" || [ $? -eq 1 ] || exit 3
say "the program is $moeplan; README.md shows how to plan a run of your own"
exit "$status"
