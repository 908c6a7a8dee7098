"""What a template must fulfil beyond the shapes that the API server checks."""

from collections.abc import Iterator
from typing import Any, Final

from ebbtide.api.template import GPU, Container, Mount, Template, Volume
from ebbtide.api.training_job import Spec, lies_under
from ebbtide.core.values.errors import FieldError
from ebbtide.core.values.job import Launcher
from ebbtide.wire.names import TOKEN_PATH

LASTING: Final = ("persistentVolumeClaim", "hostPath", "nfs", "csi")
"""Kinds of volume that outlive a pod."""
MAX_GPUS: Final = 64
_MOST_DIGITS: Final = 18
"""Of a number that is read: Python raises an error at some thousands."""
_OURS: Final = {
    "activeDeadlineSeconds": "the job's own deadline is spec.activeDeadlineSeconds",
    "nodeName": "nodes are chosen by spec.capacity and nodeSelector",
}
_POD: Final = "spec.template.spec"
_TRAINER: Final = f"{_POD}.containers[0]"


def gpu_count(template: Template) -> int:
    """Return the GPUs of one worker: the limit of the first container, 0 without one."""
    return _whole(template.spec.containers[0].resources.limits.get(GPU, 0)) or 0


def template_errors(spec: Spec) -> tuple[FieldError, ...]:
    """Return everything about the template that would keep its pods from training."""
    return (
        *_gpu_errors(spec.template.spec.containers[0]),
        *_name_errors(spec.template),
        *_field_errors(spec.template),
        *(_checkpoint_errors(spec) if spec.launcher is Launcher.LIBRARY else ()),
        *_token_errors(spec.template.spec.containers[0]),
    )


def _gpu_errors(trainer: Container) -> Iterator[FieldError]:
    limit = trainer.resources.limits.get(GPU, 0)
    count = _whole(limit)
    if count is None or count > MAX_GPUS:
        yield FieldError(
            f"{_TRAINER}.resources.limits[{GPU}]",
            f"is {limit!r}: must be a whole number of GPUs from 0 to {MAX_GPUS}",
        )


def _name_errors(template: Template) -> Iterator[FieldError]:
    pod = template.spec
    for field, names in (
        (
            "containers",
            [*(it.name for it in pod.containers), *(it.name for it in pod.init_containers)],
        ),
        ("volumes", [volume.name for volume in pod.volumes]),
    ):
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield FieldError(f"{_POD}.{field}", f"the name {name!r} is used more than once")


def _field_errors(template: Template) -> Iterator[FieldError]:
    for field, why in _OURS.items():
        value = (template.spec.model_extra or {}).get(field)
        if value is not None:
            yield FieldError(f"{_POD}.{field}", f"is {value!r}: must be absent, {why}")


def _checkpoint_errors(spec: Spec) -> Iterator[FieldError]:
    """Say why checkpoints would not survive where they are to be written."""
    path = spec.checkpoint.path
    mounts = [
        (index, mount)
        for index, mount in enumerate(spec.template.spec.containers[0].volume_mounts)
        if lies_under(path, mount.mount_path)
    ]
    if not mounts:
        return  # a rule of the spec says so
    index, mount = max(mounts, key=lambda found: len(found[1].mount_path.rstrip("/")))
    where = f"{_TRAINER}.volumeMounts[{index}]"
    if mount.read_only:
        yield FieldError(
            f"{where}.readOnly", f"is true: checkpoints are written to {path}, so it must be false"
        )
    yield from _volume_errors(spec.template.spec.volumes, mount, where, path)


def _volume_errors(
    volumes: list[Volume], mount: Mount, where: str, path: str
) -> Iterator[FieldError]:
    for index, volume in enumerate(volumes):
        if volume.name != mount.name:
            continue
        source: dict[str, Any] = volume.model_extra or {}
        if not any(kind in source for kind in LASTING):
            kinds = ", ".join(sorted(source)) or "emptyDir"
            yield FieldError(
                f"{_POD}.volumes[{index}]",
                f"is {kinds} and would vanish with the pod, and with it the checkpoints in {path}:"
                f" must be one of {', '.join(LASTING)}",
            )
        return
    yield FieldError(f"{where}.name", f"is {mount.name!r}: the template has no volume of this name")


def _token_errors(trainer: Container) -> Iterator[FieldError]:
    for index, mount in enumerate(trainer.volume_mounts):
        if lies_under(TOKEN_PATH, mount.mount_path) and mount.mount_path.rstrip("/"):
            folder = TOKEN_PATH.rsplit("/", 1)[0]
            if lies_under(mount.mount_path, folder):
                yield FieldError(
                    f"{_TRAINER}.volumeMounts[{index}].mountPath",
                    f"is {mount.mount_path!r}: Ebbtide mounts its token at {folder}",
                )


def _whole(value: object) -> int | None:
    """Return a quantity that is a whole number, None if it is anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value) if len(value) <= _MOST_DIGITS else None
    return None
