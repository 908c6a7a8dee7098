"""What one process of a job is connected to."""

from dataclasses import dataclass

import torch

from ebbtide.runtime.checkpoint import Shelf
from ebbtide.runtime.collective import Group
from ebbtide.runtime.environment import Place
from ebbtide.runtime.membership import Membership
from ebbtide.runtime.staging import Saver
from ebbtide.runtime.telemetry import Telemetry


@dataclass(slots=True, kw_only=True)
class Links:
    """What one process is connected to."""

    place: Place
    membership: Membership
    group: Group
    shelf: Shelf
    saver: Saver
    telemetry: Telemetry
    device: torch.device
    token: bytes
