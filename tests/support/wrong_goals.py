"""Jobs whose goals, plan modes or sizes are wrong, each with what its author must be told."""

from typing import Final

from support.mistakes import Wrong

WRONG_GOALS: Final = (
    Wrong(
        id="two deadlines",
        changes={
            "spec.objective": {"deadline": "2030-01-31T18:00:00Z", "deadlineSeconds": 3600},
        },
        path="spec.objective.deadline",
        says="deadline and deadlineSeconds exclude each other",
    ),
    Wrong(
        id="a deadline without a time zone",
        changes={"spec.objective": {"deadline": "2030-01-31T18:00:00"}},
        path="spec.objective.deadline",
        says="must be a moment (years 2000 to 2999) with its time zone, as in 2030-01-31T18:00:00Z",
        server_says="should match",
    ),
    Wrong(
        id="a deadline on no day",
        changes={"spec.objective": {"deadline": "2030-02-31T18:00:00Z"}},
        path="spec.objective.deadline",
        says="day value is outside expected range",
        server_says="must be of type date-time",
    ),
    Wrong(
        id="a deadline of no seconds",
        changes={"spec.objective": {"deadlineSeconds": 0}},
        path="spec.objective.deadlineSeconds",
        says="greater than or equal to 1",
    ),
    Wrong(
        id="a budget of nothing",
        changes={"spec.objective": {"budget": "0.00"}},
        path="spec.objective.budget",
        says="budget must be above 0.00: leave it out where there is none",
    ),
    Wrong(
        id="a budget without cents",
        changes={"spec.objective": {"budget": "120"}},
        path="spec.objective.budget",
        says="is '120': string should match pattern",
        server_says="should match",
    ),
    Wrong(
        id="a budget as a number",
        changes={"spec.objective": {"budget": 120.5}},
        path="spec.objective.budget",
        says="is 120.5: input should be a valid string",
        server_says="must be of type string",
    ),
    Wrong(
        id="an aim that nobody knows",
        changes={"spec.objective": {"minimize": "Carbon"}},
        path="spec.objective.minimize",
        says="input should be 'Cost' or 'Time'",
        server_says='supported values: "Cost", "Time"',
    ),
    Wrong(
        id="another plan mode",
        changes={"spec.planMode": "Off"},
        path="spec.planMode",
        says="input should be 'Auto', 'DryRun' or 'Manual'",
        server_says='supported values: "Auto", "DryRun", "Manual"',
    ),
    Wrong(
        id="a size where the planner chooses it",
        changes={"spec.elasticPolicy.replicas": 3},
        path="spec.elasticPolicy.replicas",
        says="elasticPolicy.replicas is for planMode Manual",
    ),
    Wrong(
        id="a manual plan without a size",
        changes={"spec.planMode": "Manual"},
        path="spec.elasticPolicy.replicas",
        says="planMode Manual needs elasticPolicy.replicas",
    ),
    Wrong(
        id="a size above the maximum",
        changes={"spec.planMode": "Manual", "spec.elasticPolicy.replicas": 5},
        path="spec.elasticPolicy.replicas",
        says="replicas must be from minReplicas to maxReplicas",
    ),
    Wrong(
        id="a size below the minimum",
        changes={"spec.planMode": "Manual", "spec.elasticPolicy.replicas": 1},
        path="spec.elasticPolicy.replicas",
        says="replicas must be from minReplicas to maxReplicas",
    ),
    Wrong(
        id="a size between two steps",
        changes={
            "spec.planMode": "Manual",
            "spec.elasticPolicy.replicas": 3,
            "spec.elasticPolicy.replicaIncrementStep": 2,
        },
        path="spec.elasticPolicy.replicas",
        says="replicas must be a legal size",
    ),
    Wrong(
        id="a size that is not in the list",
        changes={
            "spec.planMode": "Manual",
            "spec.elasticPolicy.replicas": 3,
            "spec.elasticPolicy.replicaDiscreteValues": [2, 4],
        },
        path="spec.elasticPolicy.replicas",
        says="replicas must be a legal size",
    ),
    Wrong(
        id="sizes listed and stepped",
        changes={
            "spec.elasticPolicy.replicaIncrementStep": 2,
            "spec.elasticPolicy.replicaDiscreteValues": [2, 4],
        },
        path="spec.elasticPolicy.replicaDiscreteValues",
        says="replicaDiscreteValues and replicaIncrementStep exclude each other",
    ),
    Wrong(
        id="no listed size within the limits",
        changes={"spec.elasticPolicy.replicaDiscreteValues": [1, 8]},
        path="spec.elasticPolicy.replicaDiscreteValues",
        says="must have a value from minReplicas to maxReplicas",
    ),
    Wrong(
        id="an empty list of sizes",
        changes={"spec.elasticPolicy.replicaDiscreteValues": []},
        path="spec.elasticPolicy.replicaDiscreteValues",
        says="at least 1 item",
        server_says="should have at least 1 items",
    ),
    Wrong(
        id="steps of no size",
        changes={"spec.elasticPolicy.replicaIncrementStep": 0},
        path="spec.elasticPolicy.replicaIncrementStep",
        says="greater than or equal to 1",
    ),
    Wrong(
        id="a profile that no object can be",
        changes={"spec.profile": "ResNet 50"},
        path="spec.profile",
        says="is 'ResNet 50': string should match pattern",
        server_says="should match",
    ),
)
