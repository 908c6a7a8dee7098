"""The parts of the API's objects that we read; everything else is skipped while decoding."""

from datetime import datetime

import msgspec


class Shape(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of an object: unknown fields are left out, absent ones have the API's meaning."""


class Owner(Shape, frozen=True):
    """An owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Shape, frozen=True):
    """Metadata of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    finalizers: list[str] = []

    @property
    def version(self) -> int:
        """The resourceVersion as a number: the API server lets them be compared."""
        return parse_version(self.resource_version)

    def controller(self) -> Owner | None:
        """The owner that manages the object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class ConditionShape(Shape, frozen=True):
    """A condition of a pod or node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class Waiting(Shape, frozen=True):
    """A container that has not started."""

    reason: str | None = None
    message: str | None = None


class Running(Shape, frozen=True):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(Shape, frozen=True):
    """A container that ended."""

    exit_code: int = 0
    reason: str | None = None
    message: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Shape, frozen=True):
    """One of its members is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Shape, frozen=True):
    """What became of one container."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Shape, frozen=True):
    """Status of a pod."""

    phase: str = "Unknown"
    reason: str | None = None
    message: str | None = None
    pod_ip: str = msgspec.field(name="podIP", default="")
    start_time: datetime | None = None
    conditions: list[ConditionShape] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class Resources(Shape, frozen=True):
    """Of a container: quantities as the user wrote them."""

    limits: dict[str, str | int | float] | None = None


class ContainerSpec(Shape, frozen=True):
    """A container as asked for."""

    name: str = ""
    image: str = ""
    resources: Resources = Resources()


class PodSpec(Shape, frozen=True):
    """Spec of a pod."""

    node_name: str = ""
    active_deadline_seconds: int | None = None
    init_containers: list[ContainerSpec] | None = None
    containers: list[ContainerSpec] = []


class PodShape(Shape, frozen=True):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class TaintShape(Shape, frozen=True):
    """A taint."""

    key: str = ""
    effect: str = ""
    value: str = ""


class NodeSpec(Shape, frozen=True):
    """Spec of a node."""

    unschedulable: bool = False
    taints: list[TaintShape] | None = None


class NodeInfo(Shape, frozen=True):
    """What the kubelet says of its machine."""

    boot_id: str = msgspec.field(name="bootID", default="")


class NodeStatus(Shape, frozen=True):
    """Status of a node."""

    conditions: list[ConditionShape] | None = None
    allocatable: dict[str, str | int | float] | None = None
    node_info: NodeInfo = NodeInfo()


class NodeShape(Shape, frozen=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ServiceSpec(Shape, frozen=True):
    """Spec of a Service."""

    selector: dict[str, str] | None = None


class ServiceShape(Shape, frozen=True):
    """A Service."""

    metadata: Meta = Meta()
    spec: ServiceSpec = ServiceSpec()


class SecretShape(Shape, frozen=True):
    """A Secret; values are base64."""

    metadata: Meta = Meta()
    data: dict[str, str] | None = None


class AnyShape(Shape, frozen=True):
    """An object of which only the metadata matters."""

    metadata: Meta = Meta()


class ListMeta(Shape, frozen=True):
    """Metadata of a page."""

    resource_version: str = "0"
    next_page: str = msgspec.field(name="continue", default="")


class Page(Shape, frozen=True):
    """One page of a list, its items still encoded."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class WatchLine(Shape, frozen=True):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class ErrorShape(Shape, frozen=True):
    """The object of an ERROR line."""

    code: int = 0
    message: str = ""


def parse_version(text: str) -> int:
    """Return a resourceVersion as a number; 0 for one that is none."""
    return int(text) if text.isdecimal() else 0
