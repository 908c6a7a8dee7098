"""The environment of a container."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from world.kubelet.errors import UnsupportedError
from world.kubelet.sources import expand

if TYPE_CHECKING:
    from world.kubelet.sources import Sources

Json: TypeAlias = dict[str, Any]

SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def image_environment() -> dict[str, str]:
    """
    Return what an image would set: here the image is the Python environment we run in.

    One thread for each trainer: they share the cores of one machine, and a pool of threads that
    gets no core of its own spins for most of its time.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "HOME": "/root",
        "OMP_NUM_THREADS": "1",
    }


@functools.cache  # asked at each start of a container
def image_folders() -> tuple[Path, ...]:
    """Return the folders of the machine that hold what an image would: Python and our package."""
    package = importlib.util.find_spec("ebbtide")
    found = [Path(sys.prefix), Path(sys.base_prefix)]
    if package is not None and package.origin is not None:
        found.append(Path(package.origin).resolve().parents[1])
    return tuple(found)


async def environment(container: Json, sources: Sources) -> dict[str, str]:
    """Return every variable of a container; a later one may refer to those before it."""
    context = sources.context
    host, port = context.link.server
    found = {
        **image_environment(),
        "HOSTNAME": context.hostname,
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "KUBERNETES_SERVICE_PORT_HTTPS": port,
    }
    for source in container.get("envFrom") or []:
        kind = "configmaps" if "configMapRef" in source else "secrets"
        reference = source.get("configMapRef") or source["secretRef"]
        for key, data in (await sources.data(kind, reference)).items():
            found[source.get("prefix", "") + key] = data.decode()
    for variable in container.get("env") or []:
        value = await _value(variable, found, container=container, sources=sources)
        if value is not None:
            found[variable["name"]] = value
    return found


async def _value(
    variable: Json, known: dict[str, str], *, container: Json, sources: Sources
) -> str | None:
    source = variable.get("valueFrom")
    match source:
        case None:
            return expand(variable.get("value", ""), known)
        case {"fieldRef": reference}:
            return sources.field(reference["fieldPath"])
        case {"resourceFieldRef": reference}:
            own = None if reference.get("containerName") else container
            return sources.resource(reference, own)
        case {"configMapKeyRef": reference}:
            return await sources.entry("configmaps", reference)
        case {"secretKeyRef": reference}:
            return await sources.entry("secrets", reference)
        case _:
            message = f"variable {variable['name']} comes from {', '.join(source)}"
            raise UnsupportedError(message)
