#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the CUDA kernels and runs their tests and benchmark on this machine's GPU: g++, nvcc of
# CUDA 13, CMake and GoogleTest (a package, or its sources in LOCKSTEP_GTEST_SOURCE or
# /usr/src/googletest) are all it takes, no network. Tables and logs go to a folder:
#   tools/gpu_check.sh FOLDER
# Exit code 0: all is well; 1: something failed; 2: built, but there is no GPU to run it on.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check: $*" >&2; exit 1; }

[ $# -eq 1 ] || fail "want one argument, the folder for tables and logs"
mkdir -p "$1"
results=$(cd "$1" && pwd)
for tool in g++ nvcc cmake; do
  command -v "$tool" >/dev/null || fail "needs $tool on PATH"
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
gtest=()
[ -z "${LOCKSTEP_GTEST_SOURCE-}" ] || gtest=("-DLOCKSTEP_GTEST_SOURCE=$LOCKSTEP_GTEST_SOURCE")
jobs=${LOCKSTEP_JOBS:-$(nproc)}
{
  cmake "${generator[@]}" -S . -B build/gpu -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
    -DLOCKSTEP_WERROR=ON "${gtest[@]}"
  cmake --build build/gpu -j "$jobs" --target cuda_kernels_test cuda_bench
} >"$results/build.txt" 2>&1 || { tail -30 "$results/build.txt" >&2; fail "the build failed"; }
echo "gpu_check: built"

if ! build/gpu/bin/cuda_bench --devices >"$results/devices.txt" 2>&1; then
  cat "$results/devices.txt" >&2
  exit 2
fi
cat "$results/devices.txt"

failed=()
# step NAME SECONDS COMMAND...: its output goes to NAME.txt.
step() {
  local name=$1 seconds=$2
  shift 2
  if timeout "$seconds" "$@" >"$results/$name.txt" 2>&1; then
    echo "gpu_check: $name: passed"
  else
    failed+=("$name")
    echo "gpu_check: $name: FAILED with exit code $?; the end of it:"
    tail -30 "$results/$name.txt"
  fi
}

tests=build/gpu/tests/cuda_kernels_test
# The shim's own rows are the other tests' affair.
step tests 150 "$tests" --gtest_brief=1 "--gtest_filter=-*cuda_shim*:Shim*"
grep -hE "SKIPPED|tests ran|PASSED|FAILED" "$results/tests.txt" | tail -5 || true
step kernels 120 build/gpu/bin/cuda_bench
cat "$results/kernels.txt"

if command -v compute-sanitizer >/dev/null; then
  # Slow by a factor of tens: the tests of one call each, and few of the others.
  some="*AroundBlockBorders*:*RowKernelTest.AgreesWithTheReference*:RopeTest.*:EmbedTest.*"
  some="$some:*HeadsFindTheirKvHead*:*SlicesOfColumns*:*EditsAndMask*:SelectRowsTest.*"
  step memcheck 90 compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$tests" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
  step racecheck 90 compute-sanitizer --tool racecheck --error-exitcode 9 \
    "$tests" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
else
  echo "gpu_check: no compute-sanitizer here: memcheck and racecheck left out"
fi

[ ${#failed[@]} -eq 0 ] || fail "failed: ${failed[*]}; see $results"
echo "gpu_check: all passed; tables are in $results"
