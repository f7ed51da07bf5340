#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Counts which lines of the product the tests run: a table by folder, and HTML in build/coverage.
# Needs gcovr, which it installs into build/coverage/python.
#   tools/coverage.sh              all programs of tests/, without its scripts: hours
#   tools/coverage.sh PROGRAM...   these test programs, added to what ran before
#   tools/coverage.sh --report     the table and the HTML of what ran before
#   --sample    runs a twenty-fourth of the kernels' tests, and an eighth of the tests of bits and
#               goldens
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "coverage: $*" >&2; exit 1; }

# Folders of the product: their compiled files and headers are counted, the tests' own are not.
folders=(base operators proto checkpoint models sharding worker coordinator tools)

# Prints the number of parts into which a program's tests are cut. A sample runs one part.
parts_of() {
  case "$sample $1" in
    "1 "*kernels_test) echo 24 ;;
    "1 bits_test" | "1 golden_test") echo 8 ;;
    *) echo 1 ;;
  esac
}

# A test that fails, for instance because counting makes it slow, has still run its lines.
run_program() {
  local name=${1##*/} begin=$SECONDS result=passed
  GTEST_TOTAL_SHARDS=$(parts_of "$name") GTEST_SHARD_INDEX=0 "$1" --gtest_brief=1 \
    >"build/coverage/$name.log" 2>&1 || result="failed, see build/coverage/$name.log"
  echo "coverage: $name: $((SECONDS - begin)) s, $result"
}
export -f run_program parts_of

# One process per program: when a process ends, it adds its counts to the files of hundreds of
# objects. A process that is killed adds nothing.
run_tests() {
  cmake --preset coverage >/dev/null
  if [ $# -gt 0 ]; then
    cmake --build --preset coverage --target "$@"
  else
    cmake --build --preset coverage
    find build/coverage -name '*.gcda' -delete
    set -- build/coverage/tests/*_test
    set -- "${@##*/}"
  fi
  printf '%s\n' "$@" |
    xargs -P "$(nproc)" -I PROGRAM bash -c 'run_program build/coverage/tests/PROGRAM'
}

report() {
  local python=build/coverage/python
  [ -x "$python/bin/gcovr" ] ||
    { python3 -m venv "$python" && "$python/bin/pip" install -q gcovr==8.8; } ||
    fail "could not install gcovr into $python"
  local filters=()
  local folder
  for folder in "${folders[@]}"; do filters+=(--filter "$folder/"); done
  mkdir -p build/coverage/html
  # Threads add to counters without locks: a sum may be wrong, but not whether a line ran.
  "$python/bin/gcovr" -r . -j "$(nproc)" "${filters[@]}" --exclude 'tools/bench/' \
    --merge-lines --gcov-ignore-parse-errors=all --csv build/coverage/files.csv \
    --html-nested build/coverage/html/index.html "${folders[@]/#/build/coverage/}" >/dev/null
  # A row per folder of one or two names: lines, and how many of them ran.
  awk -F, '
    function row(name, lines, ran) {
      return sprintf("%-28s %6d lines, %5.1f %% ran", name, lines, 100 * ran / lines)
    }
    NR > 1 {
      n = split($1, part, "/")
      folder = n > 2 ? part[1] "/" part[2] : part[1]
      lines[folder] += $2; ran[folder] += $3; all += $2; all_ran += $3
    }
    END {
      for (folder in lines) print row(folder, lines[folder], ran[folder]) | "sort"
      close("sort")
      print row("all", all, all_ran)
    }' build/coverage/files.csv
  echo "coverage: build/coverage/html/index.html has each line, build/coverage/files.csv each file"
}

export sample=
programs=()
for argument in "$@"; do
  case "$argument" in
    --sample) sample=1 ;;
    --report) report; exit ;;
    -*) fail "must be --sample, --report or a test program, found $argument" ;;
    *) programs+=("$argument") ;;
  esac
done
run_tests "${programs[@]}"
report
