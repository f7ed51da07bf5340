#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/gpu_check.sh with programs that only say what real ones would: steps that fail or hang stop
# no other, time is kept, and what there is is summed up.
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
# make_pack TESTS BENCH: what the kernels' tests and `lockstep bench` end with.
make_pack() {
  rm -rf "$folder/pack" "$folder/lockstep-0"
  program "$folder/pack/kernels/cuda_kernels_test" <<<"#!/bin/sh
$1"
  program "$folder/pack/kernels/cuda_bench" <<'PROGRAM'
#!/bin/sh
[ "${1-}" != --devices ] || { echo "GPU 0: none such"; exit; }
echo '{"kernel": "copy", "shape": "within the GPU", "us": 1.0, "gb_s": 3000.0, "gflop_s": 0.0}'
echo '{"kernel": "linear", "shape": "1 x 2 x 3", "us": 2.0, "gb_s": 5.0, "gflop_s": 6.0}'
PROGRAM
  program "$folder/lockstep-0/bin/lockstep" <<PROGRAM
#!/bin/sh
[ "\$1" = bench ] || { echo "\$1"; exit; }
echo '{"case": "decode:64", "tokens": 64, "tokens_per_s": 100.5}'
$2
PROGRAM
  tar -C "$folder" -czf "$folder/pack/bundle.tar.gz" lockstep-0
}
# check SECONDS EXIT_CODE
check() {
  local code=0
  rm -rf "$folder/results"
  LOCKSTEP_GPU_SECONDS=$1 PATH="$folder/bin:$PATH" "$source/tools/gpu_check.sh" \
    "$folder/results" "$folder/pack" >"$folder/out.txt" 2>&1 || code=$?
  [ $code -eq "$2" ] || fail "wanted exit code $2, found $code"
  [ "$(cd "$folder/results" && echo *)" = "logs.tar.gz results.json summary.md" ] ||
    fail "wanted three files, found $(ls "$folder/results")"
}
wants() {
  grep -qF -- "$1" "$folder/results/summary.md" || fail "the summary lacks: $1"
}
source=$1
program "$folder/bin/compute-sanitizer" <<<"#!/bin/sh
exit 0"

make_pack true true
check 200 0
wants "# GPU check, $(date +%Y-%m-%d): GPU 0: none such"
wants "| within the GPU | 3000.0 GB/s |"
wants "| decode:64 | 100.5 | - | - |"
wants "| linear | 1 x 2 x 3 | 2.0 | 5.0 | 6.0 |"
wants "| system_memcheck | passed |"
wants "| text_2 is text_1 | yes |"
python3 -m json.tool "$folder/results/results.json" >/dev/null || fail "results.json is no JSON"
tail -n 5 "$folder/out.txt" | grep -q "decode:64" || fail "the summary is not printed last"

make_pack "echo broken; exit 7" "sleep 100"
check 9 1
wants "| tests | FAILED: exit code 7 |"
wants "| bench | FAILED: not done in"
wants "| decode:64 | 100.5 | - | - |"
wants "| memcheck | left out: no time | 0 |"
