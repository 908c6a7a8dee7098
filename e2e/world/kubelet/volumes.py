"""The volumes of a pod, each laid out as a folder or file of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from world.api import ApiError
from world.kubelet.errors import NotYetError, UnsupportedError
from world.kubelet.sandbox import Mount
from world.kubelet.sources import NOT_FOUND, expand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from world.kubelet.sources import Sources

Json: TypeAlias = dict[str, Any]

DEFAULT_MODE: Final = 0o644
EMPTY_DIR_MODE: Final = 0o777


async def lay_out(sources: Sources) -> dict[str, Path]:
    """Return where the data of each volume is, by the name of the volume."""
    found = {}
    for volume in sources.context.spec.get("volumes") or []:
        found[volume["name"]] = await _lay_out(volume, sources)
    return found


def mounts(
    container: Json, volumes: Mapping[str, Path], environment: dict[str, str]
) -> list[Mount]:
    """Return what a container mounts where; a parent folder before what lies in it."""
    found = []
    for wanted in container.get("volumeMounts") or []:
        within = wanted.get("subPath") or expand(wanted.get("subPathExpr", ""), environment)
        source = volumes[wanted["name"]] / within
        if within and not source.exists():
            source.mkdir(parents=True)
        found.append(
            Mount(
                source=source,
                target=wanted["mountPath"],
                read_only=bool(wanted.get("readOnly")),
            )
        )
    return sorted(found, key=lambda mount: mount.target.rstrip("/").count("/"))


async def _lay_out(volume: Json, sources: Sources) -> Path:
    folder: Path = sources.context.folder / "volumes" / volume["name"]
    match volume:
        case {"hostPath": source}:
            return _host_path(source)
        case {"persistentVolumeClaim": source}:
            return await _claimed(source["claimName"], sources)
        case {"emptyDir": _}:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(EMPTY_DIR_MODE)
        case {"projected": source}:
            folder.mkdir(parents=True, exist_ok=True)
            for part in source.get("sources") or []:
                await _write(part, folder, sources=sources, mode=source.get("defaultMode"))
        case {"configMap": source} | {"secret": source} | {"downwardAPI": source}:
            folder.mkdir(parents=True, exist_ok=True)
            await _write(volume, folder, sources=sources, mode=source.get("defaultMode"))
        case _:
            kinds = ", ".join(sorted(set(volume) - {"name"}))
            message = (
                f"volume {volume['name']} is of the kind {kinds}, which this node cannot mount"
            )
            raise UnsupportedError(message)
    return folder


def _host_path(source: Json) -> Path:
    path, kind = Path(str(source["path"])), source.get("type") or ""
    match kind:
        case "" | "DirectoryOrCreate":
            if not path.exists():
                path.mkdir(parents=True)
        case "FileOrCreate":
            path.touch()
        case "Directory" | "File":
            if not (path.is_dir() if kind == "Directory" else path.is_file()):
                message = f"hostPath type check failed: {path} is not a {kind.lower()}"
                raise NotYetError(message)
        case _:
            message = f"a hostPath of type {kind}"
            raise UnsupportedError(message)
    return path


async def _claimed(name: str, sources: Sources) -> Path:
    """Return the folder of this machine that stands behind a claim."""
    context = sources.context
    path = f"/api/v1/namespaces/{context.namespace}/persistentvolumeclaims/{name}"
    try:
        claim = await context.link.request("GET", path)
        if claim.get("status", {}).get("phase") != "Bound":
            message = f'persistentvolumeclaim "{name}" is not bound'
            raise NotYetError(message)
        volume = await context.link.request(
            "GET", f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
        )
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        raise NotYetError(error.message) from error
    spec = volume["spec"]
    if "hostPath" in spec:
        return _host_path(spec["hostPath"])
    if "local" in spec:
        return _host_path({"path": spec["local"]["path"], "type": "Directory"})
    message = f"claim {name} is bound to a volume that is neither hostPath nor local"
    raise UnsupportedError(message)


async def _write(part: Json, folder: Path, *, sources: Sources, mode: int | None) -> None:
    modes: dict[str, int] = {}
    for name, data in (await _files(part, sources, modes)).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(modes.get(name) or mode or DEFAULT_MODE)


async def _files(part: Json, sources: Sources, modes: dict[str, int]) -> dict[str, bytes]:
    match part:
        case {"configMap": reference}:
            return _select(await sources.data("configmaps", reference), reference, modes)
        case {"secret": reference}:
            name = reference.get("secretName") or reference["name"]
            found = await sources.data("secrets", reference, name=name)
            return _select(found, reference, modes)
        case {"downwardAPI": reference}:
            return {item["path"]: _told(item, sources).encode() for item in reference["items"]}
        case {"serviceAccountToken": reference}:
            return {reference["path"]: (await sources.token(reference)).encode()}
        case _:
            message = f"a projection of {', '.join(part)}"
            raise UnsupportedError(message)


def _told(item: Json, sources: Sources) -> str:
    if "fieldRef" in item:
        return sources.field(item["fieldRef"]["fieldPath"])
    return sources.resource(item["resourceFieldRef"])


def _select(found: dict[str, bytes], reference: Json, modes: dict[str, int]) -> dict[str, bytes]:
    """Keep the entries that `items` names, under the paths that it gives them."""
    items = reference.get("items")
    if not items:
        return found
    chosen = {}
    for item in items:
        if item["key"] in found:
            chosen[item["path"]] = found[item["key"]]
            modes[item["path"]] = item.get("mode") or 0
        elif not reference.get("optional"):
            message = f"references non-existent config key: {item['key']}"
            raise NotYetError(message)
    return chosen
