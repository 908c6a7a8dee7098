"""Public probes of spot capacity, in which 1 says that there was none."""

import pytest

from ebbtide.core.models.table import DataError
from ebbtide.data.shapes import spot_probes
from support.traces import read_pings, read_zones

PING = """tick,time_utc,unavailable
0,2022-10-26T22:05:04.000Z,0
1,2022-10-26T22:15:04.000Z,1
2,2022-10-26T22:25:05.000Z,1
"""
ZONES = """epoch_s,us-east-1a,us-east-1c
1676525640,1,0
1676525835,0,0
"""


def test_a_ping_is_read_with_its_clock_and_one_says_down() -> None:
    history = spot_probes.read_ping(PING, zone="z", num_ticks=2)

    assert history.up.tolist() == [[True], [False]]
    assert (history.zones, history.tick_s) == (("z",), 600)
    assert history.start_s % 86_400 == 22 * 3600 + 5 * 60 + 4


def test_zones_are_read_with_their_names_and_their_tick() -> None:
    history = spot_probes.read_zones(ZONES)

    assert history.zones == ("us-east-1a", "us-east-1c")
    assert history.up.tolist() == [[False, True], [True, True]]
    assert history.tick_s == 195


def test_the_public_files_hold_what_is_said_of_them() -> None:
    zones, pings = read_zones(), read_pings()

    assert zones.up.shape == (19_865, 9)
    assert {len(ping) for ping in pings} == {1_781}
    shares = dict(zip(zones.zones, zones.up.mean(axis=0).tolist(), strict=True))
    assert shares["us-east-1a"] == pytest.approx(0.166, abs=0.001)
    assert shares["us-west-2b"] == pytest.approx(0.905, abs=0.001)
    assert zones.up.any(axis=1).mean() == pytest.approx(0.993, abs=0.001)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (PING.replace("unavailable", "available"), "tick,time_utc,unavailable are needed"),
        (PING.replace(",0\n", ",2\n"), "row 2: '2' is neither 0"),
        ("tick,time_utc,unavailable\n", "a header and at least one row"),
    ],
)
def test_a_ping_of_another_shape_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        spot_probes.read_ping(text, zone="z")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ZONES.replace("epoch_s", "time"), "epoch_s and one for each zone are needed"),
        (ZONES.replace("0,0\n", "0,\n"), "row 3: '' is neither 0"),
        (ZONES + "1676529999,0,0\n", "equal distance"),
        ("epoch_s,a\n1,0\n", "equal distance"),
    ],
)
def test_zones_of_another_shape_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        spot_probes.read_zones(text)
