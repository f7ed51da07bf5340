#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests tools/gpu_check.sh with programs that only print what real ones would. Timed steps must run
# alone, others in parallel. Steps that fail or hang must not stop others, the time limit must hold,
# and the summary must have all results.
#   gpu_check_test.sh SOURCE_FOLDER
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
  echo "gpu_check_test: $*" >&2
  tail -n 40 "$folder/out.txt" >&2 || true
  exit 1
}
program() {
  mkdir -p "$(dirname "$1")"
  cat >"$1"
  chmod +x "$1"
}
# Every program of the plan has a file in $folder/now while it runs. `together N NAME` waits until N
# programs of that name have begun: it fails unless they run in parallel. `alone` fails if another
# program runs.
program "$folder/plan.sh" <<PROGRAM
mkdir -p "$folder/now" "$folder/begun"
me=$folder/now/\$\$
touch "\$me"
trap 'rm -f "\$me"' EXIT
together() {
  touch "$folder/begun/\$2.\$\$"
  for i in \$(seq 600); do
    [ "\$(ls "$folder/begun" | grep -c "^\$2\.")" -lt "\$1" ] || return 0
    sleep 0.1
  done
  echo "not \$1 \$2 side by side"
  exit 8
}
alone() {
  [ "\$(ls "$folder/now")" = "\$\$" ] || { echo "others run"; exit 8; }
}
PROGRAM
# make_pack TESTS BENCH: makes a pack whose kernel tests end with the command TESTS, and whose
# `lockstep bench` ends with BENCH.
make_pack() {
  rm -rf "$folder/pack" "$folder/lockstep-0" "$folder/begun"
  mkdir -p "$folder/pack/goldens/one" "$folder/pack/goldens/two"
  program "$folder/kernels/cuda_kernels_test" <<PROGRAM
#!/bin/bash
. "$folder/plan.sh"
case \$* in
  *list_tests*) printf 'Gpu/RealLinearTest.\n  ARowsBits/one  # Get() = 1\n  ARowsBits/two\n' ;;
  *RealLinearTest.ARowsBits/two) echo "two ran"; exit \${TWO_FAILS-0} ;;
  *RealLinearTest.ARowsBits/one) echo one >>"$folder/ran_one" ;;
  *filter=\\*ExchangeTest*) alone ;;
  *) [ -z "\${GTEST_SHARD_INDEX-}" ] || together \$GTEST_TOTAL_SHARDS shard; $1 ;;
esac
PROGRAM
  program "$folder/kernels/cuda_bench" <<PROGRAM
#!/bin/bash
. "$folder/plan.sh"
[ "\${1-}" != --devices ] || { echo "GPU 0: \${FAKE_GPU-none such}"; exit; }
alone
[ "\${1-}" != --variants ] || {
  variant() {
    echo "{\"variant\": \"\$1\", \"tile_rows\": \$2, \"shape\": \"7 x 8 x 9\", \"tflop_s\": \$3," \
      "\"same_bits\": \$4}"
  }
  variant linear_mma_q4 0 10.5 true
  variant linear_wgmma_q4 64 20.5 false
  attention() {
    echo "{\"variant\": \"attention_\$1\", \"pages\": \"bf16\", \"shape\": \"2 of 3\"," \
      "\"us\": \$2, \"same_bits\": \$3}"
  }
  attention mma 7.5 true
  attention in_turn 6.5 false
  exit 0
}
echo '{"kernel": "copy", "shape": "within the GPU", "us": 1.0, "gb_s": 3000.0, "gflop_s": 0.0}'
echo '{"kernel": "linear", "shape": "1 x 2 x 3", "us": 2.0, "gb_s": 5.0, "gflop_s": 6.0}'
PROGRAM
  program "$folder/lockstep-0/bin/lockstep" <<PROGRAM
