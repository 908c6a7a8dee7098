"""Between how many and how many workers a job trains, and which numbers are legal."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from ebbtide.api.fields import Rule, Schema

MAX_WORKERS: Final = 4096
MAX_SIZES: Final = 64
"""Of a list: the API server has to be sure beforehand that looking through it is cheap."""

Workers = Annotated[int, Field(strict=True, ge=1, le=MAX_WORKERS)]


class ElasticPolicy(Schema):
    """Between how many and how many workers the job trains."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.minReplicas <= self.maxReplicas",
            message="minReplicas must not be above maxReplicas",
            field=".minReplicas",
            holds=lambda policy: policy.min_replicas <= policy.max_replicas,
        ),
        Rule(
            cel="!has(self.replicaDiscreteValues) || self.replicaIncrementStep == 1",
            message="replicaDiscreteValues and replicaIncrementStep exclude each other: list the"
            " legal sizes or give their step",
            field=".replicaDiscreteValues",
            holds=lambda policy: (
                policy.replica_discrete_values is None or policy.replica_increment_step == 1
            ),
        ),
        Rule(
            cel="!has(self.replicaDiscreteValues) || self.replicaDiscreteValues.exists(size,"
            " size >= self.minReplicas && size <= self.maxReplicas)",
            message="replicaDiscreteValues must have a value from minReplicas to maxReplicas",
            field=".replicaDiscreteValues",
            holds=lambda policy: (
                policy.replica_discrete_values is None
                or any(
                    policy.min_replicas <= size <= policy.max_replicas
                    for size in policy.replica_discrete_values
                )
            ),
        ),
        Rule(
            cel="!has(self.replicas) ||"
            " (self.replicas >= self.minReplicas && self.replicas <= self.maxReplicas)",
            message="replicas must be from minReplicas to maxReplicas",
            field=".replicas",
            holds=lambda policy: (
                policy.replicas is None
                or policy.min_replicas <= policy.replicas <= policy.max_replicas
            ),
        ),
        Rule(
            cel="!has(self.replicas) || (has(self.replicaDiscreteValues)"
            " ? self.replicas in self.replicaDiscreteValues"
            " : (self.replicas - self.minReplicas) % self.replicaIncrementStep == 0)",
            message="replicas must be a legal size: one of replicaDiscreteValues, or minReplicas"
            " and a multiple of replicaIncrementStep",
            field=".replicas",
            holds=lambda policy: policy.is_legal(),
        ),
    )
    min_replicas: Workers = Field(
        description="Fewer workers than this do not train: the job waits for more."
    )
    max_replicas: Workers = Field(description="The most workers that the job may have.")
    replica_increment_step: Workers = Field(
        default=1,
        description="Legal numbers of workers are minReplicas and what so many more each give.",
    )
    replica_discrete_values: Annotated[list[Workers], Field(max_length=MAX_SIZES)] | None = Field(
        default=None,
        min_length=1,
        description="The legal numbers of workers; those outside of minReplicas and maxReplicas"
        " are not used. Instead of replicaIncrementStep.",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    replicas: Workers | None = Field(
        default=None,
        description="How many workers run, with planMode Manual. kubectl scale writes here.",
    )

    def is_legal(self) -> bool:
        """Tell whether the number of workers that was given is a legal one, limits aside."""
        if self.replicas is None:
            return True
        if self.replica_discrete_values is not None:
            return self.replicas in self.replica_discrete_values
        return (self.replicas - self.min_replicas) % self.replica_increment_step == 0
