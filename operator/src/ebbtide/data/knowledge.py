"""What the planner knows before anybody has measured anything: the embedded models, loaded."""

from datetime import timedelta
from statistics import median

from ebbtide.core.models.lifetime.model import Lifetimes
from ebbtide.core.planner.embedded import Embedded, chips_of
from ebbtide.core.planner.rank_times import Knowing, training_flops
from ebbtide.data.catalogue import Catalogue
from ebbtide.data.defaults import embedded_catalogue, embedded_model


def embedded_knowledge(*, start: timedelta, catalogue: Catalogue | None = None) -> Embedded:
    """Load everything once; takes about half a second."""
    lifetimes = embedded_model("lifetime")
    if not isinstance(lifetimes, Lifetimes):
        raise TypeError(f"the embedded lifetime model is {type(lifetimes).__name__}")
    prices = catalogue or embedded_catalogue()
    speeds: dict[str, list[float]] = {}
    for offer in prices.offers:
        if offer.nic_gbps:
            speeds.setdefault(offer.gpu, []).append(offer.nic_gbps)
    chips = chips_of(
        {
            name: training_flops(gpu.flops_fp32, gpu.flops_tensor)
            for name, gpu in prices.gpus.items()
        },
        {name: median(found) for name, found in speeds.items()},
    )
    return Embedded(
        lifetimes=lifetimes,
        models=Knowing(
            chips=chips,
            step_time=embedded_model("step-time"),
            iteration=embedded_model("iteration"),
            parameter_server=embedded_model("parameter-server"),
        ),
        checkpoint=embedded_model("checkpoint"),
        start_s=start.total_seconds(),
    )
