#!/usr/bin/env bash
# install_deps.sh [--developer]: installs what the build, the tests and the demo need, with apt; with --developer also
# what format.sh and fuzz.sh need. Changes nothing when all of it is there.
# Debian 12 is what the tests run on; the names for Debian 13 and Ubuntu 24.04 are written down but untested.
# A newer libtorch than the distribution's: unpack it and pass -DCMAKE_PREFIX_PATH=/its/folder to cmake.
set -euo pipefail

. /etc/os-release
common=(g++ cmake ninja-build ccache curl python3-minimal
        libtorch-dev libopenblas0-pthread libyaml-cpp-dev libsimdjson-dev libspdlog-dev
        libcli11-dev prometheus-cpp-dev nlohmann-json3-dev catch2)
case "${1:-}" in
  "") ;;
  --developer) common+=(clang-format clang libclang-rt-dev) ;;
  *) echo "usage: scripts/install_deps.sh [--developer]" >&2; exit 2 ;;
esac
case "${ID}-${VERSION_ID:-}" in
  debian-12) packages=("${common[@]}" libboost1.81-dev) ;;
  debian-13) packages=("${common[@]}" libboost1.83-dev) ;;  # untested
  ubuntu-24.04) packages=("${common[@]}" libboost1.83-dev) ;;  # untested
  *)
    echo "install_deps.sh knows Debian 12, Debian 13 and Ubuntu 24.04; this is ${PRETTY_NAME:-unknown}." >&2
    echo "Please install the counterparts of: ${common[*]} libboost-dev (1.81 or newer)" >&2
    exit 1 ;;
esac

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

root=()
[ "$(id -u)" -eq 0 ] || root=(sudo)
echo "Installing: ${missing[*]}"
"${root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
