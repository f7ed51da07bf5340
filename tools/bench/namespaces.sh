#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hosts on one machine, as root: network namespaces, each with an address in 10.77.0.0/24. Two are
# connected directly, three or more by a bridge in the last namespace.
#   tools/bench/namespaces.sh up COUNT      makes lockstep1 (10.77.0.1) .. lockstepCOUNT
#   tools/bench/namespaces.sh down          removes them
#   ip netns exec lockstep1 COMMAND         runs a command on the first of them
set -euo pipefail

up() {
  local count=$1
  for ((i = 1; i <= count; ++i)); do
    ip netns add "lockstep$i"
    ip -n "lockstep$i" link set lo up
  done
  if [ "$count" -eq 2 ]; then
    ip link add lk1 netns lockstep1 type veth peer name lk2 netns lockstep2
  else
    ip -n "lockstep$count" link add hub type bridge
    ip -n "lockstep$count" link set hub up
    for ((i = 1; i <= count; ++i)); do
      ip link add "lk$i" netns "lockstep$i" type veth peer name "port$i" netns "lockstep$count"
      ip -n "lockstep$count" link set "port$i" master hub up
    done
  fi
  for ((i = 1; i <= count; ++i)); do
    ip -n "lockstep$i" address add "10.77.0.$i/24" dev "lk$i"
    ip -n "lockstep$i" link set "lk$i" up
  done
}

down() {
  ip netns list | { grep -oE "^lockstep[0-9]+" || true; } |
    while read -r name; do ip netns delete "$name"; done
}

case "${1:-} ${2:-}" in
  "up "[2-9]) down; up "$2" ;;
  "down ") down ;;
  *) sed -n '3,7s/^# //p' "$0" >&2; exit 2 ;;
esac
