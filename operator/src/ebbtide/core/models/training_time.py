"""
When training ends, with nodes that are taken away.

CM-DARE's equation counts revocations and adds their cost. The exact forms follow the law of life:
one node (or a gang that is lost as one) that repeats what it lost since its last checkpoint, and a
cluster whose survivors train on while a lost worker is replaced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ebbtide.core.models.survival import Survival
from ebbtide.core.models.table import Floats

ROUNDS: Final = 200
"""Repeats of a sum that settles, before it is taken as it is."""
CLOSE_S: Final = 1e-6
MOST_MOMENTS: Final = 10_000
"""Steps of time after which a cluster that gets nowhere is given up."""


# ---------------------------------------------------------------- CM-DARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What interrupts training, seconds each."""

    save_s: float
    """One checkpoint, while training waits."""
    start_s: float
    """A node from request to ready (provisioning, staging, booting)."""
    replace_s: float
    """The training process on a ready node, until it contributes."""


def by_equation(
    *,
    steps: float,
    speeds: Sequence[float],
    steps_between_saves: float,
    costs: Costs,
    lost_by: Callable[[float], float] = lambda _: 0.0,
) -> float:
    """
    CM-DARE's estimate, s: steps / speed + saves x save + revocations x (start + replace).

    `speeds` are steps/s of each worker; `lost_by` gives the chance that one worker is revoked
    within some seconds. The number of revocations in turn depends on the time: the sum is repeated
    until it settles, which it does because at most every worker is lost once.
    """
    speed = sum(speeds)
    if not (steps >= 0 and speed > 0 and steps_between_saves > 0):
        raise ValueError(
            f"steps {steps}, speed {speed}, steps_between_saves {steps_between_saves}:"
            " steps from 0, the others above 0 are needed"
        )
    undisturbed = steps / speed + np.ceil(steps / steps_between_saves) * costs.save_s
    time = undisturbed
    for _ in range(ROUNDS):
        lost = len(speeds) * lost_by(float(time))
        before, time = time, undisturbed + lost * (costs.start_s + costs.replace_s)
        if abs(time - before) < CLOSE_S:
            break
    return float(time)


def after_one_loss(
    *, steps_left: float, speed_now: float, speed_then: float, replace_s: float
) -> float:
    """
    Seconds left after a revocation: replace + left / then - replace x now / then.

    From CM-DARE's scripts: survivors train on at `speed_now` for the `replace_s` seconds until the
    replacement contributes, and then all at `speed_then` steps/s.
    """
    if not (steps_left >= 0 and speed_now >= 0 and speed_then > 0 and replace_s >= 0):
        raise ValueError(
            f"steps_left {steps_left}, speed_now {speed_now}, speed_then {speed_then}, replace_s"
            f" {replace_s}: speed_then above 0, the others from 0 are needed"
        )
    done_meanwhile = replace_s * speed_now
    if done_meanwhile >= steps_left and speed_now > 0:
        return steps_left / speed_now
    return replace_s + (steps_left - done_meanwhile) / speed_then


# ---------------------------------------------------------------- lost as one


def of_constant_rate(
    *, work_s: float, interval_s: float, save_s: float, restart_s: float, between_failures_s: float
) -> float:
    """
    Expected seconds where losses come at a constant rate r = 1/M, in restarts too (Daly 2006).

    Each segment takes exp(r restart) (exp(r (interval + save)) - 1) / r; the last may be shorter.
    """
    _need(work_s=work_s, interval_s=interval_s, between_failures_s=between_failures_s)
    _from_zero(save_s=save_s, restart_s=restart_s)
    rate = 1 / between_failures_s
    whole, rest = divmod(work_s, interval_s)
    lengths = np.array([interval_s + save_s, rest + save_s])
    with np.errstate(over="ignore"):
        seconds = np.exp(rate * restart_s) * np.expm1(rate * lengths) / rate
    total = float(whole * seconds[0] + seconds[1]) if rest > 0 else float(whole * seconds[0])
    if not np.isfinite(total):
        raise ValueError(
            f"intervals of {interval_s:g} s never end where nodes last {between_failures_s:g} s"
        )
    return total


