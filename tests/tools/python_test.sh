#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script with the Python that tools/setup.sh made, if any, or else with the system's.
#   python_test.sh SOURCE_FOLDER SCRIPT [ARGUMENT]...
set -euo pipefail
python=$1/build/python/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$1/$2" "${@:3}"
