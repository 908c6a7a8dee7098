"""What no file may say, and how a suppression must say why."""

import io
import re
import tokenize
from pathlib import Path

import pytest

from architecture.tree import python_files, relative, tracked

# Written in two halves, so that this file does not say them either.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:wo" r"rk|opt/wh" r"eels|root)/",
    "a folder outside the repository": r"\.\./sha" r"red\b",
    "the address of a package index": r"py"
    r"pi\.org/simple|files\.pythonho"
    r"sted|"
    r"proxy\.go"
    r"lang\.org|registry\.np"
    r"mjs|-index-u"
    r"rl[ =][a-z]|"
    r"(?<!emit-)find-l"
    r"inks",
    "who wrote it": r"(?i)\b(?:help" r"er agent|langu" r"age model|as an a" r"i\b)",
    "an unfinished thought": r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b",
}

SUPPRESSION = re.compile(
    r"#\s*(?P<kind>noqa|type:\s*ignore|pragma:\s*no\s*cover|nosec|ruff:\s*noqa|mypy:)(?P<rest>.*)"
)
WITH_RULE = {
    "noqa": re.compile(r":\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*(?P<reason>.*)"),
    "type: ignore": re.compile(r"\[[a-z-]+(?:,\s*[a-z-]+)*\](?P<reason>.*)"),
}
REASON = re.compile(r"[\s#:-]*\w.{9,}")


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_says(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])

    found = [
        f"{relative(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def comments_of(text: str) -> list[tuple[int, str]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def complaint_about(comment: str) -> str:
    """What is wrong with a suppression in this comment; empty if nothing is."""
    match = SUPPRESSION.search(comment)
    if match is None:
        return ""
    kind = re.sub(r":\s*", ": ", match["kind"])
    if kind not in WITH_RULE:
        return f"`{kind}` hides more than one rule on one line"
    with_rule = WITH_RULE[kind].match(match["rest"])
    if with_rule is None:
        return "no rule is named"
    return "" if REASON.match(with_rule["reason"]) else "no reason is given"


def test_each_suppression_names_its_rule_and_its_reason() -> None:
    found = [
        f"{relative(path)}:{number}: {complaint}: {comment}"
        for path in python_files()
        for number, comment in comments_of(text_of(path))
        if (complaint := complaint_about(comment))
    ]

    assert found == []


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        pytest.param("# a plain remark", "", id="plain"),
        pytest.param("# noqa", "no rule is named", id="bare"),
        pytest.param("# noqa: S603", "no reason is given", id="no reason"),
        pytest.param("# noqa: S603, S607 - the list is fixed", "", id="reason"),
        pytest.param("# type: ignore", "no rule is named", id="bare type"),
        pytest.param("# type: ignore[misc]", "no reason is given", id="type"),
        pytest.param("# type: ignore[misc]  # kopf is untyped here", "", id="type with reason"),
        pytest.param(
            "# pragma: no cover",
            "`pragma: no cover` hides more than one rule on one line",
            id="no cover",
        ),
    ],
)
def test_a_suppression_is_judged(comment: str, expected: str) -> None:
    assert complaint_about(comment) == expected
