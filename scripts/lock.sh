#!/usr/bin/env bash
# Lock pyproject.toml's dependencies, all extras, for every platform and Python the project supports.
# The result names packages, versions and hashes; never the index it was made with.
# UPGRADE=1 takes the newest versions; without it only what must change does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly UV=.venv/bin/uv
upgrade=()
if [ -n "${UPGRADE:-}" ]; then
  upgrade=(--upgrade)
fi

"$UV" pip compile --system-certs --quiet --universal --fork-strategy fewest --generate-hashes --no-header --no-emit-index-url \
  --no-emit-find-links --python-version 3.11 --all-extras "${upgrade[@]}" \
  --output-file requirements/dev.txt pyproject.toml

# uv installs everything else, so it alone comes through pip, from the same lock.
awk '/^uv==/ {on = 1} on && !/^(uv==|    (--hash|#))/ {exit} on && !/^ *#/' requirements/dev.txt |
  sed '$ s/ \\$//' >requirements/bootstrap.txt.new
mv requirements/bootstrap.txt.new requirements/bootstrap.txt
wc -l requirements/dev.txt requirements/bootstrap.txt
