#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/bundle.sh makes an archive that generates text with its own libraries and its own model.
#   bundle_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail

fail() { echo "bundle_test: $*" >&2; exit 1; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1/tools/bundle.sh" "$folder/bundle.tar.gz" "$2"
tar -C "$folder" -xzf "$folder/bundle.tar.gz"
top=$(echo "$folder"/lockstep-*-linux-*)
[ -d "$top" ] || fail "the top must be one folder, found: $(ls "$folder")"
for file in LICENSE README.md share/lockstep/{proto/generate.proto,demo/config.json}; do
  [ -s "$top/$file" ] || fail "$file is missing"
done

# All libraries except the C and C++ runtime must be loaded from the bundle.
system='linux-vdso|ld-linux[^/]*|libc|libm|libpthread|libdl|librt|libstdc\+\+|libgcc_s'
libraries=$(ldd "$top/bin/lockstep")
strangers=$(grep -vF " => $top/bin/../lib/" <<<"$libraries" |
  grep -vE "^[[:space:]]*([^[:space:]]*/)?($system)\.so" || true)
[ -z "$strangers" ] || fail "libraries from elsewhere:"$'\n'"$strangers"
[[ $libraries == *'libgrpc++.so'* ]] || fail "gRPC is not among the libraries"

cd /
doctor=$(env -i "$top/bin/lockstep" doctor)
[[ $doctor == *" $top/share/lockstep/demo"* ]] || fail "not the bundle's model: $doctor"
answer=$(env -i "$top/bin/lockstep" generate --prompt Once --max-tokens 5 --ignore-eos --json)
[[ $answer == *'"finish_reason":"length"'* ]] || fail "wrong answer: $answer"
