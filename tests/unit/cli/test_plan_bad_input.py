"""What `ebbtide plan` says of jobs and pools that no plan can be made of."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from ebbtide.cli.entry import main
from support.plan_files import AT, POOLS, make_job, make_pool


def run(folder: Path, *documents: Any) -> Result:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return CliRunner().invoke(main, ["plan", "-f", str(file), "--at", AT])


@pytest.mark.parametrize(
    ("documents", "code", "says"),
    [
        pytest.param(
            [make_job(capacity={"pools": ["none"], "onDemandFloor": 0}), *POOLS],
            3,
            "none: there is no such CapacityPool",
            id="no pool of that name",
        ),
        pytest.param(
            [make_job(), make_pool("free", "0.00")],
            2,
            "free: spec.price.usdPerNodeHour: is '0.00': usdPerNodeHour must be above 0",
            id="zero price",
        ),
        pytest.param(
            [make_job(objective={"deadline": "2026-07-31T12:00:00Z"}), *POOLS],
            3,
            "which is past",
            id="deadline in the past",
        ),
        pytest.param(
            [make_job(elasticPolicy={"minReplicas": 40, "maxReplicas": 64}), *POOLS],
            3,
            "minReplicas 40: the pools carry 32 workers in all, so 32 or fewer would work",
            id="minReplicas above every limit",
        ),
        pytest.param(
            [make_job(), make_pool("new", "1.00", gpu="X9")],
            3,
            "GPU type X9 is not known (known are",
            id="unknown GPU",
        ),
        pytest.param(
            [
                make_job(
                    elasticPolicy={
                        "minReplicas": 2,
                        "maxReplicas": 8,
                        "replicaDiscreteValues": [12, 16],
                    }
                ),
                *POOLS,
            ],
            2,
            "replicaDiscreteValues must have a value from minReplicas to maxReplicas",
            id="conflicting legal sizes",
        ),
    ],
)
def test_which_value_is_wrong_and_what_would_work_is_told(
    tmp_path: Path, documents: list[Any], code: int, says: str
) -> None:
    found = run(tmp_path, *documents)

    assert found.exit_code == code, found.output
    assert says in " ".join(found.output.split())
    assert "Traceback" not in found.output
