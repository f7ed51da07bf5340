#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects everything for tools/gpu_check.sh on a machine with a GPU and without a network; nothing
# is compiled there:
#   tools/gpu_pack.sh PACK [GOLDENS]
# Builds preset cuda and the kernels' tests and benchmark, which needs a CUDA 13 toolkit but no GPU.
# The folder PACK gets bundle.tar.xz, kernels.tar.xz and, from GOLDENS, the reference models that
# are checked. Together they have at most 30 MB.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_pack: $*" >&2; exit 1; }

{ [ $# -ge 1 ] && [ $# -le 2 ]; } || fail "PACK: must be the folder to fill; see the head of $0"
jobs=${LOCKSTEP_JOBS:-$(nproc)}
goldens=${2-}
mkdir -p "$1"
pack=$(cd "$1" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/kernels"

cmake --preset cuda
cmake --build --preset cuda -j "$jobs" --target lockstep cuda_kernels_test cuda_bench
tools/bundle.sh "$pack/bundle.tar.xz" build/cuda
for program in tests/cuda_kernels_test bin/cuda_bench; do
  strip -o "$stage/kernels/${program##*/}" "build/cuda/$program"
done
tar -C "$stage" -cJf "$pack/kernels.tar.xz" kernels
for model in llama_gqa llama_tied llama3_rope mistral_window qwen2 qwen3; do
  [ -n "$goldens" ] || break
  [ -e "$goldens/$model/golden.json" ] || fail "$goldens/$model/golden.json: must exist, found none"
  mkdir -p "$pack/goldens"
  rm -rf "$pack/goldens/$model"
  cp -rL "$goldens/$model" "$pack/goldens/"
  chmod -R u+w "$pack/goldens/$model"
done
bytes=$(du -sb "$pack" | cut -f1)
[ "$bytes" -le 30000000 ] ||
  fail "$pack: must be at most 30 MB, found $((bytes / 1000000)) MB; name a folder of its own"
echo "gpu_pack: $((bytes / 1000000)) MB in $pack"
