"""A plan in which no field has its default."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from ebbtide.core.values.plan import Alternative, Plan, Predicted, Share

MADE: Final = datetime(2030, 1, 31, 15, 0, 0, 250_000, tzinfo=UTC)
PREDICTED: Final = Predicted(
    finish=datetime(2030, 1, 31, 18, tzinfo=UTC),
    finish_late=datetime(2030, 1, 31, 19, tzinfo=UTC),
    cost_usd=Decimal("10.00"),
    cost_high_usd=Decimal("12.50"),
    deadline_probability=0.97,
    steps_per_second=2.5,
)
SPOT_SHARE: Final = Share(pool="v100-spot", replicas=3, batch_share=0.75)
ON_DEMAND_SHARE: Final = Share(pool="v100-ondemand", replicas=1, batch_share=0.25)
PLAN: Final = Plan(
    shares=(SPOT_SHARE, ON_DEMAND_SHARE),
    servers=0,
    spares=1,
    on_demand_floor=1,
    checkpoint_interval=timedelta(seconds=90),
    predicted=PREDICTED,
    reason="Three spot workers meet the deadline at the least cost.",
    awaited=(Share(pool="v100-spot", replicas=4, batch_share=1.0),),
    alternatives=(
        Alternative(
            shares=(ON_DEMAND_SHARE,), servers=2, predicted=PREDICTED, why="It costs twice."
        ),
    ),
    assumptions=("The speed is the embedded prior's, within 30 %.",),
    made_at=MADE,
)
