#!/usr/bin/env bash
# format.sh [--check]: formats every C++ file of the project, or only says which ones are not formatted.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.hpp' '*.cpp')
if [ "${1:-}" = --check ]; then
  clang-format --dry-run --Werror "${files[@]}" && echo "format: ${#files[@]} files are fine"
else
  clang-format -i "${files[@]}"
fi
