#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-format and clang-tidy (with Clang's analysis of lock annotations) over C++ files, and
# changes nothing. Each file is checked alone and without precompiled headers, so it must include
# what it uses.
#   tools/lint.sh               what differs from the last commit, and new files
#   tools/lint.sh --landing     what the last landing (landing.sh) changed, and new files
#   tools/lint.sh --part        a sixteenth of all files; the next commit gets another one
#   tools/lint.sh --all         all files (clang-tidy: an hour)
#   tools/lint.sh FILE...
#   --minutes N      begins no further file after N minutes, and fails if files are left
#   --late-passes    passes if files are left: 16 commits later the same part is checked again
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/landing.sh

fail() { echo "lint: $*" >&2; exit 1; }

for tool in clang-format clang-tidy; do
  command -v "$tool" >/dev/null || fail "needs $tool (Debian package $tool)"
done

minutes=1000
since=HEAD
part=
late_passes=
files=()
while [ $# -gt 0 ]; do
  case "$1" in
    --minutes) minutes=${2:?"--minutes N"}; shift ;;
    --all) since= ;;
    --part) since= part=$(($(commit_count) % 16)) ;;
    --late-passes) late_passes=1 ;;
    --landing) since=$(before_landing) ;;
    -*) fail "unknown option $1; see the head of $0" ;;
    *) files+=("$1") ;;
  esac
  shift
done
if [ ${#files[@]} -gt 0 ]; then
  listed=$(printf '%s\n' "${files[@]}")
elif ! git rev-parse --git-dir >/dev/null 2>&1; then
  echo "lint: this is not a git checkout: name the files"
  exit 0
elif [ -n "$since" ]; then
  listed=$(git diff --name-only "$since"; git ls-files --others --exclude-standard)
else
  listed=$(git ls-files --cached --others --exclude-standard)
fi

sources=()  # With headers.
units=()  # Compiled files: clang-tidy sees headers through these.
while read -r file; do
  [ -f "$file" ] || continue  # Removed in this change.
  if [ -n "$part" ]; then
    sum=$(cksum <<<"$file")
    [ $((${sum%% *} % 16)) -eq "$part" ] || continue
  fi
  case "$file" in
    *.cc) sources+=("$file"); units+=("$file") ;;
    *.h) sources+=("$file") ;;
  esac
done <<<"$listed"
[ ${#sources[@]} -gt 0 ] || { echo "lint: no C++ files to check"; exit 0; }

clang-format --dry-run -Werror "${sources[@]}" || fail "run clang-format -i on the files above"

# Headers that protobuf generates must exist.
cmake --preset lint >/dev/null
cmake --build --preset lint --target lockstep_generated >/dev/null
compiled=()
for unit in "${units[@]}"; do
  if grep -qF "\"file\": \"$PWD/$unit\"" build/lint/compile_commands.json; then
    compiled+=("$unit")
  else
    echo "lint: $unit is not part of the build: format only"
  fi
done

late=$(mktemp)
trap 'rm -f "$late"' EXIT
export late
deadline=$(($(date +%s) + minutes * 60))
export deadline
tidy() {
  [ "$(date +%s)" -lt "$deadline" ] || { echo "$1" >>"$late"; return 0; }
  # Clang does not know all of GCC's warning names.
  clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wthread-safety "$1"
}
export -f tidy
printf '%s\n' "${compiled[@]}" | xargs -r -P "$(nproc)" -I UNIT bash -c 'tidy UNIT' ||
  fail "clang-tidy found the faults above"
if [ -s "$late" ]; then
  left="clang-tidy had no time for $(wc -l <"$late") of ${#compiled[@]} files"
  [ -n "$late_passes" ] || fail "$left: give it more --minutes"
  echo "lint: $left"
fi
echo "lint: ${#sources[@]} files are clean"