def of_lives(
    law: Survival, *, work_s: float, interval_s: float, save_s: float, restart_s: float
) -> float:
    """
    Expected seconds of work that is saved every `interval_s`, for any law of life; exact.

    With i segments done since the node was new and j left, of length s and p = S(a+s)/S(a):
    V(i, j) = p (s + V(i+1, j-1)) + lost time + (1 - p) (restart + V(0, j)).
    V(0, j) needs V(1, j-1), V(2, j-2), ..., 0 alone, all known when it is their turn. A restart
    brings a new node, which cannot be lost before it trains.
    """
    _need(work_s=work_s, interval_s=interval_s)
    _from_zero(save_s=save_s, restart_s=restart_s)
    whole, rest = divmod(work_s, interval_s)
    short = rest > interval_s * 1e-9
    number = int(whole) + int(short)
    starts: Floats = np.arange(number, dtype=np.float64) * (interval_s + save_s)
    regular = _ends(law, starts, np.full(number, interval_s + save_s))
    # the short segment comes last: it alone has another length
    last = _ends(law, starts, np.full(number, rest + save_s)) if short else regular
    return _renew(regular, last, restart_s=restart_s)


def _ends(law: Survival, starts: Floats, lengths: Floats) -> tuple[Floats, Floats, Floats]:
    """Length, chance to be lost, and lost seconds times that chance, of segments by their age."""
    alive, later = law.at(starts), law.at(starts + lengths)
    some = np.maximum(alive, 1e-300)
    failed = np.where(alive > 0, 1 - later / some, 1.0)
    lost = (law.area(starts + lengths) - law.area(starts) - lengths * later) / some
    return lengths, failed, np.where(alive > 0, np.maximum(lost, 0.0), 0.0)


def _renew(
    regular: tuple[Floats, Floats, Floats],
    last: tuple[Floats, Floats, Floats],
    *,
    restart_s: float,
) -> float:
    number = len(regular[0])
    before = np.zeros(number + 1)
    for left in range(1, number + 1):
        length, failed, lost = last if left == 1 else regular
        if failed[0] >= 1:
            raise ValueError(f"no node lives for {length[0]:g} s, one interval and its save")
        spent = (1 - failed) * (length + before[1:]) + lost + failed * restart_s
        new = float(spent[0] / (1 - failed[0]))
        values = spent + failed * new
        # nobody comes to more segments than there are: the last value is never used
        before = np.append(values, values[-1])
    return float(before[0])


# ---------------------------------------------------------------- survivors train on


def availability(law: Survival, *, replace_s: float, until_s: float) -> Floats:
    """
    The share of workers that train at 0, unit, 2 unit, ... seconds after all began new.

    A lost worker is replaced by a new one after `replace_s`: A(t) = S(t) + the integral over ages
    u of A(t - u - replace) dF(u), an alternating renewal process.
    """
    _need(until_s=until_s)
    _from_zero(replace_s=replace_s)
    number = int(np.ceil(until_s / law.unit_s)) + 1
    moments: Floats = np.arange(number, dtype=np.float64) * law.unit_s
    survival = law.at(moments)
    deaths = np.append(-np.diff(survival), 0.0)
    delay, rest = divmod(replace_s / law.unit_s, 1.0)
    # deaths by how many units later their replacement begins, at some moment of that unit
    begins = np.zeros(number)
    for shift, part in ((int(delay), 1 - rest), (int(delay) + 1, rest)):
        if shift < number:
            begins[shift:] += part * deaths[: number - shift]
    share = survival.copy()
    # of those that begin in one unit: none trains at its start, the mean of both ends at its end
    begun = np.zeros(number)
    for now in range(1, number):
        known = survival[now] + begins[1 : now + 1] @ begun[now - 1 :: -1][:now]
        # what begins in this very unit depends on the share that is looked for
        share[now] = (known + begins[0] * share[now - 1] / 2) / (1 - begins[0] / 2)
        begun[now] = (share[now - 1] + share[now]) / 2
    return np.minimum(share, 1.0)


def of_cluster(law: Survival, *, work_s: float, replace_s: float) -> float:
    """
    Expected seconds of a cluster whose survivors train on, with speed in proportion to them.

    `work_s` is the time with all workers there all along. It ends where the expected work reaches
    `work_s`; with two and more workers that is the expected end within about 1 %.
    """
    _need(work_s=work_s)
    _from_zero(replace_s=replace_s)
    horizon = 2 * work_s + replace_s
    while True:
        share = availability(law, replace_s=replace_s, until_s=horizon)
        done = np.append(0.0, np.cumsum((share[1:] + share[:-1]) / 2 * law.unit_s))
        if done[-1] >= work_s:
            return float(np.interp(work_s, done, np.arange(len(done)) * law.unit_s))
        if len(share) > MOST_MOMENTS:
            raise ValueError(
                f"the work is not done after {horizon:g} s: replacements take {replace_s:g} s,"
                " and nodes do not live long enough for them"
            )
        horizon *= 2


def _need(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise ValueError(f"{name} {value}: a number of seconds above 0 is needed")


def _from_zero(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < np.inf:
            raise ValueError(f"{name} {value}: seconds from 0 upwards are needed")
