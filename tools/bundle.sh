#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes an archive that also runs on machines where our libraries are not installed. It has the
# binary, the demo model and the shared libraries that the binary needs, except the C and C++
# runtime and CUDA.
#   tools/bundle.sh [OUT.tar.gz [BUILD_FOLDER]]   # Or OUT.tar.xz: smaller, and packed more slowly.
# OUT defaults to lockstep-VERSION-linux-MACHINE.tar.gz in the current folder. Builds preset cpu
# first; a given BUILD_FOLDER is used as it is.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)

fail() { echo "bundle: $*" >&2; exit 1; }

[ $# -le 2 ] || fail "must have at most 2 arguments, found $#; see the head of $0"
build=${2:-$top/build/cpu}
if [ $# -lt 2 ]; then
  (cd "$top" && cmake --preset cpu >/dev/null && cmake --build --preset cpu --target lockstep)
fi
[ -x "$build/bin/lockstep" ] || fail "there is no $build/bin/lockstep: build it first"
command -v objdump >/dev/null || fail "needs objdump (Debian package binutils)"

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=lockstep-$version-linux-$(uname -m)
out=${1:-$name.tar.gz}
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
folder=$stage/$name
umask 022

cmake --install "$build" --prefix "$folder" --strip >/dev/null
cmake --install "$build" --prefix "$folder" --component bundle >/dev/null

# The libraries' licences must be included. Debian has one file per package.
if command -v dpkg-query >/dev/null; then
  mkdir -p "$folder/share/doc/lockstep"
  find "$folder/lib" -type f -printf '*/%f\n' | xargs -r dpkg-query -S 2>/dev/null |
    cut -d: -f1 | sort -u | while read -r package; do
      copyright=/usr/share/doc/$package/copyright
      [ ! -r "$copyright" ] || cp "$copyright" "$folder/share/doc/lockstep/$package.copyright"
    done
fi

glibc=$(find "$folder/bin" "$folder/lib" -type f -exec objdump -T {} + |
  sed -n 's/.*[( ]GLIBC_\([0-9.]*\)[) ].*/\1/p' | sort -V | tail -n 1)
mkdir -p "$(dirname "$out")"
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner -caf "$out" "$name"
echo "bundle: $out, $(du -h "$out" | cut -f1), for Linux on $(uname -m) with glibc $glibc or later"
