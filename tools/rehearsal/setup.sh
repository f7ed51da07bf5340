#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages that only deploy/build_image.sh and tools/rehearse need.
set -euo pipefail
source "$(dirname "$0")/../setup.sh"
install_packages "${lockstep_rehearsal_packages[@]}" haproxy
