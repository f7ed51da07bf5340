#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs completely what tools/test.sh runs only in part, without its limits: every test under the
# sanitizers, clang-tidy over every file, long runs of random tests, every architecture against
# transformers, all of vLLM's HTTP tests, Kubernetes' manifests on real containers. Takes hours.
#   tools/check_all.sh [SECONDS]     the seconds for each fuzzer; default: 600
set -euo pipefail
cd "$(dirname "$0")/.."

tools/test.sh release
if [ -d build/cuda_kernels ]; then  # tools/test.sh compiled to PTX there.
  cmake -DCMAKE_CUDA_ARCHITECTURES="80-real;90" build/cuda_kernels
  cmake --build build/cuda_kernels --target lockstep_kernels
fi
build/cpu/tests/simulation/simulation --seeds 100000 --jobs "$(nproc)"
for seed in 1 2 3; do build/cpu/tests/faults/faults --faults 200 --seed "$seed"; done
tools/survey/survey.py
tools/clients.sh vllm
tools/rehearsal/setup.sh
deploy/build_image.sh --fresh  # Compiles inside.
for overlay in cpu cpu-cluster spare spare-tls lws; do tools/rehearse "$overlay"; done
tools/rehearse spare --clients 63 --scenario kill --scenario node-gone --scenario roll-workers
tests/tools/rehearsal/broken.py
tools/lint.sh --all
tools/sanitize.sh
tools/fuzz.sh "${1:-600}"
