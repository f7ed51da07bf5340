#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks that a change must pass. Installs what is missing, then runs the stages;
# tools/check_all.sh runs all of them without limits.
#   tools/test.sh              release, lint, and one of the others, which alternate
#   tools/test.sh asan tsan    these stages
#   tools/test.sh -R Sharding  the release stage, with these arguments for ctest
# release  builds everything and runs all tests
# lint     clang-format, clang-tidy and lock annotations: a sixteenth of all files, then those
#          that the last landing changed; subjects of its commits
# asan     AddressSanitizer and UndefinedBehaviorSanitizer: parsers, protocol, models, worker, and a
#          sample of the kernels; asan_coordinator: the coordinator
# tsan     ThreadSanitizer: code that runs in one process
# fuzz     every fuzzer for 20 s
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/setup.sh
source tools/landing.sh

release() {
  install_rehearsal_packages
  cmake --preset cpu -DLOCKSTEP_TESTS=ON
  cmake --build --preset cpu
  # Many tests mostly wait, so the number of tests that run at a time is one more than that of CPUs.
  ctest --preset cpu -j "$(($(nproc) + 1))" "$@" | tee build/cpu/tests.log
  skipped=$(grep -c ' (Skipped)$' build/cpu/tests.log || true)
  cuda_compiles
}

skipped=  # The number of tests that ctest skipped, since this machine lacks what they need.
say_skipped() {
  [ -z "$skipped" ] || echo "test: $skipped tests were skipped: see the end of build/cpu/tests.log"
}

# If a compiler of CUDA 13 is installed, the CUDA kernels and their benchmark are compiled, too. The
# code is PTX, because machine code takes four times as long. tools/check_all.sh compiles to machine
# code, and tools/gpu_check.sh runs it.
cuda_compiles() {
  if nvcc --version 2>/dev/null | grep -qE "release (1[3-9]|[2-9][0-9])\."; then
    cmake -G Ninja -S . -B build/cuda_kernels -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
      -DCMAKE_CUDA_ARCHITECTURES=90-virtual -DLOCKSTEP_WERROR=ON -DLOCKSTEP_TESTS=OFF >/dev/null
    cmake --build build/cuda_kernels --target lockstep_kernels cuda_bench
  else
    echo "test: no nvcc of CUDA 13: CUDA kernels were tested with the shim, not compiled"
  fi
}

lint() {
  tools/subjects.sh
  tools/lint.sh --part --minutes 15
  tools/lint.sh --landing --minutes 3 --late-passes
}
asan() { tools/sanitize.sh asan --sample; }
asan_coordinator() { tools/sanitize.sh asan_coordinator --sample; }
tsan() { tools/sanitize.sh tsan --sample; }
fuzz() { tools/fuzz.sh 20; }

# The stage with a sanitizer for this commit: commits get them in turn.
sanitizer() {
  local all=(asan tsan asan_coordinator fuzz)
  echo "${all[$(commit_count) % 4]}"
}

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
  -*) release "$@"; say_skipped; exit ;;
  "") read -ra stages <<<"release lint $(sanitizer)" ;;
  *) stages=("$@") ;;
esac
for name in "${stages[@]}"; do
  case "$name" in
    release | lint | asan | asan_coordinator | tsan | fuzz) stage "$name" ;;
    *) echo "test: no stage is called $name; see the head of $0" >&2; exit 2 ;;
  esac
done
say_skipped
(IFS=,; echo "test: passed: ${times[*]/#/ }")
