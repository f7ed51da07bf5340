#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script with the Python of tools/setup.sh, where it made one; else with any.
#   python_test.sh SOURCE_FOLDER SCRIPT [ARGUMENT]...
set -euo pipefail
python=$1/build/python/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$1/$2" "${@:3}"
