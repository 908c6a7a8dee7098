"""The table of bug cases names tests that exist, and every case has its line."""

import re

from architecture.tree import ROOT, TESTS, files, relative

TABLE = (ROOT / "docs/bug-cases.md").read_text(encoding="utf-8")
NUM_CASES = 67


def test_every_case_has_one_line() -> None:
    cases = re.findall(r"^\| \[(B[0-9]{3})\]", TABLE, flags=re.MULTILINE)

    assert len(cases) == len(set(cases)) == NUM_CASES


def test_every_line_names_a_test_or_says_why_not() -> None:
    lines = [line for line in TABLE.splitlines() if line.startswith("| [B")]

    silent = [line for line in lines if "::test_" not in line and "| not yet: " not in line]
    assert silent == []


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", TABLE)

    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert named
    assert missing == []


def test_a_test_named_after_a_case_is_in_its_line() -> None:
    found = [
        (match["case"].upper(), f"{relative(path)}::{match['name']}")
        for path in files(*TESTS, suffix=".py")
        for match in re.finditer(
            r"^(async )?def (?P<name>test_(?P<case>b[0-9]{3})_\w+)",
            path.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    ]
    cases = {case for case, _ in found}
    lines = {case: _line_of(case) for case in cases}

    assert found
    assert [
        case for case in cases if not any(f"`{t}`" in lines[case] for c, t in found if c == case)
    ] == []


def _line_of(case: str) -> str:
    return next((line for line in TABLE.splitlines() if line.startswith(f"| [{case}]")), "")
