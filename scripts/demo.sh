#!/usr/bin/env bash
# demo.sh [--serve]: makes twenty example models, serves them in a third of the memory they need, calls them with a skewed
# load and says what the server did. Exit 0 only if every answer was right and the budget held.
# --serve leaves the server running afterwards, until Ctrl-C.
# MME_SKIP_INSTALL=1 leaves the machine's packages alone; MME_DEMO_SECONDS (15) is the length of the load.
set -euo pipefail
cd "$(dirname "$0")/.."

stay=0
case "${1:-}" in
  "") ;;
  --serve) stay=1 ;;
  *) echo "usage: scripts/demo.sh [--serve]" >&2; exit 2 ;;
esac

work=build/demo
log=$work/server.log
server=

stop_server() {  # gives the server's exit code
  local code=0
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" || code=$?
  server=
  return "$code"
}
trap '[ -z "$server" ] || stop_server || true' EXIT

port_from_log() {
  sed -n 's/.*"event":"listening".*"port":\([0-9]*\).*/\1/p' "$log" | head -n 1
}

start_server() {  # sets server and port; arguments: the budget in bytes
  : >"$log"  # before the server's own shell makes it: it is read at once
  # In a session of its own, so that Ctrl-C reaches this script only, which then ends the server once and waits.
  setsid build/release/mme serve --models "$work/models" --host 127.0.0.1 --port 0 --memory-budget "$1" \
    >"$work/server.out" 2>"$log" &
  server=$!
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    port=$(port_from_log)
    [ -n "$port" ] && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  echo "The server did not start. Its log, $log:" >&2
  cat "$log" >&2
  return 1
}

echo "1. Building (the first time takes some minutes)"
[ "${MME_SKIP_INSTALL:-0}" = 1 ] || scripts/install_deps.sh
mkdir -p "$work"
scripts/build.sh release mme make_example_models demo_client >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }

echo "2. Making example models"
rm -rf "$work/models"
made=$(build/release/make_example_models "$work/models" "$work/manifest.json")
total=${made##*, }
total=${total% bytes}
budget=$((total / 3))
echo "   $made, in $work/models"

echo "3. Serving them with a memory budget of $budget bytes, a third of their sum"
start_server "$budget"
echo "   http://127.0.0.1:$port, process $server, log in $log"

echo "4. Calling them for ${MME_DEMO_SECONDS:-15} seconds, popular ones more often"
good=0
build/release/demo_client "$work/manifest.json" --port "$port" --seconds "${MME_DEMO_SECONDS:-15}" || good=1

if [ "$stay" = 1 ] && [ "$good" = 0 ]; then
  cat <<END

The server stays up until Ctrl-C. Try:
  curl -s http://127.0.0.1:$port/status
  curl -s http://127.0.0.1:$port/v2/models/score-lead/infer -H 'Content-Type: application/json' \\
    -d '{"inputs":[{"name":"features","shape":[1,12],"datatype":"FP32","data":[1,2,3,4,5,6,7,8,9,10,11,12]}]}'
END
  trap 'echo' INT TERM  # only ends the wait
  wait "$server" || true
  trap - INT TERM
fi

code=0
stop_server || code=$?
if [ "$code" != 0 ]; then
  echo "WRONG: the server ended with exit code $code; its log is $log" >&2
  exit 1
fi
echo "The server drained and ended with exit code 0."
exit "$good"
