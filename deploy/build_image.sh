#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the image of deploy/Dockerfile without a registry and a container daemon: Debian's base by
# debootstrap, the rest by buildah, whose steps run in a chroot. Then podman runs `lockstep doctor`
# and the quick start's prompt inside. Needs root, debootstrap, buildah, podman and runc.
#   deploy/build_image.sh [--prebuilt] [--fresh] [--mirror URL] [--target STAGE] [TAG]
# TAG defaults to lockstep:cpu. --prebuilt uses build/cpu instead of compiling inside: valid only if
# this machine is Debian 12. --fresh makes Debian's base again. --target stops at a stage of the
# Dockerfile and runs nothing. One commit, the same binary and the same packages give the same
# digest: every timestamp in the image is the commit's, or SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "build_image: $*" >&2; exit 2; }

max_mb=150
binaries=compiled mirror='' target=cpu tag=lockstep:cpu fresh=
while [ $# -gt 0 ]; do
  case $1 in
    --prebuilt) binaries=prebuilt; shift ;;
    --fresh) fresh=yes; shift ;;
    --mirror | --target)
      [ $# -ge 2 ] || fail "$1: must have a value, found none"
      declare "${1#--}=$2"
      shift 2 ;;
    -*) fail "must be --prebuilt, --fresh, --mirror URL, --target STAGE, or a tag, found $1" ;;
    *) tag=$1; shift ;;
  esac
done
[ "$(id -u)" -eq 0 ] || fail "run as root: debootstrap and chroot need it"
for tool in debootstrap buildah podman runc; do
  command -v "$tool" >/dev/null || fail "needs $tool (Debian package $tool)"
done
export BUILDAH_ISOLATION=chroot CONTAINERS_CONF=$PWD/deploy/containers.conf
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)} ||
  fail "SOURCE_DATE_EPOCH: must be set outside a git checkout, to a time in seconds; found none"
export SOURCE_DATE_EPOCH

# id_of TAG: the image's id, or nothing.
id_of() { podman image inspect --format '{{.Id}}' "$1" 2>/dev/null || true; }

# remove_old ID TAG: removes the image that had the tag before, unless something else uses it.
remove_old() {
  [ -z "$1" ] || [ "$1" = "$(id_of "$2")" ] || podman rmi "$1" >/dev/null 2>&1 || true
}

# If a stage only renames another one (FROM prebuilt AS binaries), buildah keeps the container and
# the image without a name that it made for the renamed stage.
remove_stages() {
  local image containers
  for image in $(buildah images --quiet --no-trunc --filter label=lockstep.stage); do
    containers=$(buildah containers --noheading --notruncate \
      --format '{{.ContainerID}} {{.ImageID}}')
    awk -v id="${image#sha256:}" '$2 == id {print $1}' <<<"$containers" |
      xargs --no-run-if-empty buildah rm >/dev/null
    buildah rmi "$image" >/dev/null
  done
}

# Leaves out documentation and translations, as debian:12-slim does; licences stay.
slim() {
  cat >"$1/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/man/*
END
  find "$1/usr/share/doc" -mindepth 1 ! -type d ! -name copyright -delete
  find "$1/usr/share/doc" -mindepth 1 -type d -empty -delete
  rm -rf "$1"/usr/share/{info,locale,man}/* "$1"/var/cache/apt/{archives/*.deb,*.bin} \
    "$1"/var/lib/apt/lists/* "$1"/var/log/{*.log,apt} "$1"/var/cache/ldconfig/aux-cache
}

base=localhost/lockstep-base:12
if [ -n "$fresh" ] || ! buildah inspect --type image "$base" >/dev/null 2>&1; then
  echo "build_image: Debian's base"
  folder=$(mktemp -d) old=$(id_of "$base")
  trap 'umount "$folder" 2>/dev/null || true; rm -rf "$folder"' EXIT
  # dpkg writes each file through to the disk, which takes longer than all else.
  mount -t tmpfs tmpfs "$folder" 2>/dev/null || true
  debootstrap --variant=minbase bookworm "$folder/base" ${mirror:+"$mirror"} >"$folder/log" ||
    { tail -n 5 "$folder/log" >&2; fail "debootstrap failed"; }
  slim "$folder/base"
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$folder/base" / >/dev/null
  buildah commit --quiet --rm --omit-history --timestamp "$SOURCE_DATE_EPOCH" "$container" \
    "$base" >/dev/null
  remove_old "$old" "$base"
fi

if [ "$binaries" = prebuilt ]; then
  rm -rf build/image
  cmake --install build/cpu --prefix "$PWD/build/image" --strip >/dev/null
fi
echo "build_image: $target of deploy/Dockerfile, $binaries"
old=$(id_of "$tag")
buildah build --quiet --format oci --omit-history \
  --build-arg BASE="$base" --build-arg BINARIES="$binaries" \
  --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" --timestamp "$SOURCE_DATE_EPOCH" \
  --ignorefile deploy/Dockerfile.dockerignore --target "$target" --tag "$tag" \
  -f deploy/Dockerfile . >/dev/null
remove_stages
remove_old "$old" "$tag"
[ "$target" = cpu ] || exit 0

inside() {
  podman run --rm --network none --read-only --tmpfs /tmp --cap-drop ALL --entrypoint "$1" "$tag" \
    "${@:2}"
}
echo "build_image: as $(inside id -u -n), $(inside lockstep --version)," \
  "$(inside grep -c ^PackageName: /usr/local/share/lockstep/image.spdx) packages in image.spdx"
for command in doctor "generate --workers 2 --prompt 'Once upon a time'"; do
  echo "build_image: lockstep $command"
  eval "inside lockstep $command"
done
mb=$(($(podman image inspect --format '{{.Size}}' "$tag") / 1000000))
echo "build_image: $tag, $mb MB, $(podman image inspect --format '{{.Id}}' "$tag")"
[ "$mb" -le "$max_mb" ] || fail "$tag: must have at most $max_mb MB, found $mb"
