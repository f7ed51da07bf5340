#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers of tests/fuzz with Clang and runs them on all cores.
#   tools/fuzz.sh SECONDS [NAME...]     each fuzzer (default: all) for this time
#   tools/fuzz.sh --runs N [NAME...]    each fuzzer with N inputs, without a time limit
# Interesting inputs are kept in build/fuzz/corpus; tests/fuzz/seeds/NAME has the first ones.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "fuzz: $*" >&2; exit 1; }

limit=-max_total_time=${1:?"see the head of $0"}
if [ "$1" = --runs ]; then
  limit=-runs=${2:?"see the head of $0"}
  shift
fi
shift
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target tests/fuzz/all
if [ $# -eq 0 ]; then
  for program in build/fuzz/fuzz/*_fuzz; do set -- "$@" "$(basename "$program" _fuzz)"; done
fi

# Debian's absl and protobuf are built without the sanitizers: a container that they fill would
# cause a false report.
export ASAN_OPTIONS=detect_container_overflow=0:malloc_context_size=3
export UBSAN_OPTIONS=print_stacktrace=1
run_one() {
  local name=$1 limit=$2 corpus=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  mkdir -p "$corpus"
  local folders=("$corpus")
  [ -d "tests/fuzz/seeds/$name" ] && folders+=("tests/fuzz/seeds/$name")
  if "build/fuzz/fuzz/${name}_fuzz" -seed=1 "$limit" -timeout=5 \
    -rss_limit_mb=1024 -artifact_prefix="build/fuzz/$name-" "${folders[@]}" >"$log" 2>&1; then
    echo "fuzz: $name: $(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "$log" | tail -1)s"
  else
    tail -40 "$log" >&2
    echo "fuzz: $name failed; the whole log is $log" >&2
    return 1
  fi
}
export -f run_one
printf '%s\n' "$@" | xargs -P "$(nproc)" -I NAME bash -c 'run_one NAME '"$limit" ||
  fail "see above; the input that failed is build/fuzz/NAME-..."
echo "fuzz: no findings"
