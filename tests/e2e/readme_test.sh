#!/usr/bin/env bash
# Runs every command of README.md as it stands there, in order, in an empty folder that has the build.
# Only the port is changed (8080 may be taken). The two long commands have tests of their own and are only checked to
# exist: scripts/demo.sh (ctest e2e_demo) and scripts/test.sh (what runs this).
set -euo pipefail
root=$1 build=$2
work=$(mktemp -d)
server=
finish() {
  [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" || true
  rm -rf "$work"
}
trap finish EXIT
cd "$work"
mkdir build
ln -s "$build" build/release
ln -s "$root/configs" "$root/scripts" .
port=$((20000 + RANDOM % 20000))

# The lines of all ```sh blocks, joined where a line ends in a backslash.
awk '/^```sh$/ {on = 1; next} /^```$/ {on = 0} on' "$root/README.md" | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' >commands
[ "$(wc -l <commands)" -ge 10 ] || { echo "README.md has too few commands"; exit 1; }

while IFS= read -r command; do
  command=${command//8080/$port}
  echo "+ $command"
  case "$command" in
    scripts/demo.sh|scripts/test.sh) test -x "$root/$command" ;;
    scripts/build.sh*) test -x "$root/scripts/build.sh" ;;  # built already, or this would not run
    *"mme serve"*)
      eval "exec $command --port $port" 2>log &
      server=$!
      for _ in $(seq 100); do grep -q '"event":"listening"' log && break; sleep 0.1; done
      grep -q '"event":"listening"' log || { cat log; exit 1; } ;;
    curl*)
      answer=$(eval "${command/curl -s/curl -sS --fail-with-body}") || { echo "$answer"; exit 1; }
      printf '%s\n' "${answer:0:200}"
      case "$command" in
        *echo/infer*) grep -q '"data":\[1.0,2.0\]' <<<"$answer" ;;
        *echo/invoke*) [ "$answer" = '[[1.0, 2.0], [3.0, 4.0]]' ] ;;
        */status) grep -q '"budget_bytes":1073741824' <<<"$answer" ;;
        */metrics) grep -q '^mme_model_loads_total{model="echo"} 1$' <<<"$answer" ;;
      esac ;;
    *) eval "$command" >output || { cat output; exit 1; } ;;
  esac
done <commands
echo "every command of README.md works"
