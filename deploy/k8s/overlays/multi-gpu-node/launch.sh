#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs `lockstep ARGUMENTS` $WORKERS times, one for each GPU of the pod, and restarts a worker that
# ends. If a worker ends with exit code 2 (an option is wrong), the script ends all workers and then
# ends with 2, so that the pod shows it. At SIGTERM all workers say goodbye. The first worker's
# health port is the pod's. The script needs bash: a child of dash loses a signal that arrives
# before its exec.
#   launch.sh ARGUMENTS...
set -u

stop() {  # CODE
  trap '' TERM
  mapfile -t pids < <(jobs -p)
  [ "${#pids[@]}" -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null
  wait
  exit "$1"
}
trap 'stop 0' TERM

start() {  # INDEX ARGUMENTS...
  local index=$1
  shift
  local health=${LOCKSTEP_HEALTH-}
  [ "$index" -eq 0 ] || health=
  LOCKSTEP_RANK=$((POD_INDEX * WORKERS + index)) \
    LOCKSTEP_DEVICE="${LOCKSTEP_DEVICE:-cuda:$index}" \
    LOCKSTEP_DATA_LISTEN="$POD_IP:$((DATA_PORT + index))" \
    LOCKSTEP_HEALTH=$health lockstep "$@" &
  index_of[$!]=$index
}

declare -A index_of
for ((index = 0; index < WORKERS; index++)); do
  start "$index" "$@"
done
while wait -n -p ended; code=$?; do
  [ "$code" -ne 2 ] || stop 2
  sleep 1
  start "${index_of[$ended]}" "$@"
done
