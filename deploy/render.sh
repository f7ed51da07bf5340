#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Renders each overlay of deploy/k8s, and writes the hashes of all sources, to deploy/k8s/rendered.
# Needs kubectl with kustomize 5. If it was not run after a change, tests/deploy fails.
set -euo pipefail
cd "$(dirname "$0")/k8s"

kubectl version --client 2>/dev/null | grep -q '^Kustomize Version: v5' || {
  echo "render: needs kubectl with kustomize 5" >&2
  exit 2
}
for overlay in overlays/*/; do
  kubectl kustomize "$overlay" >"rendered/$(basename "$overlay").yaml"
done
find base components overlays -type f | LC_ALL=C sort | xargs sha256sum >rendered/SHA256SUMS
