#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs everything that needs a GPU on this machine's first one, without a network:
#   tools/gpu_check.sh FOLDER [PACK] [PART...]
# PACK was made by tools/gpu_pack.sh on a machine with gRPC. Without it only kernels are built,
# tested and measured: with g++, nvcc of CUDA 13, CMake and GoogleTest (a package, or its sources in
# LOCKSTEP_GTEST_SOURCE or /usr/src/googletest). This machine must have libcublasLt of CUDA 13.
# Parts, all four by default:
#   tests     the kernels' tests
#   linears   the bits of a row among 1 to 8192 others in linears of real shapes, kernel by kernel
#   system    doctor, text, Llama-3-8B's shape in both numeric classes and compared with PyTorch,
#             proofs of its kernels, each kernel
#   proof     goldens and text by one rank, with CUDA graphs and without, two ranks and the CPU;
#             memcheck and racecheck
# Each part has LOCKSTEP_GPU_SECONDS (460) and each step its own limit; a step that fails does not
# stop the others. Steps that passed are not repeated with the same FOLDER, so that a part can be
# run again until it is complete. FOLDER gets summary.md (also printed, last), results.json and
# logs. Exit code 0: everything passed; 1: something failed or was left out; 2: there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check: $*" >&2; exit 1; }

[ $# -ge 1 ] || fail "want the folder for results; see the head of $0"
mkdir -p "$1/logs"
results=$(cd "$1" && pwd)
shift
pack='' parts=()
if [ $# -gt 0 ] && [[ ! $1 =~ ^(tests|linears|system|proof)$ ]]; then
  pack=$(realpath "$1")
  [ -f "$pack/bundle.tar.gz" ] || fail "there is no $pack/bundle.tar.gz"
  shift
fi
for part in "$@"; do
  [[ $part =~ ^(tests|linears|system|proof)$ ]] ||
    fail "found $part, wanted tests, linears, system or proof"
  parts+=("$part")
done
[ ${#parts[@]} -gt 0 ] || parts=(tests linears system proof)
last=$((SECONDS + ${LOCKSTEP_GPU_SECONDS:-460}))
work=$(mktemp -d)
logs=$results/logs
touch "$logs/steps.tsv"

# Always summarizes the available results.
sum_up() {
  python3 tools/bench/gpu_report.py "$logs" "$results" || true
  rm -rf "$work"
}
trap sum_up EXIT
trap 'exit 1' INT TERM

# Removes a step's record.
forget() {
  grep -v "^$1	" "$logs/steps.tsv" >"$work/steps.tsv" || true
  cp "$work/steps.tsv" "$logs/steps.tsv"
}
# note NAME OUTCOME SECONDS
note() {
  forget "$1"
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$logs/steps.tsv"
  echo "gpu_check: $1: $2 ($3 s)"
}
passed() { grep -q "^$1	passed	" "$logs/steps.tsv"; }
# step NAME LIMIT COMMAND...: writes the output to NAME.txt. Never fails itself. Exit code 3 of the
# command: it does not apply here; its last line has the reason.
step() {
  local name=$1 limit=$2 left=$((last - SECONDS)) begin=$SECONDS code=0
  shift 2
  if passed "$name"; then
    echo "gpu_check: $name: passed before"
    return
  fi
  if [ "$left" -lt 5 ]; then
    note "$name" "left out: no time" 0
    return
  fi
  [ "$limit" -le "$left" ] || limit=$left
  timeout -k 5 "$limit" "$@" >"$logs/$name.txt" 2>&1 </dev/null || code=$?
  case $code in
    0) note "$name" passed $((SECONDS - begin)) ;;
    3) note "$name" "not here: $(tail -n 1 "$logs/$name.txt")" $((SECONDS - begin)) ;;
    124 | 137) note "$name" "FAILED: not done in $limit s" $((SECONDS - begin)) ;;
    *) note "$name" "FAILED: exit code $code" $((SECONDS - begin)) ;;
  esac
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || tail -n 15 "$logs/$name.txt" | cut -c1-300
}

