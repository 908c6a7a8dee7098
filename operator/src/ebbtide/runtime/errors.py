"""What can go wrong in a trainer, and the one way out that is no error."""

from ebbtide.wire import names


class UsageError(Exception):
    """The environment, the command or the script asks for something that cannot be."""


class CheckpointError(Exception):
    """There are checkpoints and none of them can be used: training does not start over silently."""


class MismatchError(CheckpointError):
    """A state is whole, and is not of this script's model, parts or data: both sides are named."""


class CollectiveBroken(RuntimeError):  # noqa: N818 -- says what happened, as users will read it
    """A member is gone or the group was ended: nothing of this step counts, it is done again."""


class LeaveTraining(SystemExit):
    """
    This process leaves the job, at a step boundary, and everything that counts is safe.

    A `SystemExit`: a script's `finally` blocks run and the exit code is right without its help.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(names.EXIT_LEFT)
        self.reason = reason
