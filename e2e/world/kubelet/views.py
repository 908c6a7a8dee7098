"""
How a container sees the machine whose programs serve as its image: pure text for a shell.

As root that is one overlay. In a user namespace no overlay may take a folder that has mounts below
it, as / has: there the root is a tmpfs, and each folder of / is laid into it on its own.
"""

from __future__ import annotations

import enum
import shlex
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable


class View(enum.Enum):
    """The ways to show a container the machine, the best one first."""

    OVERLAY = "one overlay on /"
    PIECES = "an overlay on each folder of /"
    SHARED = "the folders of /, read-only"


HOME: Final = "/root"
"""A container's home; it can write there, whoever owns the folder on the machine."""
SCRATCH: Final = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - in the container
"""Where a container can write, too, and starts with nothing if the machine's own are shared."""

TOP_LEVEL: Final = 2
"""So many parts has the path of a folder of /."""
WHOLE: Final = "try mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root"
# Standing in a folder with `upper`, `work`, `shared` and `root`: lay the machine into `root`.
#   lay      one file or folder: an overlay where that goes, else shared
#   open_up  a tmpfs in the place of a folder, with all that the folder held shared in it;
#            each mount takes the kernel some 10 ms, so only where nothing else helps
#   allow    have a folder that can be written; the command to make it so comes first
#   place    see to it that a path is there or can be made
PIECES: Final = """
count=0
overlay() {
  crowded "$1" && return 1
  count=$((count + 1))
  mkdir -m "$(stat -c %a "$1")" "upper/$count"
  mkdir "work/$count"
  mount -t overlay overlay "root$1" 2>/dev/null \\
    -o "lowerdir=$1,upperdir=upper/$count,workdir=work/$count,userxattr"
}
freeze() {
  for more in '' ,nosuid,nodev ,nosuid,nodev,noexec; do
    mount -o "remount,bind,ro$more" "$1" 2>/dev/null && return
  done
}
lay() {
  if [ -L "$1" ]; then
    cp -P "$1" "root$1"
  elif [ -d "$1" ]; then
    mkdir "root$1"
    overlay "$1" || { try mount --rbind "$1" "root$1"; freeze "root$1"; }
  fi
}
open_up() {
  count=$((count + 1))
  mkdir "shared/$count"
  try mount --rbind "$1" "shared/$count"
  freeze "shared/$count"
  scratch "$1"
  from=$(escape "$PWD/shared/$count")
  to=$(escape "$PWD/root$1")
  for path in "$1"/* "$1"/.[!.]*; do
    name=${path##*/}
    if [ -L "$path" ]; then
      cp -P "$path" "root$1"
    elif [ -d "$path" ] || [ -f "$path" ]; then
      [ -d "$path" ] || : >"root$path"
      case $name in *[!A-Za-z0-9._-]*) name=$(escape "$name");; esac
      printf '%s %s\\n' "$from/$name $to/$name" \\
        "none rbind,nofail,x-mount.mkdir 0 0"
    fi
  done >"shared/$count.table"
  # What others have deleted meanwhile is not missed.
  mount --all --fstab "shared/$count.table" >/dev/null 2>&1
}
escape() {
  printf %s "$1" | sed 's/\\\\/\\\\134/g; s/ /\\\\040/g; s/\\t/\\\\011/g; s/#/\\\\043/g'
}
scratch() {
  try mount -t tmpfs -o "mode=$(stat -c %a "$1")" tmpfs "root$1"
}
takes_files() {
  # Permissions do not tell: an overlay cannot copy a folder whose owner the user namespace lacks.
  (: >"$1/.trial") 2>/dev/null && rm "$1/.trial"
}
allow() {
  place "$2"
  mkdir -p "root$target"
  takes_files "root$target" || "$1" "$target"
}
place() {
  target=$(realpath -m -- "$1")
  case $target/ in /proc/*|/sys/*|/dev/*) return;; esac
  [ -e "root$target" ] && return
  folder=${target%/*}
  until [ -d "root$folder" ]; do folder=${folder%/*}; done
  takes_files "root$folder" || open_up "$folder"
}
"""


def lay_out(view: View, *, submounts: Iterable[str], targets: Iterable[str]) -> str:
    """
    Return the commands that put the machine into the folder `root`.

    `submounts` are the machine's mount points, `targets` the paths that must be there or makeable.
    """
    if view is View.OVERLAY:
        return WHOLE
    points = list(submounts)
    deep = [point for point in points if len(PurePosixPath(point).parts) > TOP_LEVEL]
    above = {str(folder) for point in points for folder in PurePosixPath(point).parents}
    pattern = "*" if view is View.SHARED else "|".join(map(shlex.quote, sorted(above))) or "/"
    return f"""
crowded() {{ case $1 in {pattern}) return 0;; esac; return 1; }}
{PIECES}
mkdir shared
try mount -t tmpfs -o mode=755 tmpfs root
for path in /*; do case $path in /proc|/sys|/dev) ;; *) lay "$path";; esac; done
for path in {quote(deep)}; do freeze "root$path"; done
for file in {quote(SCRATCH)}; do allow scratch "$file"; done
allow open_up {HOME}
for file in {quote(targets)}; do place "$file"; done
"""


def quote(paths: Iterable[str]) -> str:
    """Return paths, each once, as words for a shell."""
    return " ".join(shlex.quote(path) for path in dict.fromkeys(paths))
