#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-format and clang-tidy over C++ files, with the flags of build/cpu; changes nothing.
#   tools/lint.sh            what differs from the last commit, and new files
#   tools/lint.sh --all      everything (clang-tidy: minutes)
#   tools/lint.sh FILE...
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "lint: $*" >&2; exit 1; }

for tool in clang-format clang-tidy; do
  command -v "$tool" >/dev/null || fail "needs $tool (Debian package $tool)"
done

case "${1-}" in
  --all) listed=$(git ls-files --cached --others --exclude-standard) ;;
  -*) fail "unknown option $1; see the head of $0" ;;
  "") listed=$(git diff --name-only HEAD; git ls-files --others --exclude-standard) ;;
  *) listed=$(printf '%s\n' "$@") ;;
esac
sources=()  # With headers.
units=()    # What is compiled: clang-tidy sees headers through these.
while read -r file; do
  [ -f "$file" ] || continue  # Removed in this change.
  case "$file" in
    *.cc) sources+=("$file"); units+=("$file") ;;
    *.h) sources+=("$file") ;;
  esac
done <<<"$listed"
[ ${#sources[@]} -gt 0 ] || { echo "lint: no C++ files to look at"; exit 0; }

clang-format --dry-run -Werror "${sources[@]}" || fail "clang-format -i the files named above"

# Headers that protobuf generates have to be there.
[ -f build/cpu/compile_commands.json ] || cmake --preset cpu >/dev/null
ls build/cpu/proto/*.pb.h >/dev/null 2>&1 || cmake --build --preset cpu --target lockstep_services
compiled=()
for unit in "${units[@]}"; do
  if grep -qF "\"file\": \"$PWD/$unit\"" build/cpu/compile_commands.json; then
    compiled+=("$unit")
  else
    echo "lint: $unit is not part of build/cpu: format only"
  fi
done
# GCC's names of warnings are not all Clang's.
printf '%s\n' "${compiled[@]}" |
  xargs -r -n 1 -P "$(nproc)" clang-tidy -p build/cpu --quiet \
    --extra-arg=-Wno-unknown-warning-option ||
  fail "clang-tidy found what is named above"
echo "lint: ${#sources[@]} files are clean"
