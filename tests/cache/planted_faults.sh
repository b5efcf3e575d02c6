#!/bin/sh
# Builds the cache with each planted fault in turn and sees the suite turn red; then once without, and sees it green.
# usage: tests/cache/planted_faults.sh [BUILD_DIR]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/faults}
faults=$(sed -n 's/^ *"\([a-z_]*\)".*/\1/p' "$root/cache/faults.hpp")
bad=0
for fault in $faults ""; do
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DMME_WITH_TORCH=OFF "-DMME_FAULT=$fault" >/dev/null
  cmake --build "$build" --target test_cache -j 2 >/dev/null
  if timeout 120 "$build/tests/cache/test_cache" >"$build/fault.log" 2>&1; then
    seen=green
  else
    seen=red
  fi
  expected=red
  [ -n "$fault" ] || expected=green
  echo "${fault:-none}: $seen"
  [ "$seen" = "$expected" ] || bad=1
  [ "$seen" = green ] || sed -n '/^-----/{n;p;q;}' "$build/fault.log" | sed 's/^/  first: /'
done
exit $bad
