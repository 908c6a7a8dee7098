"""
Loops over arrays that run as they are, and many times faster once numba has compiled them.

One source, two speeds: a function marked as a `kernel` is plain Python until `compile_kernels` has
been called, by whoever asks many questions. The answers are the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from types import FunctionType
from typing import Any, Final, TypeVar, cast

from typing_extensions import override

Loop = TypeVar("Loop", bound=Callable[..., Any])

KERNELS: Final[list[FunctionType]] = []
"""In the order in which they are defined: what one calls comes before it."""
FAST: Final[dict[object, Any]] = {}
"""The compiled form of each, once there is one."""


def kernel(function: Loop) -> Loop:
    """Mark a function that can be compiled; it may call kernels that are defined before it."""
    KERNELS.append(cast("FunctionType", function))
    return function


def fast(function: Loop) -> Loop:
    """Return the fastest form of a kernel that there is now."""
    return cast("Loop", FAST.get(function, function))


def compile_kernels(
    *examples: tuple[Callable[..., Any], tuple[Any, ...]], needs_cache: bool = False
) -> bool:
    """
    Compile all kernels for the types of these calls; tell whether it is done.

    It is not where numba is missing. Takes about a minute, or about a second where an earlier run
    could leave its cache: who cannot spare more asks with `needs_cache`, and gets nothing where
    one call is not in the cache. Others may ask questions meanwhile.
    """
    try:
        import numba  # noqa: PLC0415 -- takes half a second, and is optional
    except ImportError:
        return False
    found = _wrap(numba)
    with _refusing() if needs_cache else nullcontext() as refused:
        try:
            for function, arguments in examples:
                found[function](*arguments)
        except RuntimeError:
            if not refused:
                raise
            return False
    FAST.update(found)
    return True


def find_cache() -> str | None:
    """Return the folder that keeps what is compiled; None: nowhere to write one, or no numba."""
    try:
        import numba  # noqa: PLC0415 -- optional, and slow
    except ImportError:
        return None
    path = _compile(numba, KERNELS[0]).stats.cache_path
    return None if path is None else str(path)


def _wrap(numba: Any) -> dict[object, Any]:  # noqa: ANN401 -- numba has no types
    """Return for each kernel a form that is compiled, or loaded, when it is first called."""
    made: dict[str, Any] = {}
    found: dict[object, Any] = {}
    digest = _digest()
    for loop in KERNELS:
        # A copy of its own: nobody is to meet half-compiled kernels.
        names = {**loop.__globals__, **made}
        copied = FunctionType(loop.__code__, names, loop.__name__, loop.__defaults__)
        copied.__module__, copied.__qualname__ = loop.__module__, f"{loop.__name__}-{digest}"
        found[loop] = made[loop.__name__] = _compile(numba, copied)
    return found


@contextmanager
def _refusing() -> Iterator[list[str]]:
    """Let kernels be loaded, and end any compilation as it begins; yields what was refused."""
    from numba.core import event  # noqa: PLC0415 -- as numba itself

    refused: list[str] = []

    class Refusal(event.Listener):
        @override
        def on_start(self, event: Any) -> None:
            refused.append(event.data["dispatcher"].__name__)
            raise RuntimeError(f"{refused[-1]} is not in the cache")

        @override
        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Refusal()):
        yield refused


def _digest() -> str:
    """
    Tell one state of the kernels from another, in the names of their caches.

    A cache knows when its own function has changed, but not when one that it calls has.
    """
    found = sha256()
    for loop in KERNELS:
        code, space = loop.__code__, loop.__globals__
        numbers = [(n, space[n]) for n in code.co_names if isinstance(space.get(n), int | float)]
        found.update(repr((code.co_code, code.co_consts, code.co_names, numbers)).encode())
    return found.hexdigest()[:12]


def _compile(numba: Any, function: FunctionType) -> Any:  # noqa: ANN401 -- numba has no types
    # Numbers as Python has them: a division by zero is infinite in arrays, and ours never are.
    options = {"error_model": "numpy", "boundscheck": False}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache: compiled anew each time
        return numba.njit(**options)(function)
