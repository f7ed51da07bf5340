#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All tests under AddressSanitizer and UndefinedBehaviorSanitizer, then the tests of code that runs
# on threads of one process under ThreadSanitizer.
#   tools/sanitize.sh [asan|tsan] [--sample]        default: both
#   tools/sanitize.sh asan_coordinator --sample     the second half of ASan's sample
# --sample: under ASan runs the tests of parsers, protocol, models and the worker without its
# transport, and a twenty-fourth of the kernels' tests; under TSan none of the kernels' tests, an
# eighth of the tests of bits and goldens, and all tests of the other programs.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "sanitize: $*" >&2; exit 1; }

# Tests that do not run under UBSan: it checks an object's type through a pipe, and reports an error
# if no descriptor is left.
without_descriptors=OutOfDescriptors

# Folders of tests/ that the first half of a sample runs completely.
asan_folders=(base operators proto checkpoint models)

# gRPC and absl's mutex are built without TSan, so TSan cannot see synchronization through them. The
# programs below synchronize through neither. serve_test and the commands run only under ASan.
tsan_programs=(
  base_test collectives_test worker_test golden_test bits_test engine_test
  scheduler_test sampling_test engine_in_process_test cluster_core_test cluster_test
  listener_test http_test)

# Prints the number of parts into which a program's tests are cut. A sample runs one part.
parts_of() {
  case "$1" in
    kernels_test) echo 24 ;;
    bits_test | golden_test) echo 8 ;;
    *) echo 1 ;;
  esac
}

# run_program PRESET PROGRAM: its tests, or the sample of them.
run_program() {
  local parts=1 log=build/$1/$2.log begin=$SECONDS
  [ -z "$sample" ] || parts=$(parts_of "$2")
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=0 "build/$1/tests/$2" --gtest_brief=1 >"$log" 2>&1 ||
    { cat "$log"; echo "sanitize: $2 failed under $1"; return 1; }
  echo "sanitize: $2 under $1: $((SECONDS - begin)) s"
}
export -f run_program parts_of

# run_programs PRESET PROGRAM...: on all cores.
run_programs() {
  local preset=$1
  shift
  printf '%s\n' "$@" | xargs -P "$(nproc)" -I PROGRAM bash -c "run_program $preset PROGRAM" ||
    fail "failed under $preset, see above"
}

configure_asan() {
  export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1
  export UBSAN_OPTIONS=print_stacktrace=1
  cmake --preset asan >/dev/null
}

# asan_of_folders FOLDER...: all tests of these folders of tests/, and the programs in $programs.
asan_of_folders() {
  cmake --build --preset asan --target "${programs[@]}" "${@/%//all}"
  local folder
  for folder in "$@"; do
    ctest --test-dir "build/asan/$folder" --output-on-failure -j "$(nproc)" \
      -E "$without_descriptors"
  done
  [ ${#programs[@]} -eq 0 ] || run_programs asan "${programs[@]}"
}

asan() {
  configure_asan
  if [ -n "$sample" ]; then
    programs=(kernels_test worker_test)
    asan_of_folders "${asan_folders[@]/#/tests/}"
  else
    cmake --build --preset asan
    ctest --preset asan -j "$(nproc)" -E "$without_descriptors"
  fi
}

asan_coordinator() {
  configure_asan
  programs=()
  asan_of_folders tests/coordinator
}

tsan() {
  export TSAN_OPTIONS=second_deadlock_stack=1
  # The other programs also run kernels on threads.
  [ -n "$sample" ] || tsan_programs+=(kernels_test)
  cmake --preset tsan >/dev/null
  cmake --build --preset tsan --target "${tsan_programs[@]}"
  run_programs tsan "${tsan_programs[@]}"
}

export sample=
stages=()
for argument in "$@"; do
  case "$argument" in
    asan | asan_coordinator | tsan) stages+=("$argument") ;;
    --sample) sample=1 ;;
    *) fail "must be asan, asan_coordinator, tsan or --sample, found $argument" ;;
  esac
done
[ ${#stages[@]} -gt 0 ] || stages=(asan tsan)
for stage in "${stages[@]}"; do "$stage"; done
echo "sanitize: no findings"
