#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Subjects of commits: "area: imperative", at most 72 characters. Merges are not checked.
#   tools/subjects.sh           the commits since the last landing
#   tools/subjects.sh BASE      the commits since that one
#   tools/subjects.sh -         lines of standard input
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/landing.sh

# Prints why a subject is refused; nothing if it is accepted. The first word after the area counts
# as an imperative, unless it ends in -ed, -ing or -s, or is an article or another word that is no
# verb.
fault_of() {
  local subject=$1 verb
  [ ${#subject} -le 72 ] || { echo "has ${#subject} characters, at most 72"; return; }
  [[ $subject =~ ^[a-z][a-zA-Z0-9_./-]*(,\ [a-z][a-zA-Z0-9_./-]*)*:\ ([a-z][a-z-]*) ]] ||
    { echo "must begin with \"area: verb\" in small letters"; return; }
  verb=${BASH_REMATCH[2]}
  case "$verb" in
    a | an | the | this | its | it | what | of | now | wip) ;;
    *ss | *eed | bring | embed | string | focus | alias) return ;;
    *ed | *ing | *s) ;;
    *) return ;;
  esac
  echo "must have an imperative after its area, as in \"worker: fix\", found \"$verb\""
}

if [ "${1-}" = - ]; then
  subjects=$(cat)
else
  base=${1-$(before_landing 2>/dev/null)}
  [ -n "$base" ] || { echo "subjects: no history to check"; exit 0; }
  subjects=$(git log --no-merges --format=%s "$base..HEAD")
fi

count=0
faults=0
while IFS= read -r subject; do
  [ -n "$subject" ] || continue
  count=$((count + 1))
  fault=$(fault_of "$subject")
  [ -z "$fault" ] || { echo "subjects: \"$subject\": $fault" >&2; faults=$((faults + 1)); }
done <<<"$subjects"
[ "$faults" -eq 0 ] || exit 1
echo "subjects: $count subjects are plain"
