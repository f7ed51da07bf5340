#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks for a change: installs missing packages, then runs the stages; tools/check_all.sh runs
# them without limits.
#   tools/test.sh              all stages
#   tools/test.sh asan tsan    these
#   tools/test.sh -R Sharding  the release stage, with these arguments for ctest
# release  builds everything and runs all tests
# lint     clang-format, clang-tidy and lock annotations of the files that the last landing changed
# asan     AddressSanitizer and UndefinedBehaviorSanitizer: parsers, protocol, coordinator, and a
#          sample of the kernels
# tsan     ThreadSanitizer: code that runs in one process
# fuzz     every fuzzer for 20 s
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh

release() {
  cmake --preset cpu -DLOCKSTEP_TESTS=ON
  cmake --build --preset cpu
  ctest --preset cpu -j "$(nproc)" "$@"
  cuda_compiles
}

# If a compiler of CUDA 13 is installed, its kernels are compiled too; tools/gpu_check.sh runs them.
cuda_compiles() {
  if nvcc --version 2>/dev/null | grep -qE "release (1[3-9]|[2-9][0-9])\."; then
    cmake -G Ninja -S . -B build/cuda_kernels -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
      -DLOCKSTEP_WERROR=ON -DLOCKSTEP_TESTS=OFF >/dev/null
    cmake --build build/cuda_kernels --target lockstep_kernels
  else
    echo "test: no nvcc of CUDA 13: CUDA kernels were tested with the shim, not compiled"
  fi
}

lint() { tools/lint.sh --landing --minutes 4; }
asan() { tools/sanitize.sh asan --sample; }
tsan() { tools/sanitize.sh tsan --sample; }
fuzz() { tools/fuzz.sh 20; }

times=()
stage() {
  local begin=$SECONDS
  echo "test: stage $1"
  "$@"
  times+=("$1 $((SECONDS - begin)) s")
}

install_packages "${lockstep_packages[@]}" "${lockstep_test_packages[@]}"
install_python_packages
case "${1-}" in
  -*) release "$@"; exit ;;
  "") stages=(release lint asan tsan fuzz) ;;
  *) stages=("$@") ;;
esac
for name in "${stages[@]}"; do
  case "$name" in
    release | lint | asan | tsan | fuzz) stage "$name" ;;
    *) echo "test: no stage is called $name; see the head of $0" >&2; exit 2 ;;
  esac
done
(IFS=,; echo "test: passed: ${times[*]/#/ }")
