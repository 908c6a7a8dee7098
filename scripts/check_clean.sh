#!/usr/bin/env bash
# Fail when the working tree differs from the last commit: something generated was not committed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

changes=$(git status --porcelain)
if [ -n "$changes" ]; then
  printf 'verify: the tree is not clean; commit what was regenerated:\n%s\n' "$changes" >&2
  git --no-pager diff --stat >&2
  exit 1
fi
echo 'verify: the tree is clean'
