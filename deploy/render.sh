#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes what each overlay of deploy/k8s renders to, and the hashes of all sources, to
# deploy/k8s/rendered. Needs kubectl with kustomize 5. tests/deploy fails where it was forgotten.
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
