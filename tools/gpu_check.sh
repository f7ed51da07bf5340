#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the CUDA kernels and runs their tests and benchmark on this machine's GPU: g++, nvcc of
# CUDA 13, CMake and GoogleTest (a package, or its sources in LOCKSTEP_GTEST_SOURCE or
# /usr/src/googletest) are all it takes, no network. Tables and logs go to a folder:
#   tools/gpu_check.sh FOLDER [BUNDLE.tar.gz [GOLDENS]]
# With a bundle the whole system runs as well, by one rank and by two on one GPU: reference models
# in GOLDENS (folders with golden.json), the demo model, Llama-3-8B's shape with random weights, and
# compute-sanitizer. The bundle is made elsewhere, where gRPC is, and takes libcublasLt of CUDA 13
# from this machine:
#   cmake --preset cuda && cmake --build --preset cuda --target lockstep
#   tools/bundle.sh BUNDLE.tar.gz build/cuda
# Exit code 0: all is well; 1: something failed; 2: built, but there is no GPU to run it on.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check: $*" >&2; exit 1; }

{ [ $# -ge 1 ] && [ $# -le 3 ]; } || fail "want the folder for tables and logs; see the head of $0"
mkdir -p "$1"
results=$(cd "$1" && pwd)
bundle=${2:+$(realpath "$2")}
goldens=${3:+$(realpath "$3")}
[ -z "$bundle" ] || [ -f "$bundle" ] || fail "there is no bundle $2"
for tool in g++ nvcc cmake; do
  command -v "$tool" >/dev/null || fail "needs $tool on PATH"
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
gtest=()
[ -z "${LOCKSTEP_GTEST_SOURCE-}" ] || gtest=("-DLOCKSTEP_GTEST_SOURCE=$LOCKSTEP_GTEST_SOURCE")
jobs=${LOCKSTEP_JOBS:-$(nproc)}
{
  cmake "${generator[@]}" -S . -B build/gpu -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
    -DLOCKSTEP_WERROR=ON "${gtest[@]}"
  cmake --build build/gpu -j "$jobs" --target cuda_kernels_test cuda_bench
} >"$results/build.txt" 2>&1 || { tail -30 "$results/build.txt" >&2; fail "the build failed"; }
echo "gpu_check: built"

if ! build/gpu/bin/cuda_bench --devices >"$results/devices.txt" 2>&1; then
  cat "$results/devices.txt" >&2
  exit 2
fi
cat "$results/devices.txt"

failed=()
# step NAME SECONDS COMMAND...: its output goes to NAME.txt.
step() {
  local name=$1 seconds=$2
  shift 2
  if timeout "$seconds" "$@" >"$results/$name.txt" 2>&1; then
    echo "gpu_check: $name: passed"
  else
    failed+=("$name")
    echo "gpu_check: $name: FAILED with exit code $?; the end of it:"
    tail -30 "$results/$name.txt"
  fi
}

tests=build/gpu/tests/cuda_kernels_test
# The shim's own rows are the other tests' affair.
step tests 150 "$tests" --gtest_brief=1 "--gtest_filter=-*cuda_shim*:Shim*"
grep -hE "SKIPPED|tests ran|PASSED|FAILED" "$results/tests.txt" | tail -5 || true
step kernels 120 build/gpu/bin/cuda_bench
cat "$results/kernels.txt"

if command -v compute-sanitizer >/dev/null; then
  # Slow by a factor of tens: the tests of one call each, and few of the others.
  some="*AroundBlockBorders*:*RowKernelTest.AgreesWithTheReference*:RopeTest.*:EmbedTest.*"
  some="$some:*HeadsFindTheirKvHead*:*SlicesOfColumns*:*EditsAndMask*:SelectRowsTest.*"
  step memcheck 90 compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$tests" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
  step racecheck 90 compute-sanitizer --tool racecheck --error-exitcode 9 \
    "$tests" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
else
  echo "gpu_check: no compute-sanitizer here: memcheck and racecheck left out"
fi

# --- The whole system.

# Llama-3-8B's shape: its weights are drawn, 16 GB of them.
write_llama() {
  mkdir -p "$1"
  cat >"$1/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
 "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
 "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
 "bos_token_id": 128000, "eos_token_id": 128001, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16"}
JSON
}

whole_system() {
  local lockstep models ranks
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  tar -C "$unpacked" -xzf "$bundle"
  lockstep=$(echo "$unpacked"/lockstep-*/bin/lockstep)
  step doctor 30 "$lockstep" doctor
  cat "$results/doctor.txt"
  for ranks in 1 2; do
    step "text_$ranks" 60 "$lockstep" generate --prompt Once --max-tokens 48 --temperature 0 \
      --device cuda:0 --workers "$ranks" --memory-fraction 0.3 --json
  done
  # Not promised: cuBLASLt may take another algorithm for a slice of a matrix.
  cmp -s "$results/text_1.txt" "$results/text_2.txt" && echo "gpu_check: one rank's text is two's"
  if [ -n "$goldens" ]; then
    models=("$goldens"/{llama_gqa,llama_tied,llama3_rope,mistral_window,qwen2,qwen3})
    step goldens_1 120 tools/golden_check.py "$lockstep" "${models[@]}" -- --device cuda:0
    step goldens_2 180 tools/golden_check.py "$lockstep" "${models[@]}" -- --device cuda:0 \
      --workers 2 --memory-fraction 0.3
    cat "$results"/goldens_*.txt
  fi
  write_llama "$unpacked/llama-3-8b"
  step bench 400 "$lockstep" bench "$unpacked/llama-3-8b" --random-weights 1 --dtype bfloat16 \
    --device cuda:0 --max-context 4608 --log-level info \
    --cases prefill:512,prefill:2048,decode:64,decode:64x16,decode:32@4096
  cat "$results/bench.txt"
  command -v compute-sanitizer >/dev/null || return 0
  for tool in memcheck racecheck; do
    step "system_$tool" 200 compute-sanitizer --target-processes all --tool "$tool" \
      --error-exitcode 9 "$lockstep" generate --prompt Once --max-tokens 3 --device cuda:0
  done
}
[ -z "$bundle" ] || whole_system

[ ${#failed[@]} -eq 0 ] || fail "failed: ${failed[*]}; see $results"
echo "gpu_check: all passed; tables are in $results"
