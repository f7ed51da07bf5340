#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs everything that needs a GPU on this machine's first one, without a network:
#   tools/gpu_check.sh FOLDER [PACK] [PART...]
# PACK was made by tools/gpu_pack.sh on a machine with gRPC. Without it only kernels are built,
# tested and measured: with g++, nvcc of CUDA 13, CMake and GoogleTest (a package, or its sources in
# LOCKSTEP_GTEST_SOURCE or /usr/src/googletest). This machine must have libcublasLt of CUDA 13.
# Parts, all five by default and in this order:
#   tests       the kernels' tests, nine processes at a time
#   answers     goldens and a text: by one rank with CUDA graphs, by one without, by two ranks; the
#               text by the CPU, too; four processes at a time
#   speed       times of Llama-3-8B's shape (in bfloat16, with --fast, in int4, without graphs, by
#               PyTorch), of each kernel in a graph of many calls, and of the variants of linears,
#               experts and attention, whose bits are compared; one after the other, while nothing
#               else runs
#   linears     the bits of a row among 1 to 8192 others in linears of real shapes, kernel by kernel
#   sanitizers  memcheck and racecheck of some tests, memcheck of a text
# All parts together may take LOCKSTEP_GPU_SECONDS (290), not counting the build, and each step has
# its own limit. A step that fails does not stop the others. Steps that passed are not repeated with
# the same FOLDER, so the command can be repeated until it is complete. FOLDER gets summary.md (also
# printed at the end), results.json and logs. Exit code 0: everything passed; 1: something failed or
# was left out; 2: there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check: $*" >&2; exit 1; }

