"""
What workers and servers say to each other in small frames; tensors follow outside of them.

A connection starts with the coordinator's `Challenge` and `Answer`, then takes one of three parts:
a *trainer* is one worker process with its gradients, a *peer* is the lead talking to another
server, a *reader* takes parts of the state away.
"""

from typing import Final

import msgspec

from ebbtide.runtime.paramserver.layout import Layout
from ebbtide.wire.messages import Message, Number, Refused, Size

TRAINER: Final = "trainer"
PEER: Final = "peer"
READER: Final = "reader"
ROLES: Final = (TRAINER, PEER, READER)


Counts = dict[str, Size]  # rows by table


class Area(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's shared memory, for a server on the same machine."""

    pid: Size
    descriptor: Size
    size: Size
    token: str  # what stands at its beginning


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A state in numbers: of which training, how many pushes, which steps."""

    lineage: Number = 0  # grows with every return to a checkpoint
    version: Number = -1  # how many pushes were applied; -1 = no state at all
    floor: Number = 0
    ahead: tuple[Number, ...] = ()

    @property
    def step(self) -> int:
        """How many steps are applied."""
        return self.floor + len(self.ahead)

    @property
    def age(self) -> tuple[int, int]:
        """What orders states: larger is newer."""
        return self.lineage, self.version


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One state that a server has: as the server at `place` of a map of these servers."""

    map: Number
    servers: tuple[str, ...]
    is_open: bool
    standing: Standing
    times: tuple[Number, ...]  # updates of each parameter


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of a space, and where they come from."""

    space: str
    start: Size
    stop: Size
    server: str = ""  # of the map; "" = nobody among the living has them


# ---------------------------------------------------------------- trainer -> server


class Hello(Message, tag="hello", frozen=True):
    """I am one process of a worker, and this is what I hold."""

    map: Number
    client: str
    worker: str
    layout: Layout
    held: Standing
    area: Area | None = None
    working: Number = -1  # the step whose gradient it has; -1 = none
    since: Number = 0  # the version that gradient was computed on


class Stage(Message, tag="stage", frozen=True):
    """My gradient of a step follows: for who does not share my memory."""

    step: Number
    rows: Counts = msgspec.field(default_factory=dict)


class Commit(Message, tag="commit", frozen=True):
    """To the lead: apply my gradient of this step, everywhere."""

    step: Number
    groups: tuple[dict[str, float], ...]
    skipped: tuple[Number, ...] = ()  # entries without a gradient
    rows: Counts = msgspec.field(default_factory=dict)
    wants_more: bool = True


class Want(Message, tag="want", frozen=True):
    """To the lead: give me a step."""


class Give(Message, tag="give", frozen=True):
    """To a trainer: send these blocks of what you hold."""

    pieces: tuple[Piece, ...]


# ---------------------------------------------------------------- server -> trainer


class Here(Message, tag="here", frozen=True):
    """I know you now."""

    is_shared: bool = False  # I see your memory: stage nothing


class Mismatch(Message, tag="mismatch", frozen=True):
    """Your script's model is not the one that is trained here."""

    reason: str


class Ready(Message, tag="ready", frozen=True):
    """From the lead: this is the state, go on."""

    standing: Standing
    origin: str = ""  # where it came from: memory, workers, checkpoint or initial


class Staged(Message, tag="staged", frozen=True):
    """Your gradient of this step is here."""

    step: Number


class Fresh(Message, tag="fresh", frozen=True):
    """My part of the parameters is in your memory, or follows."""

    standing: Standing
    step: Number = -1  # the step to do next; -1 = none
    is_done: bool = False  # all steps are applied
    applied: bool = False  # whether what was committed counted
    staleness: Number = 0
    rows: Counts = msgspec.field(default_factory=dict)


# ---------------------------------------------------------------- lead -> other servers


class Adopt(Message, tag="adopt", frozen=True):
    """I lead from this map on: what do you hold? Nothing of an older map counts any more."""

    map: Number


class Have(Message, tag="have", frozen=True):
    """What a server holds."""

    holdings: tuple[Holding, ...]
    layout: Layout | None = None


class Take(Message, tag="take", frozen=True):
    """Make your part of a new map from these pieces, beside what you have."""

    map: Number
    servers: tuple[str, ...]
    addresses: dict[str, str]  # host:port of those to read from
    layout: Layout
    standing: Standing
    times: tuple[Number, ...]
    pieces: tuple[Piece, ...]
    base: Number = 0  # the map whose state the pieces are read from
    client: str = ""  # the trainer that has what nobody holds; "" = the checkpoint, if any
    from_checkpoint: bool = False  # all of it, as saved


class Taken(Message, tag="taken", frozen=True):
    """Done, or why not."""

    error: str = ""
    fresh: tuple[str, ...] = ()  # states that began anew


class Open(Message, tag="open", frozen=True):
    """What you took is the state from now on."""

    map: Number


class Opened(Message, tag="opened", frozen=True):
    """It is."""


class Apply(Message, tag="apply", frozen=True):
    """In order: apply this client's gradient (where `has_gradient`), then refresh it."""

    client: str
    has_gradient: bool
    entry: Fresh
    weight: float = 1.0
    is_alone: bool = True  # nobody else is at work: no momentum but the common one
    groups: tuple[dict[str, float], ...] = ()
    skipped: tuple[Number, ...] = ()
    rows: Counts = msgspec.field(default_factory=dict)


class Drop(Message, tag="drop", frozen=True):
    """In order: this client is gone."""

    client: str


class Cut(Message, tag="cut", frozen=True):
    """In order: keep a copy of the state as it is now, under this number."""

    number: Number


# ---------------------------------------------------------------- reader <-> server


class Snap(Message, tag="snap", frozen=True):
    """To the lead: let all servers keep a copy of one and the same state."""


class Snapped(Message, tag="snapped", frozen=True):
    """It is kept."""

    map: Number
    number: Number
    standing: Standing
    times: tuple[Number, ...]
    layout: Layout


class Read(Message, tag="read", frozen=True):
    """Send blocks of one state (`value` or one of the optimizer's)."""

    map: Number
    number: Number  # of a cut; 0 = what is held for that map
    space: str
    key: str
    start: Size
    stop: Size


class Bytes(Message, tag="bytes", frozen=True):
    """So many follow; or there are none, and why."""

    size: Size = 0
    error: str = ""


ToServer = Hello | Stage | Commit | Want | Bytes
ToTrainer = Here | Mismatch | Staged | Ready | Fresh | Give | Refused
ToPeer = Have | Taken | Opened | Refused
FromLead = Adopt | Take | Open | Apply | Drop | Cut
FromReader = Snap | Read
ToReader = Snapped | Bytes | Refused
