"""
The door for manifests: objects as the API server stores them become values of the core.

What cannot be used comes out with every reason at once, each with the field's path, the value seen
and what would be right. Nothing a user can write makes this module fail in another way.
"""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from ebbtide.api.capacity_pool import PoolSpec
from ebbtide.api.fields import Rule, Schema, as_decimal
from ebbtide.api.objective import ObjectiveSpec
from ebbtide.api.parameter_server import ParameterServer
from ebbtide.api.template_checks import gpu_count, template_errors
from ebbtide.api.training_job import Spec, Strategy, TrainingJob, is_job_name
from ebbtide.api.workload_profile import ProfileSpec
from ebbtide.core.values.errors import FieldError, InvalidManifestError, UnknownPriceError
from ebbtide.core.values.job import BrokenJob, Job, JobKey, Launcher
from ebbtide.core.values.objective import Objective
from ebbtide.core.values.pool import Listing, Pool, PriceList
from ebbtide.core.values.workload import CPU, CommTime, Profile, StepTime
from ebbtide.wire.names import LABEL_WORKLOAD

HASH_LENGTH: Final = 16
MAX_DEPTH: Final = 64
"""Of a spec, far beyond any pod. The API server takes 10000, Python's recursion ends before."""
LONGEST_WAIT: Final = 100 * 365 * 86400
"""Seconds. What is longer never ends anyway, and could not be added to a date."""
_SHOWN: Final = 80
_PLAIN: Final = re.compile("[A-Za-z0-9]+")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)

Manifest = Mapping[str, Any]
ModelT = TypeVar("ModelT", bound=Schema)


def parse_job(manifest: Manifest) -> Job | BrokenJob:
    """Return the job that an object describes, or why it describes none."""
    errors: list[FieldError] = []
    metadata = _mapping(manifest.get("metadata"))
    name = str(metadata.get("name", ""))
    if _is_deeper(manifest.get("spec"), MAX_DEPTH):
        return _broken(manifest, (FieldError("spec", f"is nested deeper than {MAX_DEPTH} levels"),))
    if not is_job_name(name):
        errors.append(FieldError("metadata.name", f"{name!r}: {TrainingJob.rules[0].message}"))
    try:
        spec = parse_spec(manifest.get("spec"))
    except InvalidManifestError as error:
        return _broken(manifest, (*errors, *error.errors))
    if errors:
        return _broken(manifest, errors)
    return _job(manifest, spec)


def parse_spec(spec: object) -> Spec:
    """Return the checked spec of a TrainingJob, or raise InvalidManifestError with all errors."""
    checked = _checked(Spec, spec)
    errors = (*template_errors(checked), *_batch_errors(checked))
    if errors:
        raise InvalidManifestError(errors)
    return checked


def parse_pool(manifest: Manifest, price_list: PriceList) -> Pool:
    """
    Return the pool that an object describes, or raise InvalidManifestError with all errors.

    `price_list` is asked where the object names a node of the catalogue instead of a price.
    """
    spec = _checked(PoolSpec, manifest.get("spec"))
    metadata = _mapping(manifest.get("metadata"))
    return Pool(
        name=str(metadata.get("name", "")),
        market=spec.market,
        node_selector=dict(spec.node_selector),
        tolerations=tuple(
            toleration.model_dump(by_alias=True, mode="json", exclude_none=True)
            for toleration in spec.tolerations
        ),
        labels=_texts(metadata.get("labels")),
        zone=spec.zone,
        region=spec.region,
        notice=timedelta(seconds=spec.notice_seconds),
        max_nodes=spec.max_nodes,
        gpu_type=spec.gpu.type if spec.gpu else "",
        gpus_per_node=spec.gpu.count if spec.gpu else 0,
        usd_per_node_hour=_price(spec, price_list),
    )


def _price(spec: PoolSpec, price_list: PriceList) -> Decimal:
    price = spec.price
    if price.catalogue is None:
        return as_decimal(price.usd_per_node_hour or "0")
    listing = Listing(
        provider=price.catalogue.provider,
        instance_type=price.catalogue.instance_type,
        region=spec.region,
        market=spec.market,
        gpu_type=spec.gpu.type if spec.gpu else "",
        gpus=spec.gpu.count if spec.gpu else 0,
    )
    try:
        return price_list(listing)
    except UnknownPriceError as error:
        raise InvalidManifestError((FieldError("spec.price.catalogue", str(error)),)) from error