[ $# -ge 1 ] || fail "FOLDER: must be the folder for results, found none; see the head of $0"
mkdir -p "$1/logs"
results=$(cd "$1" && pwd)
shift
all_parts=(tests answers speed linears sanitizers)
is_part() { [[ " ${all_parts[*]} " == *" $1 "* ]]; }
pack='' parts=()
if [ $# -gt 0 ] && ! is_part "$1"; then
  pack=$(realpath "$1")
  [ -f "$pack/bundle.tar.xz" ] || fail "$pack/bundle.tar.xz: must exist, found none"
  shift
fi
for part in "$@"; do
  is_part "$part" || fail "PART: must be one of ${all_parts[*]}, found $part"
  parts+=("$part")
done
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
give_time() { last=$((SECONDS + ${LOCKSTEP_GPU_SECONDS:-290})); }
give_time
work=$(mktemp -d)
logs=$results/logs

# Always summarizes the available results.
sum_up() {
  local running
  mapfile -t running < <(jobs -rp)
  [ ${#running[@]} -eq 0 ] || kill "${running[@]}" 2>/dev/null || true
  python3 tools/bench/gpu_report.py "$logs" "$results" || true
  rm -rf "$work"
}
trap sum_up EXIT
trap 'exit 1' INT TERM

# forget NAME: removes the step's record, NAME.step, which has the time when the step began, its
# outcome and its seconds.
forget() { rm -f "$logs/$1.step"; }
# note NAME OUTCOME SECONDS: writes the record of a step that ends now.
note() {
  printf '%s\t%s\t%s\n' "$(($(date +%s%N) / 1000000 - 1000 * $3))" "$2" "$3" >"$logs/$1.step"
  echo "gpu_check: $1: $2 ($3 s)"
}
passed() { grep -qs "	passed	" "$logs/$1.step"; }
# step NAME LIMIT COMMAND...: runs the command, with its output in NAME.txt. Never fails itself.
# Exit code 3 means that the command does not apply here; the last line of its output has the
# reason.
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
# `beside WIDTH NAME LIMIT COMMAND...`: runs a step in the background, at most WIDTH steps at once;
# `wait` waits for them. Times of such steps mean nothing.
beside() {
  local width=$1
  shift
  while [ "$(jobs -rp | wc -l)" -ge "$width" ]; do wait -n || true; done
  step "$@" &
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

# Tests of the shim (kernels on the CPU) and tests that other parts run are left out.
part_tests() {
  local shard
  local -r shards=9
  # Two ranks in one process on one GPU: kernels that wait for each other run alone.
  step exchange 60 "$kernels/cuda_kernels_test" --gtest_brief=1 "--gtest_filter=*ExchangeTest*Gpu"
  for ((shard = 0; shard < shards; ++shard)); do
    beside $shards "tests_$shard" 200 env GTEST_TOTAL_SHARDS=$shards "GTEST_SHARD_INDEX=$shard" \
      "$kernels/cuda_kernels_test" --gtest_brief=1 \
      "--gtest_filter=-*cuda_shim*:Shim*:TensorCore*:*RealLinear*:SmallLinear*:*ExchangeTest*"
  done
  wait
}

# same_text NAME [OUTCOME]: compares the text of step NAME with that of step text_1, and notes yes
# if they are equal. If they differ, it notes OUTCOME, by default no. This default is not a failure:
# it is for the text of CPUs, which sum in another order.
same_text() {
  local outcome=${2-no}
  passed text_1 && passed "$1" || return 0
  ! cmp -s "$logs/text_1.txt" "$logs/$1.txt" || outcome=yes
  note "$1 is text_1" "$outcome" 0
}

# golden NAME FLAGS...: the answers of all models of the pack.
golden() {
  local name=$1
  shift
  [ -d "$pack/goldens" ] || return 0
  beside 4 "$name" 120 env "LOCKSTEP_GRAPHS=${graphs-on}" python3 tools/golden_check.py \
    "$lockstep" "$pack"/goldens/* -- "$@"
}

# Two ranks on one GPU communicate through the host.
part_answers() {
  [ -n "$lockstep" ] || return 0
  local text=(generate --prompt Once --max-tokens 48 --temperature 0 --seed 1 --json)
  local flags=(--device cuda:0 --memory-fraction 0.1)
  golden goldens_1 "${flags[@]}"
  golden goldens_2 "${flags[@]}" --workers 2
  graphs=off golden goldens_direct "${flags[@]}"
  beside 4 text_1 60 "$lockstep" "${text[@]}" "${flags[@]}"
  beside 4 text_direct 60 env LOCKSTEP_GRAPHS=off "$lockstep" "${text[@]}" "${flags[@]}"
  beside 4 text_2 60 "$lockstep" "${text[@]}" "${flags[@]}" --workers 2
  beside 4 text_cpu 60 "$lockstep" "${text[@]}" --device cpu
  wait
  same_text text_direct "FAILED: graphs change bits"
  same_text text_2 "FAILED: two ranks have other bits"
  same_text text_cpu
}

part_speed() {
  local model=("$llama" --random-weights 1 --device cuda:0 --max-context 8448 --log-level info)
  model+=(--json --dtype bfloat16)
  if [ -n "$lockstep" ]; then
    step doctor 30 "$lockstep" doctor
    step bench 60 "$lockstep" bench "${model[@]}" --repeat 2 --cases "$cases"
    step torch 60 python3 tools/bench/torch_peer.py "$llama/config.json" --cases "$cases"
    step bench_fast 60 "$lockstep" bench "${model[@]}" --fast --cases "$cases"
    step bench_q4 60 "$lockstep" bench "${model[@]}" --quantize q4 --cases "$cases"
    step bench_direct 45 env LOCKSTEP_GRAPHS=off "$lockstep" bench "${model[@]}" \
      --cases decode:64,decode:32x64
    step doctor_gpu 30 "$lockstep" doctor --gpu
  fi
  step kernels 60 "$kernels/cuda_bench"
  step variants 60 "$kernels/cuda_bench" --variants
}

# One step per kernel.
part_linears() {
  local test listed=()
  mapfile -t listed < <("$kernels/cuda_kernels_test" --gtest_list_tests \
    '--gtest_filter=*RealLinear*' | sed -n 's/^  \(ARowsBits[^ ]*\).*/\1/p')
  forget linears
  [ ${#listed[@]} -gt 0 ] || note linears "FAILED: the tests list no linears" 0
  for test in "${listed[@]}"; do
    beside 4 "linears_${test##*/}" 120 "$kernels/cuda_kernels_test" --gtest_brief=1 \
      "--gtest_filter=*RealLinearTest.$test"
  done
  wait
}

# The sanitizers slow tests down by tens of times, so only tests of a single call and a few others
# are run.
part_sanitizers() {
  local some tool
  command -v compute-sanitizer >/dev/null || return 0
  some="*AroundBlockBorders*:*RowKernelTest.AgreesWithTheReference*:RopeTest.*:EmbedTest.*"
  some="$some:*HeadsFindTheirKvHead*:*WithoutDepthOnly*:*EditsAndMask*:SelectRowsTest.*"
  for tool in memcheck racecheck; do
    beside 3 $tool 60 compute-sanitizer --tool $tool --error-exitcode 9 \
      "$kernels/cuda_kernels_test" --gtest_brief=1 "--gtest_filter=$some:-*cuda_shim*"
  done
  [ -z "$lockstep" ] ||
    beside 3 system_memcheck 60 compute-sanitizer --target-processes all --tool memcheck \
      --error-exitcode 9 "$lockstep" generate --prompt Once --max-tokens 3 --device cuda:0 \
      --memory-fraction 0.1
  wait
}

export -f look_around build
forget environment
step environment 30 bash -c look_around
if [ -n "$pack" ]; then
  tar -C "$work" -xJf "$pack/bundle.tar.xz"
  tar -C "$work" -xJf "$pack/kernels.tar.xz"
  kernels=$work/kernels lockstep=$(echo "$work"/lockstep-*/bin/lockstep)
else
  kernels=$PWD/build/gpu/kernels lockstep=
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

give_time
for part in "${parts[@]}"; do "part_$part"; done
if grep -q "FAILED\|left out" "$logs"/*.step; then exit 1; fi
