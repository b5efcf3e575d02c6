#!/usr/bin/env bash
# Holds the include arrows between folders: who may see whom, and where each library may be seen.
# Prints every line that breaks a rule; exit 1 when there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

broken=0
# rule WHERE PATTERN WHY [EXCEPT...]: no file below WHERE may include PATTERN, but for files under EXCEPT.
rule() {
  local where=$1 pattern=$2 why=$3 line excluded prefix
  shift 3
  while IFS= read -r line; do
    excluded=0
    for prefix in "$@"; do [[ $line == "$prefix"* ]] && excluded=1; done
    [ "$excluded" = 1 ] && continue
    echo "$line   <- $why"
    broken=1
  done < <(grep -rnE --include='*.hpp' --include='*.cpp' "^ *# *include *[<\"]($pattern)" $where || true)
}

rule "loader cache" "server/" "only server may include server"
rule "loader" "cache/" "loader must not know the cache"
rule "cache" "loader/(torch|repository|text)/" "cache may include only the loader's vocabulary"
rule "server" "loader/torch/" "only server/app may include loader/torch" server/app/
rule "loader cache server" "boost/asio" "Asio only in server and cache/model_cache" server/ cache/model_cache
rule "loader cache server" "(torch|ATen|c10|caffe2)/" "libtorch only in loader/torch" loader/torch/
rule "loader cache server" "yaml-cpp/" "yaml-cpp only in loader/repository/settings and server/config" \
  loader/repository/settings server/config/
rule "loader cache server" "boost/beast" "Beast only in server/http and server/loadgen" server/http/ server/loadgen/
rule "loader cache server" "(tests|scripts)/" "the program must not include tests or scripts"

[ "$broken" = 0 ] && echo "includes: every arrow is allowed"
exit "$broken"
