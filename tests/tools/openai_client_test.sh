#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# openai_client_test.py with the Python of tools/setup.sh, where it made one; else with any.
#   openai_client_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
python=$1/build/python/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$1/tests/tools/openai_client_test.py" "$2/bin/lockstep"
