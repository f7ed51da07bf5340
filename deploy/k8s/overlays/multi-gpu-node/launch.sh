#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs `lockstep ARGUMENTS` $WORKERS times, one for each GPU of the pod, and restarts one that ends.
# A worker that ends with 2 (an option is wrong) ends all, so that the pod shows it. At SIGTERM all
# say goodbye. The first worker's health port is the pod's.
#   launch.sh ARGUMENTS...
set -u

supervise() {  # INDEX ARGUMENTS...
  index=$1
  shift
  worker=
  trap '[ -z "$worker" ] || { kill -TERM "$worker" 2>/dev/null; wait "$worker"; }; exit 0' TERM
  export LOCKSTEP_RANK=$((POD_INDEX * WORKERS + index))
  export LOCKSTEP_DEVICE="${LOCKSTEP_DEVICE:-cuda:$index}"
  export LOCKSTEP_DATA_LISTEN="$POD_IP:$((DATA_PORT + index))"
  [ "$index" -eq 0 ] || export LOCKSTEP_HEALTH=
  while :; do
    lockstep "$@" &
    worker=$!
    wait "$worker"
    [ $? -ne 2 ] || kill -USR1 $$
    sleep 1
  done
}

supervisors=
stop() {  # CODE
  trap '' TERM USR1
  kill -TERM $supervisors 2>/dev/null
  wait
  exit "$1"
}
trap 'stop 0' TERM
trap 'stop 2' USR1
index=0
while [ "$index" -lt "$WORKERS" ]; do
  supervise "$index" "$@" &
  supervisors="$supervisors $!"
  index=$((index + 1))
done
while :; do wait; done
