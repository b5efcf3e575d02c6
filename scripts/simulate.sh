#!/usr/bin/env bash
# simulate.sh [--seeds N] [--steps N] [--first SEED] | --seed SEED: plays seeded schedules through the real cache, on all
# cores; 10,000 seeds of 1,000 steps unless told. `--seed` plays one alone, with a line for each step.
# A seed that fails prints itself, and how to play it again.
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=10000 steps=1000 first=1 one=
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds) seeds=${2:?} ;;
    --steps) steps=${2:?} ;;
    --first) first=${2:?} ;;
    --seed) one=${2:?} ;;
    *) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done

scripts/build.sh release test_simulation >/dev/null
program=build/release/tests/simulation/test_simulation
export MME_SIM_STEPS=$steps
[ -z "$one" ] || MME_SIM_SEED=$one exec "$program"

cores=$(nproc)
share=$(((seeds + cores - 1) / cores))
pids=()
for ((core = 0; core < cores; ++core)); do
  MME_SIM_FIRST=$((first + core * share)) MME_SIM_SEEDS=$share "$program" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
echo "$((share * cores)) seeds of $steps steps from $first on: $([ $failed = 0 ] && echo 'all hold' || echo 'FAILED, see above')"
exit $failed
