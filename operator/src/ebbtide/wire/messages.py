"""
The messages of the trainer protocol, as typed, tagged JSON.

Who says what (docs/adr/0007-trainer-protocol.md tells the whole exchange):

- every connection starts with `Challenge` from the coordinator and `Answer` from the caller;
- a worker process then sends `Register`, and from there on `Heartbeat`, `Idle`, `Formed` and so on;
- a second connection of the same process sends `Canary` and is silent;
- the operator sends a `Call` and gets one `Reply` for each.

A *process* is one rank-to-be: (worker, local rank). A process is *busy* while it is in a generation
and *idle* when it holds still at a step boundary (or has never trained), ready to be put into one.
"""

from typing import Annotated

import msgspec

PROTOCOL = 1
MAX_NAME = 253
MAX_TEXT = 4096
MAX_MEMBERS = 4096
MAX_RANKS = 4096 * 64
LARGEST = 10**12  # as in the API: what is larger could not be stored in a status, nor counted with

Number = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class Message(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=False
):
    """Anything that travels in a frame."""


# ---------------------------------------------------------------- greeting


class Challenge(Message, tag="challenge", frozen=True):
    """Coordinator to caller, first: prove that you know the token."""

    protocol: int
    nonce: str
    attempt: int


class Answer(Message, tag="answer", frozen=True):
    """Caller to coordinator: HMAC-SHA256(token, nonce:side) in hex; worker or operator."""

    protocol: int
    side: str
    digest: str


class Refused(Message, tag="refused", frozen=True):
    """Coordinator to caller, before it closes: why."""

    reason: str


# ---------------------------------------------------------------- what the job asks for


class WorkSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The working fields of the spec that the trainer needs. Durations in seconds."""

    job: str  # namespace/name
    steps: int  # 0 = nobody counts them: the work is done when every member's script has ended well
    global_batch_size: int
    min_replicas: int  # workers
    desired: int  # workers
    processes_per_worker: int = 1
    checkpoint_interval: float = 60.0
    checkpoint_retain: int = 3
    coordinator_grace: float = 600.0
    heartbeat: float = 0.25  # a silent process is lost after four of these
    regroup: float = (
        0.0  # without steps: how long newcomers wait, since joining restarts all scripts
    )
    servers: int = 0  # parameter servers wanted; 0 = all-reduce
    max_staleness: int | None = None  # pushes that a gradient may be behind; None = any


# ---------------------------------------------------------------- worker process -> coordinator


class Register(Message, tag="register", frozen=True):
    """I am here. A process that registers again says what it is in the middle of."""

    worker: str  # the pod's name
    index: Number
    attempt: Number
    local_rank: Number
    processes: Number  # how many the worker runs
    address: str
    store_port: Number  # its TCPStore server, used when it hosts a generation
    pool: str = ""
    node: str = ""
    gpu: str = ""
    generation: Number = 0  # the one it is busy in; 0 = idle
    members: tuple[str, ...] = ()  # worker names of that generation
    step: Number = 0
    holds_state: bool = False
    checkpoint_step: Number = -1  # newest valid checkpoint it can see; -1 = none
    checkpoint_error: str = ""  # why the checkpoint path cannot be written


class Canary(Message, tag="canary", frozen=True):
    """
    Instead of `Register`, on a second connection: its end is the end of that process.

    Nothing more is said on it, either way.
    """

    worker: str
    local_rank: Number


class Heartbeat(Message, tag="heartbeat", frozen=True):
    """Every `WorkSpec.heartbeat` seconds, from the side thread."""

    generation: Number
    step: Number
    beats: Number = 0  # how many `Beat`s came over this connection: shows that a "no duty" was read
    step_age: float = 0.0  # seconds since that step was applied
    step_seconds: float = 0.0
    compute_seconds: float = 0.0
    communication_seconds: float = 0.0
    data_seconds: float = 0.0
    idle_seconds: float = 0.0
    local_batch: Number = 0
    gradient_bytes: Size = 0
    gradient_tensors: Number = 0
    peak_memory_bytes: Size = 0
    loss: float | None = None


class Idle(Message, tag="idle", frozen=True):
    """I hold still: at a boundary after `Reform`, after a broken collective, or as a newcomer."""

    generation: Number  # the one it came from; 0 = none
    step: Number  # steps applied to the state it holds
    holds_state: bool
    step_age: float = 0.0  # seconds since that step was applied
    checkpoint_step: Number = -1
    checkpoint_error: str = ""


class Broken(Message, tag="broken", frozen=True):
    """A collective of this generation failed here. `Idle` follows when the process holds still."""

    generation: Number
    error: str = ""


class Formed(Message, tag="formed", frozen=True):
    """The process group stands and the state is the source's."""

    generation: Number
    step: Number


