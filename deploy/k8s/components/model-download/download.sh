#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches the files that SUMS lists (as sha256sum does) from $MODEL_URL into FOLDER. Files that
# have their sum already are kept; a broken download is resumed. $MODEL_TOKEN, if set, is sent as a
# bearer token, by a file of options, so that it is not in the list of processes.
#   download.sh SUMS FOLDER
set -eu
sums=$1
mkdir -p "$2"
cd "$2"

matches() { [ -f "$2" ] && echo "$1  $2" | sha256sum -c - >/dev/null 2>&1; }

umask 077
options=$(mktemp)
trap 'rm -f "$options"' EXIT
[ -z "${MODEL_TOKEN-}" ] ||
  printf 'header = "Authorization: Bearer %s"\n' "$MODEL_TOKEN" >"$options"
umask 022

fetch() {
  curl --config "$options" --fail --silent --show-error --location --retry 5 "$@"
}

while read -r sum name; do
  case $name in
    '') continue ;;
    /* | *..*) echo "download: $name: a file's name must stay in the folder" >&2; exit 1 ;;
  esac
  matches "$sum" "$name" && continue
  mkdir -p "$(dirname "$name")"
  if ! matches "$sum" "$name.part"; then
    echo "download: $name"
    code=0
    fetch --continue-at - --output "$name.part" "$MODEL_URL/$name" || code=$?
    if [ "$code" -eq 33 ]; then  # The server cannot resume.
      code=0
      fetch --output "$name.part" "$MODEL_URL/$name" || code=$?
    fi
    [ "$code" -eq 0 ] || exit "$code"
  fi
  matches "$sum" "$name.part" || {
    rm -f "$name.part"
    echo "download: $name has another SHA-256 than $sums says" >&2
    exit 1
  }
  mv "$name.part" "$name"
done <"$sums"
