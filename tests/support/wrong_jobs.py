"""A table of jobs that are wrong, each with what its author must be told."""

from typing import Final

from support.manifests import ABSENT, container
from support.mistakes import Wrong
from support.wrong_goals import WRONG_GOALS

_POD: Final = "spec.template.spec"
_TRAINER: Final = f"{_POD}.containers.0"
_FIRST: Final = f"{_POD}.containers[0]"

WRONG_JOBS: Final = (
    *WRONG_GOALS,
    Wrong(
        id="no work",
        changes={"spec.work": ABSENT},
        path="spec.work",
        says="is missing and must be given",
        server_says="Required value",
    ),
    Wrong(
        id="no steps at all",
        changes={"spec.work.steps": 0},
        path="spec.work.steps",
        says="is 0: input should be greater than or equal to 1",
        server_says="should be greater than or equal to 1",
    ),
    Wrong(
        id="steps as text",
        changes={"spec.work.steps": "600"},
        path="spec.work.steps",
        says="is '600': input should be a valid integer",
        server_says="must be of type integer",
    ),
    Wrong(
        id="minimum above maximum",
        changes={"spec.elasticPolicy.minReplicas": 5},
        path="spec.elasticPolicy.minReplicas",
        says="minReplicas must not be above maxReplicas",
    ),
    Wrong(
        id="no worker wanted",
        changes={"spec.elasticPolicy": {"minReplicas": 0, "maxReplicas": 4}},
        path="spec.elasticPolicy.minReplicas",
        says="greater than or equal to 1",
    ),
    Wrong(
        id="floor above maximum",
        changes={"spec.capacity.onDemandFloor": 5},
        path="spec.capacity.onDemandFloor",
        says="capacity.onDemandFloor must not be above elasticPolicy.maxReplicas",
    ),
    Wrong(
        id="spot only with a floor",
        changes={"spec.capacity.spot": "Only"},
        path="spec.capacity.onDemandFloor",
        says="spot: Only leaves no worker on on-demand nodes: set onDemandFloor to 0",
    ),
    Wrong(
        id="unknown use of spot",
        changes={"spec.capacity.spot": "Always"},
        path="spec.capacity.spot",
        says="input should be 'Allow', 'Never' or 'Only'",
        server_says='supported values: "Allow", "Never", "Only"',
    ),
    Wrong(
        id="pools named and selected",
        changes={
            "spec.capacity.pools": ["a"],
            "spec.capacity.poolSelector": {"matchLabels": {"tier": "cheap"}},
        },
        path="spec.capacity.poolSelector",
        says="pools and poolSelector exclude each other",
    ),
    Wrong(
        id="empty list of pools",
        changes={"spec.capacity.pools": []},
        path="spec.capacity.pools",
        says="at least 1 item",
        server_says="should have at least 1 items",
    ),
    Wrong(
        id="selector without labels",
        changes={"spec.capacity.poolSelector": {"matchLabels": {}}},
        path="spec.capacity.poolSelector.matchLabels",
        says="at least 1 item",
        server_says="should have at least 1 properties",
    ),
    Wrong(
        id="batch smaller than the workers",
        changes={"spec.work.globalBatchSize": 3},
        path="spec.work.globalBatchSize",
        says="every process needs a sample in every step",
    ),
    Wrong(
        id="batch smaller than the processes",
        changes={"spec.work.globalBatchSize": 15, "spec.processesPerWorker": 4},
        path="spec.work.globalBatchSize",
        says="every process needs a sample in every step",
    ),
    Wrong(
        id="batch smaller than the GPUs",
        changes={
            "spec.work.globalBatchSize": 15,
            f"{_TRAINER}.resources": {"limits": {"nvidia.com/gpu": 4}},
        },
        path="spec.work.globalBatchSize",
        says="is 15: 4 workers of 4 processes need at least 16",
        refused=False,
    ),
    Wrong(
        id="no process",
        changes={"spec.processesPerWorker": 0},
        path="spec.processesPerWorker",
        says="must be Auto or a number from 1 to 64",
    ),
    Wrong(
        id="processes in another word",
        changes={"spec.processesPerWorker": "gpu"},
        path="spec.processesPerWorker",
        says="must be Auto or a number from 1 to 64",
    ),
    Wrong(
        id="another strategy",
        changes={"spec.strategy": "Gossip"},
        path="spec.strategy",
        says="input should be 'AllReduce' or 'ParameterServer'",
        server_says='supported values: "AllReduce", "ParameterServer"',
    ),
    Wrong(
        id="servers of an unmodified script",
        changes={"spec.launcher": "Torchrun", "spec.strategy": "ParameterServer"},
        path="spec.strategy",
        says="strategy ParameterServer needs launcher Library",
    ),
    Wrong(
        id="servers for all-reduce",
        changes={"spec.parameterServer": {"replicas": 2}},
        path="spec.parameterServer",
        says="parameterServer is for strategy ParameterServer: set that, or remove this",
    ),
    Wrong(
        id="no server",
        changes={"spec.strategy": "ParameterServer", "spec.parameterServer": {"replicas": 0}},
        path="spec.parameterServer.replicas",
        says="must be Auto or a number from 1 to 64",
    ),
    Wrong(
        id="a staleness below 0",
        changes={
            "spec.strategy": "ParameterServer",
            "spec.parameterServer": {"replicas": 2, "maxStaleness": -1},
        },
        path="spec.parameterServer.maxStaleness",
        says="is -1: input should be greater than or equal to 0",
        server_says="should be greater than or equal to 0",
    ),
    Wrong(
        id="servers with GPUs",
        changes={
            "spec.strategy": "ParameterServer",
            "spec.parameterServer": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        },
        path="spec.parameterServer.resources",
        says="a parameter server computes on the CPU: nvidia.com/gpu has to be removed",
    ),
    Wrong(
        id="spares of an unmodified script",
        changes={"spec.launcher": "Torchrun", "spec.warmStart": {"spares": 1}},
        path="spec.warmStart.spares",
        says="spares need launcher Library",
    ),
    Wrong(
        id="a warm image with a blank in it",
        changes={"spec.warmStart": {"image": "registry.example/warm: 2"}},
        path="spec.warmStart.image",
        says="should match pattern",
        server_says="should match",
    ),
    Wrong(
        id="another launcher",
        changes={"spec.launcher": "Slurm"},
        path="spec.launcher",
        says="input should be 'Library', 'Torchrun' or 'Command'",
        server_says='supported values: "Library", "Torchrun", "Command"',
    ),
    Wrong(
        id="checkpoints at an address of no store",
        changes={"spec.checkpoint": {"path": "https://bucket/run"}},
        path="spec.checkpoint.path",
        says="or a folder of a bucket, as in s3://bucket/job",
    ),
    Wrong(
        id="checkpoints in a whole bucket",
        changes={"spec.checkpoint": {"path": "s3://bucket"}},
        path="spec.checkpoint.path",
        says="or a folder of a bucket, as in s3://bucket/job",
    ),
    Wrong(
        id="checkpoints by a detour in a bucket",
        changes={"spec.checkpoint": {"path": "gs://bucket/job/../other"}},
        path="spec.checkpoint.path",
        says="without . or .. in it",
    ),
    Wrong(
        id="checkpoints at a relative path",
        changes={"spec.checkpoint": {"path": "checkpoints"}},
        path="spec.checkpoint.path",
        says="must be an absolute path in the container",
    ),
    Wrong(
        id="checkpoints by a detour",
        changes={"spec.checkpoint": {"path": "/checkpoints/../tmp"}},
        path="spec.checkpoint.path",
        says="must be an absolute path in the container",
    ),
    Wrong(
        id="checkpoints on no volume",
        changes={"spec.checkpoint": {"path": "/checkpoints-2"}},
        path="spec.checkpoint.path",
        says="must lie under a volumeMount of the first container",
    ),
    Wrong(
        id="no volume at all",
        changes={f"{_TRAINER}.volumeMounts": ABSENT},
        path="spec.checkpoint.path",
        says="must lie under a volumeMount of the first container",
    ),
    Wrong(
        id="no time between checkpoints",
        changes={"spec.checkpoint.interval": 0},
        path="spec.checkpoint.interval",
        says="must be Auto or a number from 1 to 604800",
    ),
    Wrong(
        id="a time between checkpoints in another word",
        changes={"spec.checkpoint.interval": "often"},
        path="spec.checkpoint.interval",
        says="must be Auto or a number from 1 to 604800",
    ),
    Wrong(
        id="checkpoints in an emptyDir",
        changes={f"{_POD}.volumes": [{"name": "data", "emptyDir": {}}]},
        path=f"{_POD}.volumes[0]",
        says="is emptyDir and would vanish with the pod",
        refused=False,
    ),
    Wrong(
        id="checkpoints on a volume that is not there",
        changes={f"{_POD}.volumes": ABSENT},
        path=f"{_FIRST}.volumeMounts[0].name",
        says="is 'data': the template has no volume of this name",
        refused=False,
    ),
    Wrong(
        id="checkpoints mounted to be read",
        changes={f"{_TRAINER}.volumeMounts.0.readOnly": True},
        path=f"{_FIRST}.volumeMounts[0].readOnly",
        says="is true: checkpoints are written to /checkpoints, so it must be false",
        refused=False,
    ),
    Wrong(
        id="a mount over our token",
        changes={
            f"{_TRAINER}.volumeMounts": [
                {"name": "data", "mountPath": "/checkpoints"},
                {"name": "data", "mountPath": "/var/run/secrets/ebbtide/"},
            ]
        },
        path=f"{_FIRST}.volumeMounts[1].mountPath",
        says="Ebbtide mounts its token at /var/run/secrets/ebbtide",
        refused=False,
    ),
    Wrong(
        id="a volume of our name",
        changes={
            f"{_POD}.volumes": [
                {"name": "data", "nfs": {"server": "nfs", "path": "/"}},
                {"name": "ebbtide-token", "emptyDir": {}},
            ]
        },
        path=f"{_POD}.volumes",
        says="a volume may not be called ebbtide-token",
    ),
    Wrong(
        id="no command",
        changes={f"{_TRAINER}.command": ABSENT},
        path=f"{_POD}.containers",
        says="the first container needs a command, as in [python, train.py]",
    ),
    Wrong(
        id="an empty command",
        changes={f"{_TRAINER}.command": []},
        path=f"{_POD}.containers",
        says="the first container needs a command, as in [python, train.py]",
    ),
    Wrong(
        id="a command of nothing",
        changes={f"{_TRAINER}.command": [""]},
        path=f"{_POD}.containers",
        says="the first container needs a command, as in [python, train.py]",
    ),
    Wrong(
        id="a command as one text",
        changes={f"{_TRAINER}.command": "python train.py"},
        path=f"{_FIRST}.command",
        says="is 'python train.py': input should be a valid list",
        server_says="must be of type array",
    ),
    Wrong(
        id="no container",
        changes={f"{_POD}.containers": []},
        path=f"{_POD}.containers",
        says="at least 1 item",
        server_says="should have at least 1 items",
    ),
    Wrong(
        id="no image",
        changes={f"{_TRAINER}.image": ABSENT},
        path=f"{_FIRST}.image",
        says="is missing and must be given",
        server_says="Required value",
    ),
    Wrong(
        id="no template",
        changes={"spec.template": ABSENT},
        path="spec.template",
        says="is missing and must be given",
        server_says="Required value",
    ),
    Wrong(
        id="half a GPU",
        changes={f"{_TRAINER}.resources": {"limits": {"nvidia.com/gpu": "500m"}}},
        path=f"{_FIRST}.resources.limits[nvidia.com/gpu]",
        says="is '500m': must be a whole number of GPUs from 0 to 64",
        refused=False,
    ),
    Wrong(
        id="pods that restart themselves",
        changes={f"{_POD}.restartPolicy": "OnFailure"},
        path=f"{_POD}.restartPolicy",
        says="restartPolicy must be Never or absent",
    ),
    Wrong(
        id="two containers of one name",
        changes={f"{_POD}.containers": [container(), container()]},
        path=f"{_POD}.containers",
        says="the name 'trainer' is used more than once",
        refused=False,
    ),
    Wrong(
        id="every pod on one node",
        changes={f"{_POD}.nodeName": "node-1"},
        path=f"{_POD}.nodeName",
        says="is 'node-1': must be absent",
        refused=False,
    ),
    Wrong(
        id="a deadline for each pod",
        changes={f"{_POD}.activeDeadlineSeconds": 60},
        path=f"{_POD}.activeDeadlineSeconds",
        says="the job's own deadline is spec.activeDeadlineSeconds",
        refused=False,
    ),
    Wrong(
        id="managed by nobody in particular",
        changes={"spec.managedBy": "kueue"},
        path="spec.managedBy",
        says="is 'kueue': ",
        server_says="should match",
    ),
    Wrong(
        id="a negative limit of failures",
        changes={"spec.backoffLimit": -1},
        path="spec.backoffLimit",
        says="greater than or equal to 0",
    ),
    Wrong(
        id="a deadline of no time",
        changes={"spec.activeDeadlineSeconds": 0},
        path="spec.activeDeadlineSeconds",
        says="greater than or equal to 1",
    ),
    Wrong(
        id="pods cleaned away sometimes",
        changes={"spec.cleanPodPolicy": "Sometimes"},
        path="spec.cleanPodPolicy",
        says="input should be 'Running', 'All' or 'None'",
        server_says='supported values: "Running", "All", "None"',
    ),
    Wrong(
        id="suspend as text",
        changes={"spec.suspend": "true"},
        path="spec.suspend",
        says="is 'true': input should be a valid boolean",
        server_says="must be of type boolean",
    ),
)

WRONG_NAMES: Final = (  # B030
    "1st-run",
    "a.b.c",
    "a" * 44,
    "a" * 63,
    "ends-with-",
)
