#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the image of deploy/Dockerfile without a registry and a container daemon: Debian's base by
# debootstrap, the rest by buildah, whose steps run in a chroot. Then it answers the quick start's
# prompt inside. Needs root, debootstrap and buildah.
#   deploy/build_image.sh [--prebuilt] [--mirror URL] [--target STAGE] [TAG]
# TAG defaults to lockstep:cpu. --prebuilt uses build/cpu instead of compiling inside: valid only if
# this machine is Debian 12. --target stops at a stage of the Dockerfile and runs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "build_image: $*" >&2; exit 2; }

binaries=compiled mirror='' target=cpu tag=lockstep:cpu
while [ $# -gt 0 ]; do
  case $1 in
    --prebuilt) binaries=prebuilt; shift ;;
    --mirror | --target)
      [ $# -ge 2 ] || fail "$1 wants a value"
      declare "${1#--}=$2"
      shift 2 ;;
    -*) fail "found $1, wanted --prebuilt, --mirror URL, --target STAGE, or a tag" ;;
    *) tag=$1; shift ;;
  esac
done
[ "$(id -u)" -eq 0 ] || fail "run as root: debootstrap and chroot need it"
for tool in debootstrap buildah; do
  command -v "$tool" >/dev/null || fail "needs $tool (Debian package $tool)"
done
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=${STORAGE_DRIVER:-vfs}

base=localhost/lockstep-base:12
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
  echo "build_image: Debian's base"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  debootstrap --variant=minbase bookworm "$folder/base" ${mirror:+"$mirror"} >"$folder/log" ||
    { tail -n 5 "$folder/log" >&2; fail "debootstrap failed"; }
  rm -rf "$folder"/base/var/cache/apt/archives/*.deb "$folder"/base/var/lib/apt/lists/*
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$folder/base" / >/dev/null
  buildah commit --quiet --rm "$container" "$base" >/dev/null
fi

if [ "$binaries" = prebuilt ]; then
  rm -rf build/image
  cmake --install build/cpu --prefix "$PWD/build/image" --strip >/dev/null
fi
echo "build_image: $target of deploy/Dockerfile, $binaries"
buildah build --quiet --format docker --build-arg BASE="$base" --build-arg BINARIES="$binaries" \
  --ignorefile deploy/Dockerfile.dockerignore --target "$target" --tag "$tag" \
  -f deploy/Dockerfile . >/dev/null
[ "$target" = cpu ] || exit 0

container=$(buildah from --pull-never "$tag")
inside() { buildah run "$container" -- "$@"; }
echo "build_image: as $(inside id -u -n), $(inside lockstep --version)," \
  "$(inside grep -c ^PackageName: /usr/local/share/lockstep/image.spdx) packages in image.spdx"
echo "build_image: lockstep generate --workers 2 --prompt 'Once upon a time'"
inside lockstep generate --workers 2 --prompt "Once upon a time"
mounted=$(buildah mount "$container")
echo "build_image: $tag, $(du -sh "$mounted" | cut -f1)"
buildah umount "$container" >/dev/null
buildah rm "$container" >/dev/null
