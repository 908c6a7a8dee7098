"""Condition types, reasons and event reasons: part of the API, so each is spelt once, here."""

from typing import Final

# ---------------------------------------------------------------- condition types
PLANNED: Final = "Planned"
RUNNING: Final = "Running"
DEGRADED: Final = "Degraded"
REPLACING: Final = "Replacing"
SUSPENDED: Final = "Suspended"
CHECKPOINTS_HEALTHY: Final = "CheckpointsHealthy"
GOAL_AT_RISK: Final = "GoalAtRisk"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
RECONCILING: Final = "Reconciling"  # present only while True
STALLED: Final = "Stalled"  # present only while True

LASTING: Final = (
    PLANNED, RUNNING, DEGRADED, REPLACING, SUSPENDED, CHECKPOINTS_HEALTHY,
    GOAL_AT_RISK, COMPLETE, FAILED,
)  # fmt: skip
UNTIL_KNOWN: Final = (PLANNED, GOAL_AT_RISK, CHECKPOINTS_HEALTHY)  # Unknown at first, not False

# ---------------------------------------------------------------- condition reasons
PLAN_CHOSEN: Final = "PlanChosen"  # Planned=True; an event too
FIXED_SIZE: Final = "FixedSize"  # Planned, where no plan can be made: maxReplicas
MANUAL_SIZE: Final = "ManualSize"  # Planned, planMode Manual
DRY_RUN: Final = "DryRun"  # Planned, and nothing runs
GOAL_INFEASIBLE: Final = "GoalInfeasible"  # Planned=False, Stalled=True
NO_POOL: Final = "NoPool"  # no pool fits the job
NO_GOAL: Final = "NoGoal"  # GoalAtRisk where no goal is set
NO_FORECAST: Final = "NoForecast"  # GoalAtRisk=Unknown: a goal, and nobody tells how far it is
GOAL_IN_REACH: Final = "GoalInReach"  # GoalAtRisk=False; an event where it was True before
DEADLINE_AT_RISK: Final = "DeadlineAtRisk"  # GoalAtRisk=True
BUDGET_AT_RISK: Final = "BudgetAtRisk"  # GoalAtRisk=True
STARTING: Final = "Starting"
NO_CAPACITY: Final = "NoCapacity"
IMAGE_PULL_FAILED: Final = "ImagePullFailed"
COORDINATOR_LOST: Final = "CoordinatorLost"
FINISHED: Final = "Finished"
TRAINING: Final = "Training"  # Running=True
FULL_SIZE: Final = "FullSize"  # Degraded=False
BELOW_TARGET: Final = "BelowTarget"  # Degraded=True
WORKER_LOST: Final = "WorkerLost"  # Replacing=True
NOTHING_LOST: Final = "NothingLost"  # Replacing=False
RESUMED: Final = "Resumed"
NOT_SUSPENDED: Final = "NotSuspended"
SUSPENDING: Final = "Suspending"
CHECKPOINT_SAVED: Final = "CheckpointSaved"
CHECKPOINT_FAILED: Final = "CheckpointFailed"
CHECKPOINT_NOT_WRITABLE: Final = "CheckpointNotWritable"
WORK_DONE: Final = "WorkDone"
IN_PROGRESS: Final = "InProgress"
NOT_STARTED: Final = "NotStarted"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
TEMPLATE_CHANGED: Final = "TemplateChanged"
INVALID_SPEC: Final = "InvalidSpec"
POD_REJECTED: Final = "PodRejected"  # the API server refuses the pod that the template makes
NAME_TAKEN: Final = "NameTaken"  # somebody else's object has a name that we need
BACKING_OFF: Final = "BackingOff"  # a failed worker waits for its next try

# ---------------------------------------------------------------- event reasons
POD_PREEMPTED: Final = "PodPreempted"
POD_RESTARTED: Final = "PodRestarted"
POD_FAILED: Final = "PodFailed"
REPLACEMENT_CREATED: Final = "ReplacementCreated"
FELL_BACK: Final = "FellBackToOnDemand"
RETURNED: Final = "ReturnedToSpot"
MOVED_POOL: Final = "MovedToNextPool"
WARM_IMAGE_REFUSED: Final = "WarmImageRefused"  # workers use the template's from now on
RUNNING_EVENT: Final = "Running"
LATE_EXIT: Final = "LateExit"
COMPLETED: Final = "Completed"
