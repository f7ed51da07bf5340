#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing Debian packages for building and testing; uses sudo if it is not run as root.
# Sourced by quickstart.sh, test.sh and rehearsal/setup.sh.
set -euo pipefail

lockstep_packages=(
  g++ cmake ninja-build ccache pkg-config
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler libabsl-dev libssl-dev
  libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libonig-dev libutf8proc-dev
  libboost1.81-dev libnghttp2-dev prometheus-cpp-dev
)
lockstep_test_packages=(
  curl libgtest-dev libgmock-dev libbenchmark-dev python3 python3-grpcio python3-venv python3-yaml
  chromium chromium-driver python3-selenium libfaketime git clang-14 clang-format clang-tidy
  libclang-rt-14-dev
)

# For deploy/build_image.sh and tools/rehearse, which need root and Debian 12.
lockstep_rehearsal_packages=(
  debootstrap buildah podman runc netavark aardvark-dns catatonit iptables nftables iproute2 openssl
  python3-yaml python3-grpcio
)

# install_packages NAME...: installs the missing ones.
install_packages() {
  local missing=()
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null || {
    echo "lockstep: no apt-get to install the missing packages: ${missing[*]}" >&2
    exit 2
  }
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
      echo "lockstep: run as root, or install sudo: packages are missing: ${missing[*]}" >&2
      exit 2
    }
    sudo=(sudo)
  fi
  echo "lockstep: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# Without these packages RehearsalRunTest is skipped.
install_rehearsal_packages() {
  [ "$(id -u)" -eq 0 ] && grep -q '^VERSION_ID="12"' /etc/os-release 2>/dev/null || return 0
  (install_packages "${lockstep_rehearsal_packages[@]}") ||
    echo "lockstep: manifests are not rehearsed: could not install" \
      "${lockstep_rehearsal_packages[*]}"
}

# Makes build/python, an environment with the packages that check manifests, the official client of
# OpenAI's API, and the packages that vLLM's HTTP tests import. Without a network it is not made,
# and the tests that need it are skipped.
install_python_packages() {
  local packages=(
    kubernetes-validate==1.37.0 openai==3.54.0
    jinja2==3.1.6 prometheus-client==0.26.0 pytest==9.2.0 pytest-asyncio==1.5.0
    pybase64==1.5.1 pytest-timeout==2.4.0 regex==2026.11.19 requests==2.34.2 transformers==5.24.0
  )
  build/python/bin/python -c \
    'import kubernetes_validate, openai, pybase64, pytest_timeout, transformers' \
    2>/dev/null && return 0
  python3 -m venv build/python >/dev/null && build/python/bin/pip install -q "${packages[@]}" ||
    {
      rm -rf build/python
      echo "lockstep: tests that need these packages are skipped: could not install ${packages[*]}"
    }
}
