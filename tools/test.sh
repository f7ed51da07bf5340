#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything, runs all tests. Arguments go to ctest:
# tools/test.sh -R Golden
# Where there is a compiler of CUDA 13, its kernels are compiled too; tools/gpu_check.sh runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh

install_packages "${lockstep_packages[@]}" "${lockstep_test_packages[@]}"
cmake --preset cpu -DLOCKSTEP_TESTS=ON
cmake --build --preset cpu
ctest --preset cpu -j "$(nproc)" "$@"

if nvcc --version 2>/dev/null | grep -qE "release (1[3-9]|[2-9][0-9])\."; then
  cmake -G Ninja -S . -B build/cuda_kernels -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
    -DLOCKSTEP_WERROR=ON -DLOCKSTEP_TESTS=OFF >/dev/null
  cmake --build build/cuda_kernels --target lockstep_kernels
else
  echo "lockstep: no nvcc of CUDA 13 here: CUDA kernels were tested over the shim, not compiled"
fi
