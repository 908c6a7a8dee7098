"""
Torch's elastic agent for one worker, with the coordinator's rules of when to start over.

Four things differ from torchrun. A change of members is told, not found out. Whoever's script
failed first is to blame, and nobody else: the others start theirs again without using up
`--max-restarts`. That number is the job's, not each node's. And a script that is told to end gets
the time that there is, not thirty seconds.
"""

import os
import signal
import time
from types import FrameType
from typing import Any, Final

from torch.distributed.elastic.agent.server.api import (
    DEFAULT_ROLE,
    RunResult,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from typing_extensions import override

from ebbtide.runtime.launching.options import Options
from ebbtide.runtime.launching.rendezvous import Rendezvous
from ebbtide.runtime.reporting import say
from ebbtide.wire import names

SILENT_BEATS: Final = 4
"""Heartbeats that a lost peer may have missed before the coordinator says so."""
WORD_SECONDS: Final = 3.0
"""For the coordinator to say on whose account a generation ends, once it was told of a failure."""
BROKEN_SECONDS: Final = 5.0
"""For a script to end when a peer is gone: it can save only what needs no peer."""
MARGIN_SECONDS: Final = 1.0
"""Of a notice, kept for killing what does not end and saying goodbye."""
PASSED_ON: Final = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
ENV_SIGNALS: Final = "TORCHELASTIC_SIGNALS_TO_HANDLE"


class Agent(LocalElasticAgent):
    """Starts a worker's scripts, watches them, and starts them again in every new generation."""

    def __init__(self, options: Options, rendezvous: Rendezvous, *, notice_seconds: float) -> None:
        """Start nothing yet."""
        config = options.config
        super().__init__(
            spec=WorkerSpec(
                role=config.role,
                local_world_size=config.nproc_per_node,
                entrypoint=options.entry,
                args=options.arguments,
                rdzv_handler=rendezvous,
                max_restarts=config.max_restarts,
                monitor_interval=config.monitor_interval,
                local_addr=config.local_addr,
                event_log_handler=config.event_log_handler,
                numa_options=config.numa_options,
                duplicate_stdout_filters=config.duplicate_stdout_filters,
                duplicate_stderr_filters=config.duplicate_stderr_filters,
                virtual_local_rank=config.virtual_local_rank,
            ),
            logs_specs=config.logs_specs or DefaultLogsSpecs(),
            start_method=config.start_method,
            log_line_prefix_template=config.log_line_prefix_template,
            shutdown_timeout=int(config.shutdown_timeout or 0),
        )
        self._meeting = rendezvous
        self._asked_seconds = options.shutdown_seconds
        self._notice_seconds = notice_seconds
        # Ours arrive by another way (`runtime.notice`): torch's handler would raise wherever the
        # agent stands. It wants some signal; this one nobody sends.
        os.environ[ENV_SIGNALS] = "SIGURG"
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)

    @override
    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group, interval = self._worker_group, self._worker_group.spec.monitor_interval
        self._initialize_workers(group)
        while True:
            time.sleep(interval)
            # Before torch looks: it would give the rest of broken scripts its own thirty seconds.
            if self._meeting.num_nodes_waiting():
                self._restart_workers(group)
                continue
            result: RunResult = self._monitor_workers(group)
            group.state = result.state
            if result.state is WorkerState.SUCCEEDED:
                if self._meeting.await_others():
                    return result
                self._initialize_workers(group)
            elif result.state is not WorkerState.HEALTHY:
                if not self._may_go_on(result):
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                self._restart_workers(group)

    @override
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        spec = worker_group.spec
        super()._rendezvous(worker_group)
        self._remaining_restarts = max(0, spec.max_restarts - self._meeting.failures)
        ranks = [worker.global_rank for worker in worker_group.workers]
        say(
            f"generation {self._meeting.generation}: ranks {ranks[0]} to {ranks[-1]} of"
            f" {worker_group.workers[0].world_size}, as node {worker_group.group_rank} of"
            f" {worker_group.group_world_size}"
        )

    @override
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        os.environ[names.ENV_GENERATION] = str(self._meeting.generation)
        started: dict[int, Any] = super()._start_workers(worker_group)
        return started

    @override
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._time_to_end())  # type: ignore[arg-type]  # any number is right

    def _time_to_end(self) -> float:
        """Return how many seconds the scripts have, from SIGTERM to SIGKILL."""
        leave, word = self._meeting.membership.leave_requested(), self._meeting.ending()
        is_whole = word is None or not word.hard
        usual = self._notice_seconds if is_whole else min(BROKEN_SECONDS, self._notice_seconds)
        seconds = usual if self._asked_seconds is None else self._asked_seconds
        if leave is not None:
            seconds = min(seconds, leave.seconds_left - MARGIN_SECONDS)
        return max(0.0, seconds)

    def _may_go_on(self, result: RunResult) -> bool:
        """
        Find out who is to blame for the scripts' end; False when it is the end of this worker.

        A lost peer takes the scripts of all others down within milliseconds, long before its
        silence can be noticed, so the coordinator gets time to say that somebody is gone. If nobody
        is, the worker that reports first is to blame: each waits equally long, so it is the one
        whose scripts failed first.
        """
        meeting = self._meeting
        silence = SILENT_BEATS * meeting.membership.heartbeat_seconds() + WORD_SECONDS / 10
        word = meeting.ending(seconds=silence)
        if word is None and meeting.membership.leave_requested() is None:
            meeting.membership.broken(generation=meeting.generation, error=describe(result))
            word = meeting.ending(seconds=WORD_SECONDS)
            if word is None or word.cause in ("", self._meeting.worker):
                return self._count_failure()
        whose = f" on account of {word.cause}" if word is not None and word.cause else ""
        say(f"scripts ended with generation {meeting.generation}{whose}: they start again")
        return True

    def _count_failure(self) -> bool:
        self._meeting.failures += 1
        most = self._worker_group.spec.max_restarts
        if self._meeting.failures > most:
            return False
        say(f"a script of this worker failed: restart {self._meeting.failures} of {most}")
        return True

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        """Hand a signal to the scripts."""
        for pid in self._pcontext.pids().values() if self._pcontext is not None else ():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def describe(result: RunResult) -> str:
    """Say which ranks failed and how."""
    ends = (f"rank {rank} exited {end.exitcode}" for rank, end in sorted(result.failures.items()))
    return "; ".join(ends) or f"the scripts are {result.state.name.lower()}"
