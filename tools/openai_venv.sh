#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the official openai client into build/openai_venv, for the test that uses it. That test
# is skipped without it.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=build/openai_venv
"$venv/bin/python" -c "import openai" 2>/dev/null && exit
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --retries 1 --timeout 20 openai==3.54.0
