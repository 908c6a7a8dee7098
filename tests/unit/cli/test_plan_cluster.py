"""`ebbtide plan --context`: pools from a cluster."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import yaml
from click.testing import CliRunner, Result
from typing_extensions import override

from ebbtide.cli import cluster_documents
from ebbtide.cli.entry import main
from support.plan_files import AT, POOLS, make_job, make_pool

PATH = "/apis/ebbtide.dev/v1alpha1/capacitypools"


class Handler(BaseHTTPRequestHandler):
    """Gives one pool on each page, to whoever has the token."""

    pools: list[dict[str, Any]] = POOLS

    def do_GET(self) -> None:
        url = urlparse(self.path)
        if url.path != PATH or self.headers.get("Authorization") != "Bearer word":
            self.answer(403, {"kind": "Status", "message": "not for you", "code": 403})
            return
        place = int(parse_qs(url.query).get("continue", ["0"])[0])
        more = place + 1 < len(self.pools)
        metadata = {"continue": str(place + 1)} if more else {}
        self.answer(200, {"items": self.pools[place : place + 1], "metadata": metadata})

    def answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def run(folder: Path, port: int, *more: str, word: str = "word") -> Result:
    config = {
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": word}}],
    }
    (folder / "config").write_text(json.dumps(config), encoding="utf-8")
    (folder / "job.yaml").write_text(yaml.safe_dump(make_job()), encoding="utf-8")
    result = CliRunner().invoke(
        main,
        [
            *("plan", "-f", str(folder / "job.yaml"), "--at", AT, "-o", "json"),
            *("--kubeconfig", str(folder / "config"), *more),
        ],
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_pools_come_from_the_cluster_page_by_page(tmp_path: Path, port: int) -> None:
    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [one["name"] for one in found["pools"]] == ["v100-spot", "v100-ondemand"]


def test_what_the_operator_remembers_of_pools_is_planned_with(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three nodes of the cheap pool went within minutes of each other, just before."""
    bad, good = make_pool("bad", "0.90", spot=True), make_pool("good", "1.20", spot=True)
    monkeypatch.setattr(Handler, "pools", [bad, good])
    before = json.loads(run(tmp_path, port, "--context", "c").stdout)
    lives = [
        {"since": f"2026-08-01T11:{minute}:00Z", "seconds": 240, "revoked": True}
        for minute in (40, 47, 54)
    ]
    bad = {**bad, "status": {"history": {"lives": lives}}}
    monkeypatch.setattr(Handler, "pools", [bad, good])

    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 0, result.output
    after = json.loads(result.stdout)
    chosen = [[one["name"] for one in found["plan"]["pools"]] for found in (before, after)]
    assert chosen == [["bad"], ["good"]]
    assert "pool bad: 3 lives of its own nodes are known, 3 lost" in after["notes"]


def test_a_pool_that_has_often_run_dry_is_counted_on_for_less(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spells = [
        {"since": f"2026-07-{day}T{hour}:00:00Z", "available": hour == "00"}
        for day in (29, 30, 31)
        for hour in ("00", "12")
    ]
    last = {"since": "2026-08-01T00:00:00Z", "available": True}
    pool = {**POOLS[0], "status": {"history": {"spells": [*spells, last]}}}
    monkeypatch.setattr(Handler, "pools", [pool, POOLS[1]])

    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)["plan"]
    assert [one["name"] for one in plan["pools"]] == ["v100-ondemand"], "spot would miss the goal"
    [said] = [text for text in plan["assumptions"] if "counted on" in text]
    assert "it gives nodes for 24 h in the mean, then none for 9 h 30 min" in said


def test_a_history_that_cannot_be_is_refused(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"history": {"failedTries": -1}}
    monkeypatch.setattr(Handler, "pools", [{**POOLS[0], "status": status}])

    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 2
    assert "v100-spot: status.history.failedTries" in result.stderr


def test_a_cluster_that_refuses_is_an_error(tmp_path: Path, port: int) -> None:
    result = run(tmp_path, port, "--context", "c", word="other")

    assert result.exit_code == 1
    assert "context c: CapacityPools cannot be read: not for you" in result.stderr


def test_a_cluster_without_pools_is_no_input(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "pools", [])

    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 2
    assert "context c: no document of kind CapacityPool" in result.stderr


def test_a_context_that_is_not_there_is_an_error(tmp_path: Path, port: int) -> None:
    result = run(tmp_path, port, "--context", "elsewhere")

    assert result.exit_code == 1
    assert "no usable credentials" in result.stderr


def test_options_that_say_nothing_together_are_refused(tmp_path: Path, port: int) -> None:
    both = run(tmp_path, port, "--context", "c", "--pools", str(tmp_path / "job.yaml"))
    alone = run(tmp_path, port)

    assert (both.exit_code, alone.exit_code) == (2, 2)
    assert "give one" in both.stderr
    assert "--kubeconfig says something with --context alone" in alone.stderr


def test_without_the_client_the_extra_is_named(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_documents, "find_spec", lambda _: None)

    result = run(tmp_path, port, "--context", "c")

    assert result.exit_code == 2
    assert "ebbtide[operator]" in result.stderr