def parse_profile(manifest: Manifest) -> Profile:
    """Return the profile that an object gives, or raise InvalidManifestError with all errors."""
    spec = _checked(ProfileSpec, manifest.get("spec"))
    return Profile(
        workload=spec.workload,
        parameters=spec.parameters,
        tensors=spec.tensors,
        gradient_bytes=spec.gradient_bytes,
        checkpoint_bytes=spec.checkpoint_bytes,
        flops_per_sample=spec.flops_per_sample,
        max_local_batch={_device(gpu): most for gpu, most in spec.max_local_batch.items()},
        step_times=tuple(
            StepTime(**{**dict(found), "gpu": _device(found.gpu)}) for found in spec.step_times
        ),
        comm_times=tuple(CommTime(**dict(found)) for found in spec.comm_times),
        bucket_ready=tuple(spec.bucket_ready),
        noise_scale=spec.noise_scale,
    )


def _device(named: str) -> str:
    return "" if named == CPU else named


def template_hash(template: Manifest) -> str:
    """Return what tells two templates apart, whatever the order of their fields."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def _job(manifest: Manifest, spec: Spec) -> Job:
    metadata = _mapping(manifest.get("metadata"))
    template = _mapping(manifest.get("spec"))["template"]
    work = spec.work if spec.launcher is Launcher.LIBRARY else None
    return Job(
        key=_key(metadata),
        uid=str(metadata.get("uid", "")),
        generation=_integer(metadata.get("generation")),
        resource_version=str(metadata.get("resourceVersion", "")),
        created=_moment(metadata.get("creationTimestamp")),
        deleting=metadata.get("deletionTimestamp") is not None,
        launcher=spec.launcher,
        steps=work.steps if work else 0,
        global_batch_size=work.global_batch_size if work else 0,
        min_replicas=spec.elastic_policy.min_replicas,
        max_replicas=spec.elastic_policy.max_replicas,
        replica_increment_step=spec.elastic_policy.replica_increment_step,
        replica_discrete_values=tuple(sorted(spec.elastic_policy.replica_discrete_values or ())),
        replicas=spec.elastic_policy.replicas,
        objective=_objective(spec.objective),
        plan_mode=spec.plan_mode,
        profile=spec.profile,
        workload=_texts(metadata.get("labels")).get(LABEL_WORKLOAD, ""),
        pools=None if spec.capacity.pools is None else tuple(spec.capacity.pools),
        pool_selector=(
            None
            if spec.capacity.pool_selector is None
            else dict(spec.capacity.pool_selector.match_labels)
        ),
        on_demand_floor=spec.capacity.on_demand_floor,
        spot=spec.capacity.spot,
        gpus_per_worker=gpu_count(spec.template),
        processes_per_worker=_processes(spec),
        checkpoint_path=_checkpoint_path(spec.checkpoint.path),
        warm_image=spec.warm_start.image or "",
        spares=_spares(spec),
        **_servers(spec),
        checkpoint_interval=_interval(spec.checkpoint.interval),
        checkpoint_retain=spec.checkpoint.retain,
        suspend=spec.suspend,
        managed_by=spec.managed_by,
        backoff_limit=spec.backoff_limit,
        active_deadline=_seconds(spec.active_deadline_seconds),
        ttl_after_finished=_seconds(spec.ttl_seconds_after_finished),
        clean_pod_policy=spec.clean_pod_policy,
        template=template,
        template_hash=template_hash(template),
    )


def _objective(goal: ObjectiveSpec) -> Objective:
    return Objective(
        minimize=goal.minimize,
        deadline=goal.deadline.astimezone(UTC) if goal.deadline else None,
        deadline_after=_seconds(goal.deadline_seconds),
        budget_usd=as_decimal(goal.budget) if goal.budget else None,
        on_budget=goal.on_budget,
    )


def _broken(manifest: Manifest, errors: Iterable[FieldError]) -> BrokenJob:
    metadata = _mapping(manifest.get("metadata"))
    managed_by = _mapping(manifest.get("spec")).get("managedBy")
    return BrokenJob(
        key=_key(metadata),
        uid=str(metadata.get("uid", "")),
        generation=_integer(metadata.get("generation")),
        resource_version=str(metadata.get("resourceVersion", "")),
        managed_by=managed_by if isinstance(managed_by, str) else "",
        errors=tuple(str(error) for error in errors),
    )


def _checked(model: type[ModelT], spec: object) -> ModelT:
    """Return a spec in which every field and every rule is as it must be."""
    try:
        checked = model.model_validate(spec)
    except ValidationError as error:
        raise InvalidManifestError(tuple(_field_errors(error))) from error
    errors = tuple(_broken_rules(checked, "spec"))
    if errors:
        raise InvalidManifestError(errors)
    return checked


def _field_errors(error: ValidationError) -> Iterator[FieldError]:
    """Return the findings of pydantic in our form, each field once."""
    seen: set[str] = set()
    for finding in error.errors(include_url=False):
        path = _path(finding["loc"])
        if path in seen:
            continue
        seen.add(path)
        what = finding["msg"][:1].lower() + finding["msg"][1:]
        if finding["type"] == "missing":
            yield FieldError(path, "is missing and must be given")
        elif finding["type"] == "extra_forbidden":
            yield FieldError(path, "no field of this name is known here; it has to be removed")
        else:
            yield FieldError(path, f"is {_shown(finding['input'])}: {what}")


def _path(location: tuple[int | str, ...]) -> str:
    """Return a path as people write it."""
    path = "spec"
    for step in location:
        plain = isinstance(step, str) and _PLAIN.fullmatch(step)
        path += f".{step}" if plain else f"[{step}]"
    return path


def _broken_rules(model: Schema, path: str) -> Iterator[FieldError]:
    """Return what fields do not fulfil together, here and in every part."""
    for rule in model.rules:
        if rule.holds is not None and not rule.holds(model):
            yield FieldError(path + rule.field, _rule_message(rule, model))
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, Schema):
            yield from _broken_rules(value, f"{path}.{field.alias}")


def _rule_message(rule: Rule, model: Schema) -> str:
    if not rule.field:
        return rule.message  # several fields are to blame
    value: Any = model
    for step in rule.field.lstrip(".").split("."):
        names = {field.alias: name for name, field in type(value).model_fields.items()}
        value = getattr(value, names[step])
    if isinstance(value, (str, int)):
        return f"is {_shown(value)}: {rule.message}"
    return rule.message


def _batch_errors(spec: Spec) -> Iterator[FieldError]:
    """Return whether a process could be left without a sample; GPUs are known only here."""
    least = spec.elastic_policy.max_replicas * _processes(spec)
    if spec.work is None or spec.launcher is not Launcher.LIBRARY:
        return
    if spec.work.global_batch_size < least:
        yield FieldError(
            "spec.work.globalBatchSize",
            f"is {spec.work.global_batch_size}: {spec.elastic_policy.max_replicas} workers of"
            f" {_processes(spec)} processes need at least {least}, one sample for each process",
        )


def _processes(spec: Spec) -> int:
    declared = spec.processes_per_worker
    return declared if isinstance(declared, int) else max(1, gpu_count(spec.template))


def _is_deeper(value: object, limit: int) -> bool:
    """Tell whether containers in a value are nested deeper than so; itself without recursion."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            part
            for found in level
            for part in (
                found.values()
                if isinstance(found, Mapping)
                else found
                if isinstance(found, list)
                else ()
            )
        ]
        if not level:
            return False
    return True


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _key(metadata: Manifest) -> JobKey:
    return JobKey(str(metadata.get("namespace", "")), str(metadata.get("name", "")))


