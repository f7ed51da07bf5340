#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/subjects.sh accepts "area: imperative" of at most 72 characters, and refuses all else.
#   subjects_test.sh SOURCE_FOLDER
set -euo pipefail

fail() { echo "subjects_test: $*" >&2; exit 1; }

check() { "$1/tools/subjects.sh" - <<<"$2" >/dev/null 2>&1; }

long=$(printf 'x%.0s' {1..66})  # "base: " has 6 characters.
for good in "worker: fix a leak" "base, tests/tidy: pass on 2" "tools: embed a page" "base: $long"
do
  check "$1" "$good" || fail "refused: $good"
done
for bad in "Fix a leak" "worker fix" "worker: Fix it" "worker: fixes it" "worker: fixed it" \
  "worker: fixing it" "worker: the fix" "worker: what it is" "worker: wip" "base: x$long"; do
  ! check "$1" "$bad" || fail "accepted: $bad"
  ! check "$1" "worker: fix a leak"$'\n'"$bad" || fail "accepted as the second: $bad"
done

# Commits since a base, without merges.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/tools"
cp "$1"/tools/{subjects,landing}.sh "$folder/tools"
cd "$folder"
commit() { git -c user.name=a -c user.email=a commit -q --allow-empty -m "$1"; }
git init -q -b main
commit "An old one"
git checkout -q -b change
commit "base: fix a leak"
tools/subjects.sh | grep -q "1 subject" || fail "the branch's commit was not checked"
commit "A new one"
! tools/subjects.sh 2>/dev/null || fail "a branch's commit was accepted"
git checkout -q main
git -c user.name=a -c user.email=a merge -q --no-ff -m "Merge it" change
! tools/subjects.sh 2>/dev/null || fail "a landing's commit was accepted"
