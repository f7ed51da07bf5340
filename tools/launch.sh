#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Serves a model on this machine with a worker on every visible GPU. Each worker is a separate
# process with its own log. If numactl is installed, workers use the memory near their GPUs. Ctrl-C
# ends all processes, and so does the end of any of them.
#   tools/launch.sh [--device cuda|cpu] [--workers N] [--logs FOLDER] [--lockstep BINARY]
#                   [--fast] [-- ARGUMENTS OF `lockstep serve`]
# Default of --device: cuda if `lockstep doctor` finds GPUs, else cpu. Default of --workers: the
# number of GPUs; 1 with cpu. --fast is passed to serve and the workers. Logs (coordinator.log,
# rank0.log, ...) go to lockstep-logs. Workers inherit NCCL_* variables; NCCL_DEBUG is WARN if not
# set.
set -euo pipefail

fail() { echo "launch: $*" >&2; exit 2; }

fast=() device='' workers='' logs=lockstep-logs
lockstep=$(cd "$(dirname "$0")/.." && pwd)/build/cuda/bin/lockstep
[ -x "$lockstep" ] || lockstep=${lockstep/cuda/cpu}
[ -x "$lockstep" ] || lockstep=$(command -v lockstep || true)
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    --fast) fast=(--fast); shift ;;
    --device | --workers | --logs | --lockstep)
      [ $# -ge 2 ] || fail "$1: must have a value, found none"
      declare "${1#--}=$2"
      shift 2 ;;
    *)
      fail "must be --device, --fast, --workers, --logs, --lockstep or -- ARGUMENTS, found $1" ;;
  esac
done
[ -x "$lockstep" ] || fail "no lockstep binary: build it, or name it with --lockstep"

# One PCI bus address per GPU and line.
gpus=()
if [ "$device" != cpu ]; then
  mapfile -t gpus < <("$lockstep" doctor --json | grep -o '"address":"[^"]*"' | cut -d'"' -f4)
fi
[ -n "$device" ] || device=$([ ${#gpus[@]} -gt 0 ] && echo cuda || echo cpu)
case $device in
  cpu) workers=${workers:-1} ;;
  cuda)
    [ ${#gpus[@]} -gt 0 ] || fail "--device cuda: $("$lockstep" doctor | sed -n 's/^GPUs *//p')"
    workers=${workers:-${#gpus[@]}}
    [ "$workers" -le ${#gpus[@]} ] ||
      fail "--workers: must be at most ${#gpus[@]}, the number of GPUs, found $workers" ;;
  *) fail "--device: must be cuda or cpu, found $device" ;;
esac
[[ $workers =~ ^[1-9][0-9]*$ ]] || fail "--workers: must be 1 or more, found $workers"

mkdir -p "$logs"
export LOCKSTEP_JOIN_TOKEN NCCL_DEBUG=${NCCL_DEBUG:-WARN}
LOCKSTEP_JOIN_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')

children=()
end_all() {
  trap - EXIT INT TERM
  [ ${#children[@]} -eq 0 ] || kill "${children[@]}" 2>/dev/null || true
  wait
}
trap end_all EXIT
trap 'exit 130' INT TERM

# The memory node of worker $1, if known.
node_of() {
  local node nodes
  if [ "$device" = cuda ]; then
    node=$(cat "/sys/bus/pci/devices/${gpus[$1],,}/numa_node" 2>/dev/null || echo -1)
  else
    nodes=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' 2>/dev/null | wc -l)
    node=$((nodes > 1 ? $1 * nodes / workers : -1))
  fi
  [ "$node" -lt 0 ] || echo "$node"
}

: >"$logs/coordinator.log"
"$lockstep" serve --wait-workers "$workers" --cluster 127.0.0.1:0 "${fast[@]}" "$@" \
  2> >(tee "$logs/coordinator.log" >&2) &
coordinator=$!
children+=("$coordinator")
address=
while [ -z "$address" ]; do
  kill -0 "$coordinator" 2>/dev/null || { wait "$coordinator" || exit $?; exit 1; }
  sleep 0.1
  address=$(sed -n 's/.*workers are awaited at \([^ ,]*\).*/\1/p' "$logs/coordinator.log")
done

threads=$(($(nproc) / workers))
for ((rank = 0; rank < workers; ++rank)); do
  near=()
  if command -v numactl >/dev/null && node=$(node_of "$rank") && [ -n "$node" ]; then
    near=(numactl -N "$node" --preferred="$node")
  fi
  where=cpu
  [ "$device" = cpu ] || where=cuda:$rank
  "${near[@]}" "$lockstep" worker --coordinator "$address" --rank "$rank" --device "$where" \
    "${fast[@]}" --parent-pid $$ --threads $((threads > 0 ? threads : 1)) \
    >"$logs/rank$rank.log" 2>&1 &
  children+=($!)
done

code=0
wait -n "${children[@]}" || code=$?
for ((rank = 0; rank < workers; ++rank)); do
  kill -0 "${children[rank + 1]}" 2>/dev/null ||
    echo "launch: rank $rank ended: $(tail -n 1 "$logs/rank$rank.log")" >&2
done
kill -0 "$coordinator" 2>/dev/null || echo "launch: the coordinator ended; see $logs" >&2
exit "$code"
