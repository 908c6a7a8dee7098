"""How large a module, a function and a signature may be, and how much must be tested."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from architecture.tree import SOURCES, TESTS, files, python_files, relative

MODULE_LINES = 500
FUNCTION_LINES = 60
HANDLER_LINES = 25
PARAMETERS = 8
POSITIONAL = 4
TESTS_TO_SOURCES = 0.9

# What may pass a budget, up to which size, and why. The list may only shrink: NUM_EXCEPTIONS is
# lowered with it, and an entry that is no longer needed fails the test below.
EXCEPTIONS: MappingProxyType[str, tuple[int, str]] = MappingProxyType({})
NUM_EXCEPTIONS = 0

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Something measured, under the key that EXCEPTIONS uses."""

    key: str
    measured: int
    budget: int


def functions_of(tree: ast.AST, *, inside: str = "") -> Iterator[tuple[str, Function, bool]]:
    """Each function with its qualified name and whether it is a method."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{inside}{node.name}", node, isinstance(tree, ast.ClassDef)
            yield from functions_of(node, inside=f"{inside}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, inside=f"{inside}{node.name}.")
        else:
            yield from functions_of(node, inside=inside)


def lines_of(function: Function) -> int:
    """Lines of the signature and the body, the docstring aside."""
    num_lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        first = function.body[0]
        num_lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return num_lines


def is_handler(function: Function) -> bool:
    return any(ast.unparse(decorator).startswith("kopf.") for decorator in function.decorator_list)


def positional_of(function: Function, *, is_method: bool) -> int:
    is_static = any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    implied = 1 if is_method and not is_static else 0
    return len(function.args.posonlyargs) + len(function.args.args) - implied


def sizes_of(path: Path) -> Iterator[Size]:
    name = relative(path)
    text = path.read_text(encoding="utf-8")
    yield Size(key=name, measured=len(text.splitlines()), budget=MODULE_LINES)
    is_test = name.startswith(tuple(f"{folder}/" for folder in TESTS))
    for qualified, function, is_method in functions_of(ast.parse(text)):
        key = f"{name}:{qualified}"
        budget = HANDLER_LINES if is_handler(function) else FUNCTION_LINES
        yield Size(key=f"{key} lines", measured=lines_of(function), budget=budget)
        positional = positional_of(function, is_method=is_method)
        num_parameters = positional + len(function.args.kwonlyargs)
        yield Size(key=f"{key} parameters", measured=num_parameters, budget=PARAMETERS)
        if not is_test:  # pytest gives fixtures and cases by name, in any number
            yield Size(key=f"{key} positional", measured=positional, budget=POSITIONAL)


def over_budget() -> dict[str, Size]:
    return {
        size.key: size
        for path in python_files()
        for size in sizes_of(path)
        if size.measured > size.budget
    }


def test_nothing_is_over_its_budget_without_a_reason() -> None:
    over = over_budget()

    found = {
        key: f"{size.measured} > {size.budget}"
        for key, size in over.items()
        if size.measured > EXCEPTIONS.get(key, (size.budget, ""))[0]
    }
    assert found == {}


def test_the_list_of_exceptions_only_shrinks() -> None:
    over = over_budget()

    assert len(EXCEPTIONS) == NUM_EXCEPTIONS
    assert [key for key in EXCEPTIONS if key not in over] == []
    assert [key for key, (_, reason) in EXCEPTIONS.items() if len(reason) < 15] == []


def test_there_is_nearly_as_much_test_as_source() -> None:
    # The local world is on neither side: it serves the demo as much as the tests.
    num_source = num_lines(*(folder for folder in SOURCES if folder != "e2e/world"))
    num_test = num_lines(*TESTS)

    assert num_test >= TESTS_TO_SOURCES * num_source, f"{num_test} to {num_source} lines"


def num_lines(*folders: str) -> int:
    return sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in files(*folders, suffix=".py")
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("def f(a, b, *, c): pass", {"lines": 1, "parameters": 3, "positional": 2}),
        pytest.param(
            'def f():\n    """One.\n\n    Two.\n    """\n    return 1',
            {"lines": 2, "parameters": 0, "positional": 0},
            id="docstring",
        ),
        pytest.param(
            "class C:\n    async def m(self, a):\n        pass",
            {"lines": 2, "parameters": 1, "positional": 1},
            id="method",
        ),
    ],
)
def test_sizes_are_measured_as_they_read(source: str, expected: dict[str, int]) -> None:
    ((_, function, is_method),) = functions_of(ast.parse(source))

    positional = positional_of(function, is_method=is_method)

    assert {
        "lines": lines_of(function),
        "parameters": positional + len(function.args.kwonlyargs),
        "positional": positional,
    } == expected
