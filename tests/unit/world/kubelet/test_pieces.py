"""The small pure parts of the process kubelet."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from world.kubelet import hosts, quantity, registration, sandbox
from world.kubelet.addresses import Ring
from world.kubelet.errors import PullError
from world.kubelet.hosts import Endpoint
from world.kubelet.images import Images, ImageStore
from world.kubelet.logs import tail_offset
from world.kubelet.shape import NodeShape
from world.kubelet.sources import expand

# ------------------------------------------------------------------ quantities, references


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", "2"), ("500m", "0.5"), ("4Gi", str(4 * 2**30)), ("1e3", "1000"), ("1.5k", "1500")],
)
def test_a_quantity_is_read(text: str, value: str) -> None:
    assert quantity.parse(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "much", "1 Gi", "1Xi", "-"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("amount", "divisor", "times"),
    [("500m", "1", "1"), ("2Gi", "1Mi", "2048"), ("1500m", "1m", "1500"), ("3", "0", "3")],
)
def test_a_divisor_rounds_up(amount: str, divisor: str, times: str) -> None:
    assert quantity.divide(amount, divisor) == times


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a $(X) b", "a 1 b"),
        ("$(Y)", "$(Y)"),
        ("$$(X)", "$(X)"),
        ("$X $(", "$X $("),
        ("$$$(X)", "$1"),
    ],
)
def test_references_are_expanded_as_kubernetes_does(text: str, result: str) -> None:
    assert expand(text, {"X": "1"}) == result


# ------------------------------------------------------------------------------ addresses


def test_an_address_is_used_again_as_late_as_possible() -> None:
    ring = Ring("10.77.3.1")
    first = ring.claim()

    ring.release(first)

    assert first == "10.77.3.2"
    claimed = [ring.claim() for _ in range(253)]
    assert claimed[0] == "10.77.3.3"
    assert claimed[-1] == first


def test_an_address_that_a_pod_had_is_kept_for_it() -> None:
    ring = Ring("10.77.3.1")

    assert ring.claim("10.77.3.3") == "10.77.3.3"
    assert [ring.claim(), ring.claim()] == ["10.77.3.2", "10.77.3.4"]


def test_two_pods_never_have_one_address() -> None:
    """A pod of before a reboot is seen after a new one, which got its address."""
    ring = Ring("10.77.3.1")
    new = ring.claim()

    old = ring.claim(new)

    ring.release(old)
    assert old != new
    assert new not in [ring.claim() for _ in range(252)]


def test_a_node_without_a_free_address_says_so() -> None:
    ring = Ring("10.77.3.1")
    for _ in range(253):
        ring.claim()

    with pytest.raises(RuntimeError, match="in use"):
        ring.claim()


# ----------------------------------------------------------------------------------- images


def test_an_image_is_pulled_once() -> None:
    asked: list[str] = []

    def pull_seconds(image: str) -> float:
        asked.append(image)
        return 0.0

    async def pull_thrice() -> None:
        store = ImageStore(Images(pull_seconds=pull_seconds))
        await asyncio.gather(*(store.pull("a", policy="IfNotPresent") for _ in range(3)))

    asyncio.run(pull_thrice())

    assert asked == ["a"]


def test_an_image_that_is_there_needs_no_registry() -> None:
    images = Images()
    store = ImageStore(images)
    asyncio.run(store.pull("r/a:1", policy="IfNotPresent"))
    images.unpullable.add("r/*")

    asyncio.run(store.pull("r/a:1", policy="IfNotPresent"))

    with pytest.raises(PullError, match="not found"):
        asyncio.run(store.pull("r/a:1", policy="Always"))
    with pytest.raises(PullError, match="not present"):
        asyncio.run(store.pull("r/b:1", policy="Never"))


# ------------------------------------------------------------------------------------- hosts


def make_slice(*addresses: str, ready: bool | None = True, **endpoint: Any) -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    found = [{"addresses": [ip], "conditions": conditions, **endpoint} for ip in addresses]
    meta = {"namespace": "ns", "labels": {"kubernetes.io/service-name": "svc"}}
    return {"metadata": meta, "endpoints": found}


def test_only_ready_endpoints_have_names() -> None:
    assert [e.ip for e in hosts.endpoints_of(make_slice("1.1.1.1", ready=None))] == ["1.1.1.1"]
    assert hosts.endpoints_of(make_slice("1.1.1.1", ready=False)) == []
    assert hosts.endpoints_of({"metadata": {"namespace": "ns"}, "endpoints": None}) == []


def test_short_names_hold_in_their_own_namespace_only() -> None:
    endpoint = Endpoint(namespace="ns", service="svc", ip="1.1.1.1", hostname="h")

    assert "svc" in endpoint.names("ns")
    assert "h.svc.ns.svc.cluster.local" in endpoint.names("other")
    assert not {"svc", "h.svc"} & set(endpoint.names("other"))


def test_a_hosts_file_is_never_seen_short(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.touch()
    inode = path.stat().st_ino

    hosts.rewrite(path, "long text\nmore\n")
    hosts.rewrite(path, "short\n")

    assert path.read_text().rstrip("\n") == "short"
    assert path.stat().st_size == len("long text\nmore\n")
    assert path.stat().st_ino == inode


def test_a_pod_finds_itself_in_its_hosts_file(tmp_path: Path) -> None:
    files = hosts.HostsFile(tmp_path / "hosts")

    path = files.attach("uid", namespace="ns", ip="10.77.1.2", names=("worker-0",))

    assert "10.77.1.2 worker-0\n" in path.read_text()
    files.detach("uid")
    assert not path.exists()


# ----------------------------------------------------------------------------------- sandbox

MOUNTINFO = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
24 22 0:6 / /dev/shm rw - tmpfs tmpfs rw
25 22 0:7 / /home rw - ext4 /dev/vdb rw
26 25 0:8 / /home/a\\040b rw - ext4 /dev/vdc rw
27 22 0:9 / /snap/x ro - squashfs /dev/loop0 ro
28 22 0:9 / /homework rw,relatime shared:1 - tmpfs tmpfs rw
"""


