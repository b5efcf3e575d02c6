#!/usr/bin/env bash
# fuzz.sh [NAME...] [--runs N] [--seconds S]: builds the fuzz targets with clang and runs each of them (or those named)
# from its corpus in tests/fuzz/corpus, two at a time: 200,000 runs or 60 seconds, whichever comes first.
# A target that finds something fails; its input is then in build/fuzz/found. What was new is in build/fuzz/new.
set -euo pipefail
cd "$(dirname "$0")/.."

names=() runs=200000 seconds=60
while [ $# -gt 0 ]; do
  case "$1" in
    --runs) runs=${2:?}; shift ;;
    --seconds) seconds=${2:?}; shift ;;
    -*) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
all=()
for folder in tests/fuzz/corpus/*/; do all+=("$(basename "$folder")"); done
[ ${#names[@]} -gt 0 ] || names=("${all[@]}")
for name in "${names[@]}"; do
  [ -d "tests/fuzz/corpus/$name" ] || { echo "fuzz.sh: no target '$name'; there are: ${all[*]}" >&2; exit 2; }
done

clang=$(command -v clang++-14 || command -v clang++) || { echo "fuzz.sh needs clang++ (install_deps.sh --developer)" >&2; exit 1; }
began=$SECONDS
mkdir -p build
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Fuzz -DMME_FUZZ=ON \
  -DMME_WITH_TORCH=OFF -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 -DCMAKE_CXX_FLAGS_FUZZ="-O1 -g1" \
  -DCMAKE_CXX_FLAGS="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=function,vptr -fno-sanitize-recover=undefined -Wno-unused-command-line-argument -Wno-unknown-warning-option" \
  >build/fuzz.log 2>&1 || { cat build/fuzz.log; exit 1; }
cmake --build build/fuzz --parallel "$(nproc)" --target "${names[@]/#/fuzz_}" >build/fuzz.log 2>&1 ||
  { cat build/fuzz.log; exit 1; }
echo "built in $((SECONDS - began)) s"

mkdir -p build/fuzz/found build/fuzz/new
run() {
  local name=$1 log=build/fuzz/$1.log new=build/fuzz/new/$1 dict=tests/fuzz/$1.dict
  mkdir -p "$new"
  local more=()
  [ -f "$dict" ] && more=(-dict="$dict")
  if build/fuzz/tests/fuzz/fuzz_"$name" -runs="$runs" -max_total_time="$seconds" -max_len=1024 -timeout=20 \
    -rss_limit_mb=2048 -artifact_prefix=build/fuzz/found/"$name"- -print_final_stats=1 "${more[@]}" \
    "$new" tests/fuzz/corpus/"$name" >"$log" 2>&1; then
    printf '%-14s %s runs, %s a second: nothing found\n' "$name" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")"
  else
    tail -40 "$log" | cut -c 1-200
    printf '%-14s FOUND something, see build/fuzz/found and %s\n' "$name" "$log"
    return 1
  fi
}
export -f run
export runs seconds
printf '%s\n' "${names[@]}" | xargs -P 2 -I NAME bash -c 'run NAME' || exit 1