def _mapping(value: object) -> Manifest:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> dict[str, str]:
    return {str(key): str(text) for key, text in _mapping(value).items()}


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(count: int | None) -> timedelta | None:
    return None if count is None else timedelta(seconds=min(count, LONGEST_WAIT))


def _checkpoint_path(path: str) -> str:
    """Return a path or URL in the one form that all compare."""
    return path.rstrip("/") if "://" in path else posixpath.normpath(path)


def _spares(spec: Spec) -> int | None:
    """Return how many spares are wanted; only the runtime library can let one take over."""
    wanted = spec.warm_start.spares
    if spec.launcher is not Launcher.LIBRARY:
        return 0
    return None if isinstance(wanted, str) else wanted


def _servers(spec: Spec) -> dict[str, Any]:
    """Return the fields of a job that tell of parameter servers; none for all-reduce."""
    if spec.strategy is not Strategy.PARAMETER_SERVER:
        return {}
    asked = spec.parameter_server or ParameterServer()
    wanted = asked.resources
    return {
        "servers": None if isinstance(asked.replicas, str) else asked.replicas,
        "max_staleness": asked.max_staleness,
        "server_resources": None
        if wanted is None
        else wanted.model_dump(by_alias=True, exclude_unset=True),
    }


def _interval(value: int | str) -> timedelta | None:
    return timedelta(seconds=value) if isinstance(value, int) else None


def _moment(text: object) -> datetime:
    return datetime.fromisoformat(text) if isinstance(text, str) else _EPOCH
