#!/usr/bin/env bash
# Make .venv hold exactly what requirements/dev.txt locks, and Ebbtide itself, editable.
# Does nothing when it already does. Safe to interrupt and to repeat: the stamp is written last.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly STAMP=$VENV/.ebbtide-stamp
readonly LOCK=.run/setup.lock

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

# The newest of the interpreters that is recent enough; PYTHON may name another one.
find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "Python 3.11 or later is needed and '${PYTHON:-python3}' is none." \
    "On Debian: apt-get install python3 python3-venv   Elsewhere: make PYTHON=/path/to/python3.11 ..."
}

# What the environment was made from. The place counts too: an environment does not survive a move.
fingerprint() {
  {
    pwd -P
    "$1" --version
    cat requirements/bootstrap.txt requirements/dev.txt pyproject.toml scripts/setup.sh
  } | sha256sum | cut -d' ' -f1
}

is_current() { [ -x "$VENV/bin/python" ] && [ "$(cat "$STAMP" 2>/dev/null)" = "$1" ]; }

# Of the same Python, made in this very place, and with a pip that works.
is_usable() {
  local version='import sys, pip; print(sys.version)'
  [ "$("$VENV/bin/python" -c "$version" 2>/dev/null)" = "$("$1" -c 'import sys; print(sys.version)')" ] &&
    grep -qF "$PWD/$VENV" "$VENV/bin/activate" 2>/dev/null
}

create() {
  if is_usable "$1"; then
    return
  fi
  say "creating $VENV with $("$1" --version)"
  rm -rf "$VENV"
  "$1" -m venv "$VENV" || {
    rm -rf "$VENV"
    die "'$1 -m venv' failed." "On Debian the module is a package of its own: apt-get install python3-venv"
  }
}

has_locked_uv() {
  local locked
  locked=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' requirements/bootstrap.txt)
  [ "$("$VENV/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" = "$locked" ]
}

# Run a long command; where its own progress bars are not shown, say now and then that it lives.
with_progress() {
  local what=$1 started=$SECONDS ticker='' status=0 empty
  shift
  say "$what"
  if [ ! -t 2 ]; then
    (
      # Waiting on a pipe that stays empty needs no process that could outlive this one.
      exec {empty}<> <(:)
      while ! read -r -t 20 -u "$empty"; do
        say "$what: $((SECONDS - started)) s, $(du -sm "$VENV" 2>/dev/null | cut -f1) MB installed"
      done
    ) &
    ticker=$!
    # shellcheck disable=SC2064  # the ticker of now, not of then
    trap "kill $ticker 2>/dev/null || true" EXIT
  fi
  "$@" || status=$?
  if [ -n "$ticker" ]; then
    kill "$ticker" 2>/dev/null || true
    wait "$ticker" 2>/dev/null || true
    trap - EXIT
  fi
  return "$status"
}

# Registries fail now and then; what is downloaded is kept, so another try is cheap.
tried_thrice() {
  "$@" || { say "failed, second try"; "$@"; } || { say "failed, third try"; "$@"; }
}

main() {
  local python wanted
  python=$(find_python)
  wanted=$(fingerprint "$python")
  if is_current "$wanted"; then
    return
  fi
  # Two at once (a demo and a test run started together) take turns.
  if command -v flock >/dev/null 2>&1; then
    mkdir -p .run
    exec 9>"$LOCK"
    flock -n 9 || { say "another set-up runs; waiting for it"; flock 9; }
    if is_current "$wanted"; then
      return
    fi
  fi

  create "$python"
  rm -f "$STAMP"
  local quiet=()
  if [ ! -t 2 ]; then
    quiet=(--quiet)
  fi
  export UV_HTTP_TIMEOUT=${UV_HTTP_TIMEOUT:-180}
  export VIRTUAL_ENV=$PWD/$VENV
  if ! has_locked_uv; then
    with_progress "installing uv" tried_thrice "$VENV/bin/python" -m pip install --quiet \
      --disable-pip-version-check --no-deps --require-hashes -r requirements/bootstrap.txt
  fi
  # Compiled once, here: a worker in a container throws away what it compiles, and importing torch
  # from source costs each of them twice the time.
  with_progress "installing the locked packages (torch is large: minutes the first time)" \
    tried_thrice "$VENV/bin/uv" pip sync "${quiet[@]}" --system-certs --require-hashes \
    --compile-bytecode requirements/dev.txt
  with_progress "installing ebbtide, editable" \
    "$VENV/bin/uv" pip install --quiet --system-certs --no-deps --no-build-isolation --editable .
  printf '%s\n' "$wanted" >"$STAMP"
  say "done in $SECONDS s"
}

main
