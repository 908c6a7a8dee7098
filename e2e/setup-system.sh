#!/usr/bin/env bash
# Install the few Debian packages that the local world needs and that are missing.
#
# As root it installs them; as another user it says what is missing and how to get it, and fails
# only when something is. Nothing is changed where all is there, so it may run before each use.
set -euo pipefail

PATH="$PATH:/usr/sbin:/sbin"

# program -> package
declare -A packages=(
    [nft]=nftables        # drop rules: partitions of the data path
    [unshare]=util-linux  # pods in namespaces of their own
    [setpriv]=util-linux  # servers that end with their parent
    [mount]=mount         # volumes of pods
)

missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]} == 0)); then
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
    echo "The local world needs these packages, which are missing: ${missing[*]}" >&2
    echo "On Debian or Ubuntu:  sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "Installing with apt-get: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}" || {
    apt-get update --quiet=2
    apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}"
}
