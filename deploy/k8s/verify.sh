#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks the cluster of kubectl's current context whether it accepts the manifests: a server-side dry
# run of every overlay. Then runs cpu-cluster, and deletes one of its workers between two requests.
# Needs the image lockstep:cpu on the nodes, and no namespace lockstep; it deletes the one it makes.
# Without a cluster it says that it was skipped.
set -euo pipefail
cd "$(dirname "$0")"

skip() { echo "verify: skipped: $*"; exit 0; }
fail() { echo "verify: $*" >&2; exit 1; }
command -v kubectl >/dev/null || skip "there is no kubectl"
kubectl --request-timeout=5s get --raw /readyz >/dev/null 2>&1 || skip "no cluster answers"
kubectl get namespace lockstep >/dev/null 2>&1 &&
  fail "namespace lockstep: must not exist, found it; delete it, or use another cluster"

folder=$(mktemp -d)
forward=
clean() {
  [ -z "$forward" ] || kill "$forward" 2>/dev/null || true
  kubectl delete --ignore-not-found -f rendered/cpu-cluster.yaml >/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT

kubectl create namespace lockstep >/dev/null
faults=0
for file in rendered/*.yaml; do
  kubectl apply --dry-run=server -f "$file" >/dev/null 2>"$folder/errors" || true
  # An object whose operator is not installed is no fault of the manifests.
  sed -n 's/.*no matches for kind "\([A-Za-z]*\)".*/\1/p' "$folder/errors" | sort -u |
    sed "s|^|verify: $file: not compared, not installed: |"
  if grep -v -e 'no matches for kind' -e 'ensure CRDs are installed' -e '^Warning: ' \
    "$folder/errors"; then
    echo "verify: $file: refused"
    faults=$((faults + 1))
  else
    echo "verify: $file: accepted"
  fi
done

# ask FILE: writes the text of a greedy completion.
ask() {
  curl --silent --fail --retry 30 --retry-connrefused --retry-all-errors \
    http://127.0.0.1:18000/v1/completions -H 'Content-Type: application/json' \
    -d '{"model":"demo","prompt":"Once upon a time","max_tokens":64,"temperature":0}' |
    grep -o '"text":"[^"]*"' >"$1"
}

kubectl apply -f rendered/cpu-cluster.yaml >/dev/null
kubectl -n lockstep create secret generic lockstep-join \
  --from-literal=token="$(openssl rand -hex 16)" >/dev/null
kubectl -n lockstep rollout status deployment lockstep --timeout=5m
kubectl -n lockstep rollout status statefulset lockstep-worker --timeout=5m
kubectl -n lockstep port-forward service/lockstep 18000:8000 >/dev/null &
forward=$!
ask "$folder/before"
kubectl -n lockstep delete pod lockstep-worker-1 --wait=false
ask "$folder/after"
cmp "$folder/before" "$folder/after" || fail "an answer changed when a worker's pod was deleted"
kubectl -n lockstep rollout status statefulset lockstep-worker --timeout=5m
[ "$faults" -eq 0 ] || fail "$faults overlays were refused"
echo "verify: cpu-cluster served, and gave the same answer after a worker was deleted"
