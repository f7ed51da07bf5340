#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian 12 to generated text: installs missing packages, builds, and runs the demo
# model with two workers. Arguments go to `lockstep generate`:
# tools/quickstart.sh --prompt "The old lighthouse"
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh

install_packages "${lockstep_packages[@]}"
echo "lockstep: building (some minutes the first time)"
cmake --preset cpu -DLOCKSTEP_TESTS=OFF >/dev/null
cmake --build --preset cpu --target lockstep

echo "lockstep: one coordinator, two workers, the demo model"
if [ $# -eq 0 ]; then set -- --prompt "Once upon a time"; fi
build/cpu/bin/lockstep generate --workers 2 "$@"
echo "lockstep: \`build/cpu/bin/lockstep serve --workers 2\` opens a page at http://127.0.0.1:8000"
