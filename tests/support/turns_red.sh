#!/bin/sh
# turns_red.sh TEST SOUND DEFECTIVE...: the test passes in the sound program and does not by the defective command.
set -u
test=$1 sound=$2
shift 2
spec=$(printf '%s' "$test" | sed 's/,/\\,/g')  # to Catch2 a comma parts two names
knows() {  # a program that is missing or knows no such test proves nothing
  found=$("$@" --list-test-names-only "$spec" | grep -c .)
  [ "$found" = 1 ] || { echo "$found tests are named '$test' by: $*" >&2; exit 1; }
}
knows "$sound"
knows "$@"
"$sound" "$spec" || { echo "'$test' is red without any defect" >&2; exit 1; }
if "$@" "$spec"; then
  echo "'$test' stays green by: $*" >&2
  exit 1
fi