#!/bin/bash
. "$folder/plan.sh"
[ "\$1" != generate ] || [[ \$* = *--input* ]] || together 4 text
[ "\$1" = bench ] || { echo "\$1"; exit; }
alone
echo '{"case": "decode:64", "tokens": 64, "tokens_per_s": 100.5}'
$2
PROGRAM
  tar -C "$folder" -cJf "$folder/pack/bundle.tar.xz" lockstep-0
  tar -C "$folder" -cJf "$folder/pack/kernels.tar.xz" kernels
}
# again SECONDS EXIT_CODE [PART...]: runs the check again in the same folder of results.
again() {
  local code=0 seconds=$1 wanted=$2
  shift 2
  LOCKSTEP_GPU_SECONDS=$seconds PATH="$folder/bin:$PATH" "$source/tools/gpu_check.sh" \
    "$folder/results" "$folder/pack" "$@" >"$folder/out.txt" 2>&1 || code=$?
  [ $code -eq "$wanted" ] || fail "exit code must be $wanted, found $code"
  [ "$(cd "$folder/results" && echo *)" = "logs results.json summary.md" ] ||
    fail "must be logs and two files, found $(ls "$folder/results")"
}
check() {
  rm -rf "$folder/results"
  again "$@"
}
wants() {
  grep -qF -- "$1" "$folder/results/summary.md" || fail "the summary lacks: $1"
}
source=$1
program "$folder/bin/compute-sanitizer" <<<"#!/bin/sh
exit 0"
# The goldens' check is a Python program, which is faked. The comparison with PyTorch finds no
# PyTorch.
program "$folder/bin/python3" <<PROGRAM
#!/bin/bash
case \$1 in
  *golden_check.py) . "$folder/plan.sh"; together 3 golden ;;
  *torch_peer.py) . "$folder/plan.sh"; alone; echo "no PyTorch"; exit 3 ;;
  *) exec $(command -v python3) "\$@" ;;
esac
PROGRAM

make_pack true true
check 200 0
wants "# GPU check, $(date +%Y-%m-%d): GPU 0: none such"
wants "| within the GPU | 3000.0 GB/s |"
wants "| q4 | 7 x 8 x 9 | 10.5 | 20.5 (other bits) |"
wants "| bf16 | 2 of 3 | 6.5 (other bits) | 7.5 |"
wants "| decode:64 | 100.5 | - | - |"
wants "| decode:64 | 100.5 | 100.5 | 100.5 | 100.5 |"
wants "| doctor_gpu | passed |"
wants "| linear | 1 x 2 x 3 | 2.0 | 5.0 | 6.0 |"
wants "| system_memcheck | passed |"
wants "| text_2 is text_1 | yes |"
wants "| linears_one | passed |"
wants "| tests_8 | passed |"
wants "| goldens_direct | passed |"
wants "| torch | not here: no PyTorch |"
python3 -m json.tool "$folder/results/results.json" >/dev/null || fail "results.json is not JSON"
tail -n 5 "$folder/out.txt" | grep -q "decode:64" || fail "the summary is not printed last"

# Runs one part: steps that passed are not run again, steps that failed are.
rm "$folder/ran_one"
TWO_FAILS=5 check 200 1 linears
wants "| linears_one | passed |"
wants "| linears_two | FAILED: exit code 5 |"
! grep -q "memcheck\|bench" "$folder/results/summary.md" || fail "other parts ran as well"
again 200 0 linears
wants "| linears_two | passed |"
[ "$(wc -l <"$folder/ran_one")" -eq 1 ] || fail "a step that passed was run again"
again 200 0 tests
wants "| tests_0 | passed |"
wants "| linears_two | passed |"

# A summary must not have figures of two machines.
FAKE_GPU=another again 200 1 tests
grep -q "is of another machine (GPU 0: none such)" "$folder/out.txt" || fail "two machines mixed"

# A step that hangs uses all the time that is left.
make_pack "echo '[  FAILED  ] OneTest.Breaks (3 ms)'; exit 7" "sleep 100"
check 9 1 tests speed
wants "| tests_3 | FAILED: exit code 7 |"
wants "- OneTest.Breaks"
wants "| bench | FAILED: not done in"
wants "| decode:64 | 100.5 | - | - |"
wants "| torch | left out: no time | 0 |"
