#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests under AddressSanitizer and UndefinedBehaviorSanitizer, then the tests of what runs on
# threads of one process under ThreadSanitizer.
#   tools/sanitize.sh [asan|tsan] [JOBS]     both, and as many jobs as cores, where not given
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "sanitize: $*" >&2; exit 1; }

# gRPC and absl are built without TSan, which sees no order between threads that meet through them:
# these programs use neither. serve_test and the commands run under ASan alone.
tsan_programs=(
  base_test kernels_test collectives_test worker_test golden_test bits_test engine_test
  scheduler_test sampling_test engine_in_process_test)

asan() {
  cmake --preset asan >/dev/null
  cmake --build --preset asan -j "$jobs"
  ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=print_stacktrace=1 ctest --preset asan -j "$jobs"
}

tsan() {
  cmake --preset tsan >/dev/null
  cmake --build --preset tsan -j "$jobs" --target "${tsan_programs[@]}"
  local program failed=()
  for program in "${tsan_programs[@]}"; do
    echo "sanitize: $program under TSan"
    TSAN_OPTIONS=second_deadlock_stack=1 "build/tsan/tests/$program" --gtest_brief=1 ||
      failed+=("$program")
  done
  [ ${#failed[@]} -eq 0 ] || fail "TSan: failed: ${failed[*]}"
}

jobs=${2:-$(nproc)}
case "${1-}" in
  asan) asan ;;
  tsan) tsan ;;
  "") asan; tsan ;;
  *) fail "$1: wanted asan, tsan or nothing" ;;
esac
echo "sanitize: no findings"