build() {
  local generator=() gtest=()
  command -v ninja >/dev/null && generator=(-G Ninja)
  [ -z "${LOCKSTEP_GTEST_SOURCE-}" ] ||
    gtest=("-DLOCKSTEP_GTEST_SOURCE=$LOCKSTEP_GTEST_SOURCE")
  cmake "${generator[@]}" -S . -B build/gpu -DLOCKSTEP_KERNELS_ONLY=ON -DLOCKSTEP_CUDA=ON \
    -DLOCKSTEP_WERROR=ON "${gtest[@]}"
  cmake --build build/gpu -j "${LOCKSTEP_JOBS:-$(nproc)}" --target cuda_kernels_test cuda_bench
  mkdir -p "$1"
  cp build/gpu/tests/cuda_kernels_test build/gpu/bin/cuda_bench "$1"
}

# Llama-3-8B's shape with random weights, 16 GB.
write_llama() {
  mkdir -p "$1"
  cat >"$1/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
 "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
 "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
 "max_position_embeddings": 16384, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
 "bos_token_id": 128000, "eos_token_id": 128001, "tie_word_embeddings": false,
 "torch_dtype": "bfloat16"}
JSON
}
llama=$work/llama-3-8b
write_llama "$llama"
cases=decode:64,decode:32x64,prefill:512,prefill:2048,prefill:8192

look_around() {
  nvidia-smi || true
  for tool in nvcc g++ cmake ninja compute-sanitizer python3; do command -v $tool || true; done
  python3 -c 'import torch; print("torch", torch.__version__)' || true
  echo "LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}"
  nproc
  free -g
}

# The shim has its own rows, which other tests run.
part_tests() {
  # Two ranks in one process on one GPU: the first run of kernels that wait for each other.
  step exchange 60 "$kernels/cuda_kernels_test" --gtest_brief=1 "--gtest_filter=*ExchangeTest*Gpu"
  step tests 400 "$kernels/cuda_kernels_test" --gtest_brief=1 \
    "--gtest_filter=-*cuda_shim*:Shim*:*RealLinear*:SmallLinear*:*ExchangeTest*"
}

