#!/usr/bin/env bash
# Install the few Debian packages that the local world needs and that are missing.
#
# As root it installs them. Another user is told what is missing and what to ask an administrator
# for; besides the packages that is the right to make user namespaces. It fails only when something
# is missing, and changes nothing where all is there, so it may run before each use.
set -euo pipefail

PATH="$PATH:/usr/sbin:/sbin"

# program -> package
declare -A packages=(
    [nft]=nftables        # drop rules: partitions of the data path
    [unshare]=util-linux  # pods in namespaces of their own
    [setpriv]=util-linux  # servers that end with their parent
    [mount]=mount         # volumes of pods
    [hostname]=hostname   # names of pods, where the kernel lets only this program set them
)

# An ordinary user's world lives in a user namespace, which some machines refuse to users.
check_namespaces() {
    local said name
    if [[ $(id -u) -eq 0 ]]; then
        return
    fi
    said=$(unshare --user --map-root-user --net --mount --pid --fork --mount-proc true 2>&1) &&
        return
    echo "The local world needs a user namespace, and this machine refuses one: $said" >&2
    echo "Run as root, or ask an administrator for this, as root:" >&2
    # switch, the value that refuses, the one that allows; a machine has only some of them
    while read -r name refuses allows; do
        if [[ $(cat "/proc/sys/${name/./\/}" 2>/dev/null) == "$refuses" ]]; then
            echo "    sysctl -w $name=$allows" >&2
        fi
    done <<'EOF'
kernel.unprivileged_userns_clone 0 1
kernel.apparmor_restrict_unprivileged_userns 1 0
user.max_user_namespaces 0 10000
EOF
    echo "In a container: seccomp and AppArmor must allow unshare and mount" >&2
    echo "    (--security-opt seccomp=unconfined --security-opt apparmor=unconfined" >&2
    echo "    --security-opt systempaths=unconfined)." >&2
    exit 1
}

missing=()
for program in "${!packages[@]}"; do
    command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]} == 0)); then
    check_namespaces
    exit 0
fi
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
    echo "The local world needs these packages, which are missing: ${missing[*]}" >&2
    echo "Ask an administrator. On Debian or Ubuntu:" >&2
    echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "Installing with apt-get: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}" || {
    apt-get update --quiet=2
    apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}"
}
