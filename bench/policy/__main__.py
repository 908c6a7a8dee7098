"""Replay all cases on some cores, say how far it is, print one table, judge the bars."""

import argparse
import os
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from policy.cases import Case, all_cases
from policy.judging import Results, Took, rows
from policy.playing import play
from policy.published import published_rows
from rows import report, yardstick


def play_all(cases: Sequence[Case], *, num_processes: int) -> Results:
    """Play cases in processes of their own; the order of results is that of the cases."""
    found: dict[Case, Results] = {}
    total, done = sum(case.num_jobs for case in cases), 0
    begun = time.monotonic()
    with ProcessPoolExecutor(num_processes) as processes:
        for future in as_completed([processes.submit(play, case) for case in cases]):
            case, policies = future.result()
            found[case] = [(case, policies)]
            done += case.num_jobs
            line = f"\r{done} of {total} jobs, {time.monotonic() - begun:.0f} s "
            print(line, end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return [found[case][0] for case in cases]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with what the command line says."""
    parser = argparse.ArgumentParser(prog="bench-policy", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the jobs, from 0 to 1")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    given = parser.parse_args(arguments)
    if not 0 < given.share <= 1:
        parser.error(f"--share {given.share:g}: above 0 and at most 1 is needed")
    # Matrices are small: threads would only wait for each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    before, begun = yardstick(), time.monotonic()
    is_full = given.share == 1
    table = published_rows(given.share, num_processes=given.processes, is_full=is_full)
    results = play_all(all_cases(given.share), num_processes=given.processes)
    wall_s = time.monotonic() - begun
    # On a machine that does other work the time of its processors says what a quiet one takes.
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = Took(wall_s=wall_s, cpu_s=spent.ru_utime + spent.ru_stime)
    found = table + rows(results, took, is_full=is_full)
    return report("policy", found, yardstick_s=max(before, yardstick()))


if __name__ == "__main__":
    sys.exit(main())
