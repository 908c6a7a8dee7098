"""Names that cross between the pieces: API group, labels, environment, exit codes, ports."""

from typing import Final

# ---------------------------------------------------------------- API
GROUP: Final = "ebbtide.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
TRAINING_JOB: Final = "TrainingJob"
TRAINING_JOBS: Final = "trainingjobs"
CAPACITY_POOL: Final = "CapacityPool"
CAPACITY_POOLS: Final = "capacitypools"
WORKLOAD_PROFILE: Final = "WorkloadProfile"
WORKLOAD_PROFILES: Final = "workloadprofiles"
CONTROLLER: Final = "ebbtide.dev/trainingjob-controller"  # the value of spec.managedBy that is ours
FIELD_MANAGER: Final = "ebbtide"

# ---------------------------------------------------------------- labels, annotations
LABEL_JOB_NAME: Final = "ebbtide.dev/job-name"
LABEL_JOB_UID: Final = "ebbtide.dev/job-uid"  # tells a job from a former one of the same name
LABEL_ROLE: Final = "ebbtide.dev/replica-type"  # worker, server or coordinator
LABEL_INDEX: Final = "ebbtide.dev/replica-index"
LABEL_ATTEMPT: Final = "ebbtide.dev/attempt"
LABEL_CAPACITY_TYPE: Final = "ebbtide.dev/capacity-type"  # spot or on-demand
LABEL_POOL: Final = "ebbtide.dev/pool"
LABEL_WORKLOAD: Final = "ebbtide.dev/workload"  # on a job: what it trains, for its profile
ANNOTATION_TEMPLATE_HASH: Final = "ebbtide.dev/template-hash"
ANNOTATION_BOOT_ID: Final = "ebbtide.dev/boot-id"  # of the node when the pod first ran on it

# ---------------------------------------------------------------- roles
ROLE_WORKER: Final = "worker"
ROLE_SERVER: Final = "server"
ROLE_COORDINATOR: Final = "coordinator"

# ---------------------------------------------------------------- environment of our containers
ENV_JOB: Final = "EBBTIDE_JOB"  # namespace/name
ENV_WORKER: Final = "EBBTIDE_WORKER"  # the pod's name
ENV_INDEX: Final = "EBBTIDE_INDEX"
ENV_ATTEMPT: Final = "EBBTIDE_ATTEMPT"
ENV_NODE: Final = "EBBTIDE_NODE"
ENV_POOL: Final = "EBBTIDE_POOL"
ENV_GPU: Final = "EBBTIDE_GPU"  # kind of GPU of the pool, "" = none
ENV_ROLE: Final = "EBBTIDE_ROLE"
ENV_ADDRESS: Final = "EBBTIDE_ADDRESS"  # the pod's IP
ENV_COORDINATOR: Final = "EBBTIDE_COORDINATOR"  # host:port of the headless Service
ENV_TOKEN_FILE: Final = "EBBTIDE_TOKEN_FILE"  # noqa: S105 -- the name of a variable
ENV_CHECKPOINT_PATH: Final = "EBBTIDE_CHECKPOINT_PATH"
ENV_NOTICE_SECONDS: Final = "EBBTIDE_NOTICE_SECONDS"
ENV_PROCESSES: Final = "EBBTIDE_PROCESSES_PER_WORKER"
ENV_SHARE_MEMORY: Final = "EBBTIDE_SHARE_MEMORY"  # 0: a server maps no worker's memory
ENV_WORK: Final = "EBBTIDE_WORK"  # a WorkSpec as JSON, for the coordinator's start
ENV_METRICS_PORT: Final = "EBBTIDE_METRICS_PORT"  # of a coordinator; not set: no metrics
ENV_PROFILE: Final = "EBBTIDE_PROFILE"  # where `ebbtide profile` listens, for the script it runs
ENV_LOCAL_RANK: Final = "EBBTIDE_LOCAL_RANK"  # set by a worker's PID 1 for each of its processes
ENV_GENERATION: Final = "EBBTIDE_GENERATION"  # under torchrun: of the ranks that a script was given

# Not ours: the C library reads it at a program's start. What a worker's PID 1 imports then lies in
# huge pages where the kernel has some, so that a fork copies a third fewer page tables.
ENV_ALLOCATOR: Final = "GLIBC_TUNABLES"
HUGE_PAGES: Final = "glibc.malloc.hugetlb=1"

TOKEN_PATH: Final = "/var/run/secrets/ebbtide/token"  # noqa: S105 -- a path, not a secret
COORDINATOR_PORT: Final = 7411
METRICS_PORT: Final = 7412  # of the coordinator, plain HTTP

# ---------------------------------------------------------------- exit codes
EXIT_DONE: Final = 0  # the work is done, nothing else
EXIT_LEFT: Final = 82  # told to leave, or left because the coordinator stayed away
EXIT_USAGE: Final = 64  # the environment or the command is wrong

# Generation number = coordinator attempt x 10^6 + n, so that a restarted one never goes back.
GENERATIONS_PER_ATTEMPT: Final = 1_000_000


def pod_name(*, job: str, role: str, index: int, attempt: int) -> str:
    """Name the pod of one attempt, as in `digits-worker-0-1`."""
    return f"{job}-{role}-{index}-{attempt}"


def host_name(*, job: str, role: str, index: int) -> str:
    """Name the host that every attempt of one index answers to."""
    return f"{job}-{role}-{index}"


def coordinator_service(job: str) -> str:
    """Name the headless Service in front of the coordinator."""
    return f"{job}-coordinator"


def pool_notes(pool: str) -> str:
    """Name the ConfigMap that keeps the record of a pool without an object."""
    return f"ebbtide-pool-{pool}"


def token_secret(uid: str) -> str:
    """Name the Secret that holds a job's token; the UID keeps namesakes apart."""
    return f"ebbtide-{uid}"
