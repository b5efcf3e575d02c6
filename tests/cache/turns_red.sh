#!/bin/sh
# turns_red.sh DEFECTIVE SOUND TEST: the test passes in the sound program and does not in the defective one.
set -u
spec=$(printf '%s' "$3" | sed 's/,/\\,/g')  # to Catch2 a comma parts two names
for program in "$1" "$2"; do  # a program that is missing or knows no such test proves nothing
  found=$("$program" --list-test-names-only "$spec" | grep -c .)
  [ "$found" = 1 ] || { echo "$found tests of $(basename "$program") are named '$3'" >&2; exit 1; }
done
"$2" "$spec" || { echo "'$3' is red without any defect" >&2; exit 1; }
if "$1" "$spec"; then
  echo "'$3' stays green with the defect" >&2
  exit 1
fi
