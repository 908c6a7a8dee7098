"""One worker's agent from start to end, and the exit code that it amounts to."""

import sys
from collections.abc import Sequence
from typing import Final

from torch.distributed.elastic.agent.server.api import RunResult
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

from ebbtide.runtime.environment import Place
from ebbtide.runtime.errors import LeaveTraining, UsageError
from ebbtide.runtime.launching import command_line, options
from ebbtide.runtime.launching.agent import Agent
from ebbtide.runtime.launching.rendezvous import Finished, Rendezvous
from ebbtide.runtime.membership import MustLeave
from ebbtide.runtime.notice import watch_notice
from ebbtide.runtime.reporting import say
from ebbtide.wire import names

BY_SIGNAL: Final = 128


def run(words: Sequence[str], place: Place) -> int:
    """Run a command line's scripts until the job is done or this worker leaves it."""
    try:
        found = options.parse(command_line.read(words))
        rendezvous = Rendezvous(place)
    except UsageError as error:
        sys.stderr.write(f"ebbtide: {error}\n")
        return names.EXIT_USAGE
    membership = rendezvous.membership
    watch_notice(membership, seconds=place.notice_seconds)
    try:
        rendezvous.start()
        asked = options.settle(found, place, membership.work)
        for option in asked.replaced:
            say(f"{option} does not count here: the job says how many train and where they meet")
        agent = Agent(asked, rendezvous, notice_seconds=place.notice_seconds)
        return _run(agent, rendezvous, name=found.training_script)
    except MustLeave as order:
        say(f"leaving before the scripts started: {order.leave.reason}")
        return names.EXIT_LEFT
    except UsageError as error:
        sys.stderr.write(f"ebbtide: {error}\n")
        return names.EXIT_USAGE
    finally:
        rendezvous.shutdown()


def _run(agent: Agent, rendezvous: Rendezvous, *, name: str) -> int:
    try:
        result = agent.run()
    except LeaveTraining as order:
        say(f"leaving: {order.reason}")
        rendezvous.membership.left(step=0)
        return names.EXIT_LEFT
    except Finished:
        return names.EXIT_DONE  # the others were done before this one began
    return _conclude(result, name)


def _conclude(result: RunResult, name: str) -> int:
    """Return the code of the first script that failed, after torchrun's own summary of it."""
    if not result.is_failed():
        return names.EXIT_DONE
    if not result.failures:
        sys.stderr.write(f"ebbtide: the scripts are {result.state.name.lower()}\n")
        return 1
    error = ChildFailedError(name=name, failures=result.failures)
    sys.stderr.write(f"{error}\n")
    code = error.get_first_failure()[1].exitcode
    return BY_SIGNAL - code if code < 0 else code
