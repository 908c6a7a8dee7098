#!/usr/bin/env bash
# Write go.mod for a Kubernetes release: ./pin.sh 1.36.3
#
# A release requires its staging modules at v0.0.0 and replaces them with folders of its own
# tree. Replacements of a dependency do not count, so go.mod here must name the published
# module of the same release for each of them. etcd, cobra and the go line follow the release.
# Build with -mod=mod afterwards: that adds the indirect requirements and go.sum.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version=${1:-}
if [[ ! $version =~ ^1\.[0-9]+\.[0-9]+$ ]]; then
    echo "usage: pin.sh 1.MINOR.PATCH" >&2
    exit 2
fi
staging=v0.${version#1.}

if ! download=$(go mod download -json "k8s.io/kubernetes@v$version"); then
    echo "Kubernetes $version cannot be downloaded: $download" >&2
    exit 1
fi
upstream=$(sed -n 's/^[[:space:]]*"GoMod": "\(.*\)".*/\1/p' <<<"$download")

# The second word of the line of the release's go.mod that begins with $1.
wanted() {
    awk -v first="$1" '$1 == first && !seen { print $2; seen = 1 } END { exit !seen }' "$upstream"
}

go_line=$(wanted go)
cobra=$(wanted github.com/spf13/cobra)
etcd=$(wanted go.etcd.io/etcd/client/v3)
mapfile -t modules < <(awk '$2 == "=>" && $3 ~ "^./staging/" { print $1 }' "$upstream" | sort)

new=$(mktemp go.mod.XXXXXX)
trap 'rm -f "$new"' EXIT
{
    echo "// Written by pin.sh for Kubernetes $version."
    echo "module controlplane"
    echo
    echo "go $go_line"
    echo
    echo "godebug default=go${go_line%.*}"
    echo
    echo "require ("
    printf '\t%s\n' \
        "github.com/spf13/cobra $cobra" \
        "go.etcd.io/etcd/server/v3 $etcd" \
        "k8s.io/component-base $staging" \
        "k8s.io/kubernetes v$version"
    echo ")"
    echo
    echo "replace ("
    for module in "${modules[@]}"; do
        printf '\t%s => %s %s\n' "$module" "$module" "$staging"
    done
    echo ")"
} >"$new"
mv "$new" go.mod
rm -f go.sum
go mod edit -fmt
echo "Kubernetes $version: ${#modules[@]} staging modules at $staging, etcd $etcd, go $go_line"
