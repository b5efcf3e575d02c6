#!/usr/bin/env bash
# test.sh [--long]: installs what is missing, builds the release flavour and runs every test.
# --long runs the soak and stress tests at their full length (minutes each instead of seconds).
# MME_SKIP_INSTALL=1 leaves the machine's packages alone.
set -euo pipefail
cd "$(dirname "$0")/.."

patience=1
case "${1:-}" in
  "") ;;
  --long) export MME_LONG=1 patience=10 ;;
  *) echo "usage: scripts/test.sh [--long]" >&2; exit 2 ;;
esac

[ "${MME_SKIP_INSTALL:-0}" = 1 ] || scripts/install_deps.sh
scripts/build.sh release
cmake -DMME_TEST_PATIENCE=$patience build/release >/dev/null
# One more than there are cores: the longest suites wait for time to pass.
ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$(($(nproc) + 1))"
