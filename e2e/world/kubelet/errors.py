"""What can stand in the way of a pod, told apart by what the node agent does about it."""

from __future__ import annotations


class NotYetError(Exception):
    """Something that the pod names is missing; the agent waits for it, as long as it takes."""


class UnsupportedError(Exception):
    """The pod asks for what this node agent cannot do; the pod fails rather than pretend."""


class PullError(Exception):
    """An image cannot be pulled now."""


class StoppedError(Exception):
    """The pod was told to stop while it waited for something."""
