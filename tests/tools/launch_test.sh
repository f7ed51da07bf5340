#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/launch.sh with two workers on CPUs: a group forms, logs exist, Ctrl-C ends all.
#   launch_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail

folder=$(mktemp -d)
launch=
end() {
  [ -z "$launch" ] || kill -9 "$launch" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
fail() {
  echo "launch_test: $*" >&2
  tail -n 5 "$folder"/*.txt "$folder"/logs/* >&2 || true
  exit 1
}

# wait_for SECONDS COMMAND...: waits until the command succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}
children_of() { cat "/proc/$1/task/$1/children" 2>/dev/null; }

# Background processes of a script ignore Ctrl-C by default.
env --default-signal=INT "$1/tools/launch.sh" --lockstep "$2/bin/lockstep" --device cpu \
  --workers 2 --logs "$folder/logs" -- "$1/demo" --grpc 127.0.0.1:0 --http 127.0.0.1:0 \
  >"$folder/out.txt" 2>"$folder/err.txt" &
launch=$!
wait_for 60 grep -q "lockstep: ready" "$folder/err.txt" || fail "no group has formed"
for rank in 0 1; do [ -e "$folder/logs/rank$rank.log" ] || fail "rank $rank has no log"; done
grep -q "on 2 workers" "$folder/logs/coordinator.log" || fail "must be on 2 workers"

pids=$(children_of "$launch")
[ "$(wc -w <<<"$pids")" -ge 3 ] || fail "must be a coordinator and two workers, found: $pids"
kill -INT "$launch"
gone() { for pid in $pids; do ! kill -0 "$pid" 2>/dev/null || return 1; done; }
wait_for 20 gone || fail "still there after Ctrl-C: $pids"
launch=

"$1/tools/launch.sh" --lockstep "$2/bin/lockstep" --device gpu 2>"$folder/err.txt" &&
  fail "--device gpu was accepted"
grep -q "must be cuda or cpu" "$folder/err.txt" || fail "wrong error for --device gpu"
