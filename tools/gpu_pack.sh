#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects everything for tools/gpu_check.sh on a machine with a GPU and without a network; nothing
# is compiled there:
#   tools/gpu_pack.sh PACK [GOLDENS]
# Builds preset cuda and the kernels' tests and benchmark (a CUDA 13 toolkit, no GPU) and puts into
# the folder PACK: bundle.tar.gz, kernels/, and from GOLDENS the reference models that are checked.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_pack: $*" >&2; exit 1; }

{ [ $# -ge 1 ] && [ $# -le 2 ]; } || fail "want the folder to fill; see the head of $0"
jobs=${LOCKSTEP_JOBS:-$(nproc)}
goldens=${2-}
mkdir -p "$1/kernels"
pack=$(cd "$1" && pwd)

cmake --preset cuda
cmake --build --preset cuda -j "$jobs" --target lockstep cuda_kernels_test cuda_bench
tools/bundle.sh "$pack/bundle.tar.gz" build/cuda
for program in tests/cuda_kernels_test bin/cuda_bench; do
  cp "build/cuda/$program" "$pack/kernels/"
  strip "$pack/kernels/${program##*/}"
done
for model in llama_gqa llama_tied llama3_rope mistral_window qwen2 qwen3; do
  [ -n "$goldens" ] || break
  [ -e "$goldens/$model/golden.json" ] || fail "there is no $goldens/$model/golden.json"
  mkdir -p "$pack/goldens"
  rm -rf "$pack/goldens/$model"
  cp -rL "$goldens/$model" "$pack/goldens/"
  chmod -R u+w "$pack/goldens/$model"
done
echo "gpu_pack: $(du -sh "$pack" | cut -f1) in $pack"
