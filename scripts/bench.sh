#!/usr/bin/env bash
# bench.sh [ROW...]: measures and prints one table: measure, limit taken in the same run, ours, their ratio, the goal.
# Without arguments: all rows. An idle machine with two cores or more gives figures worth comparing.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh release mme_bench make_test_models mme >&2
models=build/release/test_models
[ -f "$models/big64_0.pt" ] || build/release/make_test_models "$models" --big --twins big32 20 --twins big64 11 >&2
exec build/release/tests/bench/mme_bench "$@"
