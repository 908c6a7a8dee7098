"""
The pod template of a job: only what we read of it has a schema, everything else is kept.

A full PodTemplateSpec would make the definition larger than `kubectl apply` can take. The shapes
declared here are refused by the API server itself when they are wrong; the rest of the template is
checked by it when the first pod is made.
"""

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, StringConstraints

from ebbtide.api.fields import Open, Rule

GPU: Final = "nvidia.com/gpu"
TOKEN_VOLUME: Final = "ebbtide-token"  # noqa: S105 -- the name of a volume
Quantity = Annotated[Any, Field(json_schema_extra={"x-kubernetes-int-or-string": True})]
TemplateName = Annotated[str, StringConstraints(min_length=1, max_length=63)]
MountPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Mount(Open):
    """One volumeMount."""

    name: TemplateName = Field(description="Name of a volume of the template.")
    mount_path: MountPath = Field(description="Where the volume appears in the container.")
    read_only: bool = Field(default=False, description="Whether nothing can be written there.")


class Variable(Open):
    """One environment variable."""

    name: str = Field(description="Name of the variable.")


class Resources(Open):
    """Requests and limits."""

    limits: dict[str, Quantity] = Field(
        default_factory=dict,
        description="Limits; nvidia.com/gpu of the first container is the worker's GPU count.",
    )


class Container(Open):
    """One container."""

    name: TemplateName = Field(description="Name of the container.")
    image: str = Field(min_length=1, description="Image of the container.")
    command: list[str] = Field(
        default_factory=list,
        description="The command. The first container must have one: it is what trains.",
    )
    args: list[str] = Field(default_factory=list, description="Arguments of the command.")
    env: list[Variable] = Field(default_factory=list, description="Environment.")
    resources: Resources = Field(
        default_factory=Resources, description="Requests and limits of the container."
    )
    volume_mounts: list[Mount] = Field(
        default_factory=list, max_length=128, description="Volumes in the container."
    )


class Volume(Open):
    """One volume."""

    name: TemplateName = Field(description="Name of the volume.")


class Toleration(Open):
    """One toleration."""


class InitContainer(Open):
    """One init container."""

    name: TemplateName = Field(description="Name of the container.")


class Requirement(Open):
    """One demand on a node's labels."""


class Term(Open):
    """Demands that a node must meet together."""

    match_expressions: list[Requirement] = Field(
        default_factory=list, description="Demands on labels."
    )


class NodeSelector(Open):
    """Alternatives of which a node must meet one."""

    node_selector_terms: list[Term] = Field(default_factory=list, description="Alternatives.")


class NodeAffinity(Open):
    """Which nodes are right."""

    required_during_scheduling_ignored_during_execution: NodeSelector = Field(
        default_factory=NodeSelector, description="What a node must have."
    )


class Affinity(Open):
    """Where pods go, by nodes and by other pods."""

    node_affinity: NodeAffinity = Field(
        default_factory=NodeAffinity, description="Which nodes are right."
    )


class PodSpec(Open):
    """The pod."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.containers[0].command) && size(self.containers[0].command) > 0 &&"
            " self.containers[0].command[0] != ''",
            message="the first container needs a command, as in [python, train.py]: the entrypoint"
            " of an image cannot be known",
            field=".containers",
            holds=lambda pod: bool(pod.containers[0].command and pod.containers[0].command[0]),
        ),
        Rule(
            cel="!has(self.restartPolicy) || self.restartPolicy == 'Never'",
            message="restartPolicy must be Never or absent: Ebbtide replaces pods itself",
            field=".restartPolicy",
            holds=lambda pod: pod.restart_policy in (None, "Never"),
        ),
        Rule(
            cel=f"!has(self.volumes) || self.volumes.all(v, v.name != '{TOKEN_VOLUME}')",
            message=f"a volume may not be called {TOKEN_VOLUME}: Ebbtide adds one of that name",
            field=".volumes",
            holds=lambda pod: all(volume.name != TOKEN_VOLUME for volume in pod.volumes),
        ),
    )
    containers: list[Container] = Field(
        min_length=1, max_length=32, description="Containers; the first one is the trainer."
    )
    init_containers: list[InitContainer] = Field(
        default_factory=list, max_length=32, description="Containers that run before."
    )
    volumes: list[Volume] = Field(
        default_factory=list, max_length=128, description="Volumes of the pod."
    )
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="Labels that a node must have, beside those of the pool."
    )
    affinity: Affinity = Field(
        default_factory=Affinity, description="Where pods go, by nodes and by other pods."
    )
    tolerations: list[Toleration] = Field(
        default_factory=list, description="Tolerations, beside those of the pool."
    )
    restart_policy: str | None = Field(default=None, max_length=16, description="Never, or absent.")


class PodMetadata(Open):
    """Labels and annotations for the pods."""

    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the pods.")
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Annotations of the pods."
    )


class Template(Open):
    """A PodTemplateSpec."""

    metadata: PodMetadata = Field(
        default_factory=PodMetadata, description="Labels and annotations of the pods."
    )
    spec: PodSpec = Field(description="The pod. Every field of a PodSpec may be used.")
