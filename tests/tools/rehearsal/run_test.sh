#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the image of this build, runs the `docker run` line of docs/deploy.md by podman, sends it
# the request of the first commands of deploy/k8s/README.md, and rehearses `cpu`, `lws`, and the
# overlay, image and secret of these commands. The images stay, so the next run is shorter. Skipped,
# with the reason, where the packages of tools/rehearsal/setup.sh are missing or containers cannot
# run.
#   run_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
cd "$1"
skip() { echo "skipped: $*"; exit 77; }
for tool in podman runc buildah debootstrap nft ip iptables curl; do
  command -v "$tool" >/dev/null || skip "no $tool; run tools/rehearsal/setup.sh"
done
[ "$(id -u)" -eq 0 ] || skip "not root"
grep -q '^VERSION_ID="12"' /etc/os-release || skip "not Debian 12"
[ "$2" = "$PWD/build/cpu" ] || skip "not build/cpu"
export CONTAINERS_CONF=$PWD/deploy/containers.conf

# may WHAT COMMAND...: skips the test with the command's last line if the command fails.
may() {
  local found
  found=$("${@:2}" 2>&1 </dev/null) || skip "$1: $(tail -n 1 <<<"$found")"
}
may "mounts are refused" unshare --mount mount -t tmpfs tmpfs /mnt
may "networks are refused" unshare --net sh -c \
  'ip link add name a type veth peer name b && nft add table ip t && iptables -t nat -L'
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for file in /bin/true $(ldd /bin/true | grep -o '/[^ ]*'); do
  install -D "$file" "$root$file"
done
may "containers cannot run" podman run --rm --network none --memory 64m --cpus 0.5 \
  --cap-drop ALL --rootfs "$root" /bin/true
mirror=http://deb.debian.org/debian
podman image exists localhost/lockstep-base:12 ||
  may "no Debian mirror" curl -sSf --retry 3 -o /dev/null "$mirror/dists/bookworm/InRelease"

commands=$(sed -n '/^## From nothing/,/^## Components/s/^    //p' deploy/k8s/README.md)
named() { sed -n "s|^$1\$|\\1|p" <<<"$commands"; }
image=$(named 'docker build .* -t \([^ ]*\) .*')
overlay=$(named 'kubectl apply -k deploy/k8s/overlays/\(.*\)')
secret=$(named 'kubectl .* create secret generic \(.*\) --from-literal=.*')
ask=$(grep '^curl ' <<<"$commands")
literal=$(named 'kubectl .* create secret generic .* --from-literal=\(.*\)')
[ -n "$image" ] && [ -n "$overlay" ] && [ -n "$literal" ] && [ -n "$ask" ] ||
  { echo "deploy/k8s/README.md: no commands found"; exit 1; }
deploy/build_image.sh --prebuilt "$image"

line=$(sed -n '/^    docker run/,/[^\\]$/p' docs/deploy.md)
grep -q 'docker run' <<<"$line" || { echo "docs/deploy.md: no docker run found"; exit 1; }
# The command has its own network namespace, so its port is free.
unshare --net --mount bash -euo pipefail -s <<END
ip link set lo up
id=\$(${line/docker run/podman run --detach --pull=never})
trap 'podman rm --force --time 0 "\$id" >/dev/null' EXIT
curl -sS --retry 120 --retry-delay 1 --retry-all-errors http://127.0.0.1:8000/readyz
$ask --silent --show-error | grep '"text"'
END

cat >"$2/secret.yaml" <<END
kind: Secret
metadata: {name: $secret, namespace: lockstep}
stringData: {${literal%%=*}: "$(eval "echo ${literal#*=}")"}
END
rehearsal() { tools/rehearse "$@" --clients 3 --folder build/cpu/rehearsal; }
rehearsal cpu --scenario kill
rehearsal "$overlay" --secrets "$2/secret.yaml" --scenario kill --scenario drain \
  --scenario roll-server
rehearsal lws --scenario kill
