#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything, runs all tests. Arguments go to ctest:
# tools/test.sh -R Golden
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh

install_packages "${lockstep_packages[@]}" "${lockstep_test_packages[@]}"
cmake --preset cpu -DLOCKSTEP_TESTS=ON
cmake --build --preset cpu
ctest --preset cpu -j "$(nproc)" "$@"
