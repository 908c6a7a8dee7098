"""Public lives of nodes become tables of the lifetime model."""

import numpy as np
import pytest

from ebbtide.core.models.lifetime.lives import Lives
from ebbtide.core.models.table import DataError
from ebbtide.data.shapes import lifetimes
from support.lives import google, gpu_servers, read_text

HEAD = "vm,zone,machine_type,preemptible,lifetime_s,end,insert_time,end_time,day_of_week,x\n"


def test_preemptions_keep_what_is_known_at_the_start() -> None:
    table = google()
    lives = Lives.read(table)

    assert len(table) == 1442
    assert set(table.cells) == {"pool", "zone", "gpu", "start_hour", "lifetime_h", "revoked"}
    assert int(lives.revoked.sum()) == 717
    assert len(lives.pools) == 36
    assert lives.hours.max() == pytest.approx(24.83, abs=0.01)
    assert table.cells["start_hour"][0] == pytest.approx(12 + 22 / 60)


def test_of_those_taken_the_shares_by_age_are_known() -> None:
    lives = Lives.read(google())
    taken = lives.hours[lives.revoked]

    assert np.mean(taken < 1) == pytest.approx(0.258, abs=0.001)
    assert np.mean(taken < 3) == pytest.approx(0.363, abs=0.001)
    assert np.mean(taken > 21) == pytest.approx(0.502, abs=0.001)


def test_hourly_counts_become_lives_inside_their_hour() -> None:
    lives = Lives.read(gpu_servers())

    assert len(lives) == 396
    assert int(lives.revoked.sum()) == 206
    assert lives.hours[~lives.revoked].tolist() == [24.0] * 190
    first = lives.hours[lives.revoked & (lives.hours < 1)]
    assert len(first) == 33 + 19 + 38
    assert first.mean() == pytest.approx(0.5)


def test_blocks_of_gpu_nodes_end_where_nodes_without_gpu_begin() -> None:
    text = read_text("cakelab-gpu-lifetime/lifetime.csv")

    table = lifetimes.read_blocks(text)
    lives = Lives.read(table)
    kinds = np.array([lives.pools[index][2] for index in lives.pool])

    assert len(table) == 152
    assert lives.lifted == 1
    shares = [np.mean(lives.hours[kinds == gpu] >= 23.5) for gpu in ("K80", "P100", "V100")]
    assert shares == pytest.approx([0.73, 0.80, 0.90], abs=0.005)
    assert not lives.revoked[lives.hours >= 23.5].any()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("a,z,t,true,long,stop,2019-03-25T12:22:36-07:00", "lifetime_s, row 2", id="s"),
        pytest.param("a,z,t,true,5,stop,noon", "row 2: 'noon' is not a moment", id="moment"),
        pytest.param("a,z,t", "row 2: 'nothing'", id="short"),
    ],
)
def test_broken_rows_are_named(line: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        lifetimes.read_preemptions(HEAD + line + "\n")


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match="no column machine_type"):
        lifetimes.read_preemptions("vm,zone\na,b\n")
    with pytest.raises(DataError, match="no column gpu"):
        lifetimes.read_hourly("")


def test_a_broken_moment_in_a_block_is_named() -> None:
    with pytest.raises(DataError, match="row 3"):
        lifetimes.read_blocks("K80,,\nVM name,Start,Terminate\na-us-east1-c-0,2/30/19 9:00,x\n")
