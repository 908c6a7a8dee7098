import pytest

from ebbtide.runtime.profiler.split import Split


def test_the_parts_add_up_to_the_step() -> None:
    split = Split(step=1.0, data=0.1, communication=0.2, idle=0.3)

    assert split.compute == pytest.approx(0.4)
    assert split.alone == pytest.approx(0.5)
    assert split.data + split.compute + split.communication + split.idle == pytest.approx(1.0)


def test_no_part_is_negative_when_clocks_disagree() -> None:
    assert Split(step=0.1, communication=0.2).compute == 0.0