class Leaving(Message, tag="leaving", frozen=True):
    """SIGTERM or a stop reached this worker: plan without it. It leaves at the next boundary."""

    seconds_left: float


class Left(Message, tag="left", frozen=True):
    """The last word before exit 82."""

    step: Number
    saved_step: Number = -1  # what the urgent checkpoint saved; -1 = not needed or did not fit


class CheckpointCommitted(Message, tag="checkpoint-committed", frozen=True):
    """A checkpoint is durable and visible."""

    step: Number
    seconds: float
    bytes: Size


class CheckpointFailed(Message, tag="checkpoint-failed", frozen=True):
    """A save did not come through; the last good one is untouched."""

    step: Number
    error: str


class Reached(Message, tag="reached", frozen=True):
    """The last step is applied. The process waits in the loop until `Released`."""

    step: Number


# ---------------------------------------------------------------- parameter server <-> coordinator


class RegisterServer(Message, tag="register-server", frozen=True):
    """I am a parameter server and listen here. It sends this and heartbeats, nothing else."""

    server: str  # the pod's name
    index: Number
    attempt: Number
    address: str
    port: Number
    map: Number = 0  # the newest map it has heard of
    leaving: bool = False  # give its part to others


class ServerSeat(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter server and where it listens."""

    server: str
    address: str
    port: int


class ServerMap(Message, tag="server-map", frozen=True):
    """
    To servers and workers: these servers hold the parameters, in this order. The first one leads.

    Every change is a new map with a larger number. `others` are there and not of the map: what they
    still hold moves to those who are.
    """

    number: int
    servers: tuple[ServerSeat, ...]
    others: tuple[ServerSeat, ...] = ()


class Gone(Message, tag="gone", frozen=True):
    """To servers: this worker is lost or has left."""

    worker: str


# ---------------------------------------------------------------- coordinator -> worker process


class Welcome(Message, tag="welcome", frozen=True):
    """Registered. `work` comes again in `Configure` after each change."""

    work: WorkSpec


class Configure(Message, tag="configure", frozen=True):
    """The working fields changed."""

    work: WorkSpec


class Beat(Message, tag="beat", frozen=True):
    """
    The answer to a heartbeat: whether this process holds checkpoint duty, and for how long.

    Every heartbeat gets one, in order. The time counts from the moment that heartbeat was sent.
    """

    duty: bool
    valid_seconds: float = 0.0


class Reform(Message, tag="reform", frozen=True):
    """
    Stop training in this generation and become idle.

    Soft: at the next step boundary that all members agree on. Hard: a member is lost, break the
    collective now.
    """

    generation: int
    hard: bool
    cause: str = ""  # the worker that was lost, failed, leaves or joins; "" = not known


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One worker of a generation: its ranks are first_rank .. first_rank + processes - 1."""

    worker: str
    address: str
    store_port: int
    first_rank: int
    processes: int
    speed: float = 1.0  # of each of its ranks: the part of the batch that it takes


class Form(Message, tag="form", frozen=True):
    """Train together now. Sent to idle processes only."""

    generation: int
    members: tuple[Member, ...]  # in rank order; the first one's store is the generation's
    world_size: int
    source_rank: int  # the rank whose state counts
    source: str  # memory, checkpoint or initial
    step: int  # steps applied to that state
    sync: bool  # somebody needs the state: broadcast it


class Stop(Message, tag="stop", frozen=True):
    """Leave: save if needed and if it fits, then exit 82."""

    seconds: float
    reason: str


class SaveNow(Message, tag="save-now", frozen=True):
    """To the holder of checkpoint duty: save at the next boundary."""


class Dismissed(Message, tag="dismissed", frozen=True):
    """
    To a leaver that holds still: go. With `save` it alone holds the newest state.

    It then holds checkpoint duty already, and saves first if the time left allows.
    """

    save: bool


class Released(Message, tag="released", frozen=True):
    """All steps done and the final checkpoint committed: leave the loop."""


class Expelled(Message, tag="expelled", frozen=True):
    """You are no longer part of this job: change nothing more, exit 82."""

    reason: str


FromWorker = (
    Answer | Register | Heartbeat | Idle | Broken | Formed | Leaving | Left
    | CheckpointCommitted | CheckpointFailed | Reached
)  # fmt: skip
ToWorker = (
    Challenge | Refused | Welcome | Configure | Beat | Reform | Form | Stop | SaveNow
    | Dismissed | Released | Expelled | ServerMap | Gone
)  # fmt: skip
FromServer = Answer | RegisterServer | Heartbeat


# ---------------------------------------------------------------- operator <-> coordinator


class Call(Message, tag="call", frozen=True):
    """What the operator asks. `id` comes back in the reply."""

    id: int
    name: str  # status, configure, stop, warn, expel, checkpoint or finish
    worker: str = ""  # stop, warn, expel: a pod's name
    on: bool = True  # warn
    seconds: float = 0.0  # stop: the notice left
    work: WorkSpec | None = None  # configure
    since: int = -1  # status: answer when the version differs from this one ...
    wait: float = 0.0  # ... or after so many seconds


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One worker as the coordinator sees it; kept for a while after it is gone."""

    worker: str
    index: int
    attempt: int
    state: str  # joining, member, spare, leaving, left, lost
    warned: bool = False
    generation: int = 0  # the last one it was a member of; 0 = never
    step: int = 0


class ServerReport(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter server as the coordinator sees it."""

    server: str
    index: int
    attempt: int
    in_map: bool


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How long one change of membership kept training still. Seconds; -1 = not there yet."""

    generation: int
    cause: str  # lost, left, joined, rebalanced, resumed, started
    worker: str
    stopped_at: float  # epoch seconds of the last step before
    noticed_after: float = -1.0
    held_after: float = -1.0  # all who stay held still, and the next generation was ordered
    formed_after: float
    stepping_after: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator tells the operator."""

    attempt: int
    version: int  # grows with every change, progress aside
    generation: int = 0  # the newest formed one; 0 = none yet
    members: tuple[str, ...] = ()
    training: bool = False  # the members of `generation` train (or have finished)
    step: int = 0  # the largest applied step heard of
    steps_per_second: float = 0.0
    loss: float | None = None
    checkpoint_step: int = -1
    checkpoint_time: float = 0.0  # epoch seconds
    checkpoint_error: str = ""
    duty: str = ""  # the worker that holds checkpoint duty
    resumed_generation: int = 0  # the newest generation that started from a checkpoint ...
    resumed_step: int = 0  # ... and the step it started from
    steps_redone: int = 0  # of that start: largest step heard before minus resumed_step
    finished: bool = False  # step = work.steps and the final checkpoint committed
    work: WorkSpec | None = None  # what it works by: the operator configures when it differs
    workers: tuple[WorkerReport, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    servers: tuple[ServerReport, ...] = ()  # those that are connected
    server_map: int = 0  # the newest one's number; 0 = there is none yet


class Reply(Message, tag="reply", frozen=True):
    """The answer to one call."""

    id: int
    error: str = ""
    report: Report | None = None
