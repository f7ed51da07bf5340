#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the image of this build, runs the `docker run` line of docs/deploy.md by podman, and
# rehearses the overlay `cpu`. Skipped without root, podman, buildah or debootstrap, which
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

deploy/build_image.sh --prebuilt lockstep:cpu

line=$(sed -n '/^    docker run/,/[^\\]$/p' docs/deploy.md)
grep -q 'docker run' <<<"$line" || { echo "docs/deploy.md: no docker run found"; exit 1; }
# The command has its own network namespace, so its port is free.
CONTAINERS_CONF=$PWD/deploy/containers.conf unshare --net --mount bash -euo pipefail -s <<END
ip link set lo up
id=\$(${line/docker run/podman run --detach --pull=never})
trap 'podman rm --force --time 0 "\$id" >/dev/null' EXIT
curl -sS --retry 60 --retry-delay 1 --retry-all-errors http://127.0.0.1:8000/readyz
END

tools/rehearse cpu --scenario kill --clients 3 --folder "$2/rehearsal"