# One step per kernel.
part_linears() {
  local test listed=()
  mapfile -t listed < <("$kernels/cuda_kernels_test" --gtest_list_tests \
    '--gtest_filter=*RealLinear*' | sed -n 's/^  \(ARowsBits[^ ]*\).*/\1/p')
  forget linears
  [ ${#listed[@]} -gt 0 ] || note linears "FAILED: the tests list no linears" 0
  for test in "${listed[@]}"; do
    step "linears_${test##*/}" 240 "$kernels/cuda_kernels_test" --gtest_brief=1 \
      "--gtest_filter=*RealLinearTest.$test"
  done
}

text=(generate --prompt Once --max-tokens 48 --temperature 0 --seed 1 --json)
part_system() {
  if [ -n "$lockstep" ]; then
    step doctor 30 "$lockstep" doctor
    step text_1 60 "$lockstep" "${text[@]}" --device cuda:0 --memory-fraction 0.3
    step bench 240 "$lockstep" bench "$llama" --random-weights 1 --dtype bfloat16 --repeat 2 \
      --device cuda:0 --max-context 8448 --log-level info --json --cases "$cases"
    step bench_fast 120 "$lockstep" bench "$llama" --random-weights 1 --dtype bfloat16 --repeat 1 \
      --device cuda:0 --max-context 8448 --fast --log-level info --json --cases "$cases"
    step doctor_gpu 30 "$lockstep" doctor --gpu
    step torch 90 python3 tools/bench/torch_peer.py "$llama/config.json" --cases "$cases"
    step bench_direct 90 env LOCKSTEP_GRAPHS=off "$lockstep" bench "$llama" --random-weights 1 \
      --dtype bfloat16 --device cuda:0 --max-context 8448 --json --cases decode:64,decode:32x64
  fi
  step kernels 75 "$kernels/cuda_bench"
}

# same_text NAME [OUTCOME]: the outcome if texts differ. Ranks and CPUs may differ: cuBLASLt may
# choose another algorithm for a slice of a matrix, and CPUs have another order of sums.
same_text() {
  local outcome=${2-no}
  passed text_1 && passed "$1" || return 0
  ! cmp -s "$logs/text_1.txt" "$logs/$1.txt" || outcome=yes
  note "$1 is text_1" $outcome 0
}

# Two ranks on one GPU communicate through the host.
answers() {
  local flags=(--device cuda:0 --memory-fraction 0.3)
  step text_1 60 "$lockstep" "${text[@]}" "${flags[@]}"
  step text_direct 60 env LOCKSTEP_GRAPHS=off "$lockstep" "${text[@]}" "${flags[@]}"
  step text_2 60 "$lockstep" "${text[@]}" "${flags[@]}" --workers 2
  step text_cpu 30 "$lockstep" "${text[@]}" --device cpu
  same_text text_direct "FAILED: graphs change bits"
  same_text text_2
  same_text text_cpu
  [ -d "$pack/goldens" ] || return 0
  step goldens_1 90 python3 tools/golden_check.py "$lockstep" "$pack"/goldens/* -- "${flags[@]}"
  step goldens_direct 90 env LOCKSTEP_GRAPHS=off python3 tools/golden_check.py "$lockstep" \
    "$pack"/goldens/* -- "${flags[@]}"
  step goldens_2 120 python3 tools/golden_check.py "$lockstep" "$pack"/goldens/* -- "${flags[@]}" \
    --workers 2
}

# The sanitizers slow tests down by tens of times: single-call tests, and few of the others.
part_proof() {
  local some tool
  [ -z "$lockstep" ] || answers
  command -v compute-sanitizer >/dev/null || return 0
  some="*AroundBlockBorders*:*RowKernelTest.AgreesWithTheReference*:RopeTest.*:EmbedTest.*"
  some="$some:*HeadsFindTheirKvHead*:*WithoutDepthOnly*:*EditsAndMask*:SelectRowsTest.*"
  for tool in memcheck racecheck; do
    step $tool 60 compute-sanitizer --tool $tool --error-exitcode 9 \
      "$kernels/cuda_kernels_test" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
  done
  [ -n "$lockstep" ] || return 0
  step system_memcheck 60 compute-sanitizer --target-processes all --tool memcheck \
    --error-exitcode 9 "$lockstep" generate --prompt Once --max-tokens 3 --device cuda:0 \
    --memory-fraction 0.1
}

export -f look_around build
forget environment
step environment 30 bash -c look_around
if [ -n "$pack" ]; then
  kernels=$pack/kernels
  chmod +x "$kernels"/* 2>/dev/null || true  # Copying may have dropped the permission.
else
  kernels=$PWD/build/gpu/kernels
  [ -x "$kernels/cuda_bench" ] || forget build  # On another machine.
  # shellcheck disable=SC2016
  step build 400 bash -ec 'build "$0"' "$kernels"
fi
cp "$logs/devices.txt" "$work/devices.txt" 2>/dev/null || true
forget devices
step devices 30 "$kernels/cuda_bench" --devices
cat "$logs/devices.txt" || true
if [ -e "$work/devices.txt" ] && ! cmp -s "$work/devices.txt" "$logs/devices.txt"; then
  fail "$results is of another machine ($(head -n 1 "$work/devices.txt")): name another folder"
fi
if grep -qs "^no GPU" "$logs/devices.txt"; then exit 2; fi

lockstep=
if [ -n "$pack" ]; then
  tar -C "$work" -xzf "$pack/bundle.tar.gz"
  lockstep=$(echo "$work"/lockstep-*/bin/lockstep)
fi
for part in "${parts[@]}"; do
  last=$((SECONDS + ${LOCKSTEP_GPU_SECONDS:-460}))
  "part_$part"
done

if grep -q "FAILED\|left out" "$logs/steps.tsv"; then exit 1; fi
