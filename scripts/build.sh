#!/usr/bin/env bash
# build.sh debug|release|asan|tsan [TARGET...]: configures and builds one flavour in build/FLAVOUR.
# asan and tsan build everything that can run under that sanitizer (tsan: without libtorch).
set -euo pipefail
cd "$(dirname "$0")/.."

flavour=${1:-release}
case "$flavour" in
  debug|release|asan|tsan) ;;
  *) echo "usage: scripts/build.sh debug|release|asan|tsan [TARGET...]" >&2; exit 2 ;;
esac
shift || true

# So that two clones share what the compiler cache holds.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p build
cmake --preset "$flavour" >"build/$flavour.log" 2>&1 || { cat "build/$flavour.log"; exit 1; }
targets=()
[ $# -gt 0 ] && targets=(--target "$@")
cmake --build --preset "$flavour" --parallel "$(nproc)" "${targets[@]}"
