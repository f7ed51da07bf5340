#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the image of this build, runs the `docker run` line of docs/deploy.md by podman, and
# rehearses `cpu`, `lws`, and the overlay, image and secret of the first commands of
# deploy/k8s/README.md. Skipped without root, podman, buildah or debootstrap, which
# tools/rehearsal/setup.sh installs.
#   run_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
cd "$1"
for tool in podman runc buildah debootstrap nft curl; do
  command -v "$tool" >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ "$(id -u)" -eq 0 ] || { echo "skipped: not root"; exit 77; }
grep -q '^VERSION_ID="12"' /etc/os-release || { echo "skipped: not Debian 12"; exit 77; }
[ "$2" = "$PWD/build/cpu" ] || { echo "skipped: not build/cpu"; exit 77; }

commands=$(sed -n '/^## From nothing/,/^## Components/s/^    //p' deploy/k8s/README.md)
named() { sed -n "s|^$1\$|\\1|p" <<<"$commands"; }
image=$(named 'docker build .* -t \([^ ]*\) .*')
overlay=$(named 'kubectl apply -k deploy/k8s/overlays/\(.*\)')
secret=$(named 'kubectl .* create secret generic \(.*\) --from-literal=.*')
literal=$(named 'kubectl .* create secret generic .* --from-literal=\(.*\)')
[ -n "$image" ] && [ -n "$overlay" ] && [ -n "$literal" ] ||
  { echo "deploy/k8s/README.md: no commands found"; exit 1; }
deploy/build_image.sh --prebuilt "$image"

line=$(sed -n '/^    docker run/,/[^\\]$/p' docs/deploy.md)
grep -q 'docker run' <<<"$line" || { echo "docs/deploy.md: no docker run found"; exit 1; }
# The command has its own network namespace, so its port is free.
CONTAINERS_CONF=$PWD/deploy/containers.conf unshare --net --mount bash -euo pipefail -s <<END
ip link set lo up
id=\$(${line/docker run/podman run --detach --pull=never})
trap 'podman rm --force --time 0 "\$id" >/dev/null' EXIT
curl -sS --retry 60 --retry-delay 1 --retry-all-errors http://127.0.0.1:8000/readyz
END

cat >"$2/secret.yaml" <<END
kind: Secret
metadata: {name: $secret, namespace: lockstep}
stringData: {${literal%%=*}: "$(eval "echo ${literal#*=}")"}
END
rehearsal() { tools/rehearse "$@" --clients 3 --folder build/cpu/rehearsal; }
rehearsal cpu --scenario kill
rehearsal "$overlay" --secrets "$2/secret.yaml" --scenario kill --scenario drain
rehearsal lws --scenario kill
