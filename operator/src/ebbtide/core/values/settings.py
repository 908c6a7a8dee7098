"""The delays and limits that decisions rest on; the operator's configuration file fills them."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Each with the name it has in the configuration file."""

    capacity_wait: timedelta = timedelta(seconds=300)
    """`capacityWaitSeconds`: how long a worker waits for a node before it tries the next pool."""
    node_lost: timedelta = timedelta(seconds=10)
    """`nodeLostSeconds`: how long a node may be other than Ready before its pods count as lost."""
    coordinator_grace: timedelta = timedelta(seconds=600)
    """`coordinatorGraceSeconds`: how long members go on, or wait, without the coordinator."""
    image_wait: timedelta = timedelta(seconds=120)
    """`imageWaitSeconds`: how long no worker may start for want of its image."""
    finish_grace: timedelta = timedelta(seconds=300)
    """`finishGraceSeconds`: how long members may take to exit once the work is done."""
    zombie: timedelta = timedelta(seconds=120)
    """`zombieSeconds`: how long a deleted pod may hang on an unreachable node."""
    failure_delay: timedelta = timedelta(seconds=10)
    """`failureDelaySeconds`: wait after the first failure; doubles with each more."""
    failure_delay_limit: timedelta = timedelta(seconds=300)
    """`failureDelayLimitSeconds`: the longest such wait."""
    failure_window: timedelta = timedelta(seconds=10)
    """`failureWindowSeconds`: failures of one generation this close together count once."""
    progress_interval: timedelta = timedelta(seconds=10)
    """`progressSeconds`: how often progress and cost alone may cause a status write."""
    heartbeat: timedelta = timedelta(seconds=0.25)
    """`heartbeatSeconds`: a member silent for four of these is lost."""
    regroup: timedelta = timedelta(seconds=30)
    """`regroupSeconds`: how long newcomers to a torchrun job wait: joining restarts all scripts."""
    aftermath: timedelta = timedelta(seconds=60)
    """`aftermathSeconds`: a torchrun or plain worker that exits badly so soon after another was
    lost is not to blame."""
    plan_interval: timedelta = timedelta(seconds=60)
    """`planSeconds`: a plan is looked at again after so long while it is not carried out, or where
    speed, losses or progress differ from it; more rarely where all goes as planned."""
    start: timedelta = timedelta(seconds=180)
    """`startSeconds`: expected from the request of a node to a worker that trains."""
    time_scale: float = 1.0
    """`timeScale`: one second counts as so many for the deadline policy, which thinks in hours."""
    tells_losers: bool = True
    """Not in the file: whether a plan that is kept names its runners-up. Runs in virtual time do
    without, for nobody reads them."""