def test_other_file_systems_of_the_machine_are_shared() -> None:
    assert sandbox.submounts(MOUNTINFO) == ["/home", "/homework"]


def make_sandbox(*mounts: sandbox.Mount) -> sandbox.Sandbox:
    return sandbox.Sandbox(
        folder=Path("/run/stage"),
        table=Path("/run/table"),
        hostname="worker-0",
        working_folder="/a b",
        mounts=mounts,
    )


def test_odd_paths_do_not_break_the_list_of_mounts(tmp_path: Path) -> None:
    source = tmp_path / "with space"
    source.mkdir()
    box = make_sandbox(sandbox.Mount(source=source, target="/to\there#1", read_only=True))

    last = sandbox.mount_table(box, shared=[], devices=[]).splitlines()[-1]

    assert last == f"/.host{tmp_path}/with\\040space /to\\011here\\0431 none rbind,ro 0 0"


def test_a_script_quotes_what_a_user_chose() -> None:
    text = sandbox.script(make_sandbox(), shared=[], devices=[])

    assert "cd '/a b' || fail" in text


# ---------------------------------------------------------------------------------- node, logs


def test_ready_is_the_last_condition_and_changes_with_the_shutdown() -> None:
    since = {"Ready": ("True", "t1"), "DiskPressure": ("False", "t1")}

    found = registration.node_conditions(shutting_down=True, since=since, now="t2")

    assert found[-1]["type"] == "Ready"
    assert (found[-1]["status"], found[-1]["lastTransitionTime"]) == ("False", "t2")
    moved = {c["type"]: c["lastTransitionTime"] for c in found}
    assert moved["DiskPressure"] == "t1"


def test_a_new_node_is_tainted_until_it_is_ready() -> None:
    shape = NodeShape(name="n", ip="10.77.1.1", taints=({"key": "k", "effect": "NoSchedule"},))

    node = registration.node_object(shape)

    keys = [taint["key"] for taint in node["spec"]["taints"]]
    assert keys == ["node.kubernetes.io/not-ready", "k"]
    assert node["spec"]["providerID"] == "local://n"


@given(
    lines=st.lists(st.text(alphabet="ab", max_size=3), max_size=6),
    wanted=st.integers(0, 8),
    finished=st.booleans(),
)
def test_a_tail_has_the_last_lines(
    tmp_path_factory: pytest.TempPathFactory, *, lines: list[str], wanted: int, finished: bool
) -> None:
    text = "\n".join(lines) + ("\n" if finished and lines else "")
    path = tmp_path_factory.mktemp("log") / "log"
    path.write_text(text)

    tail = text[tail_offset(path, wanted) :]

    assert tail == "".join(text.splitlines(keepends=True)[-wanted:] if wanted else [])
