"""A seed, played and checked."""

from collections import Counter
from dataclasses import dataclass

from tests.simulation.cluster import Divergence
from tests.simulation.legs import Leg, without
from tests.simulation.outcome import check
from tests.simulation.schedule import Schedule


@dataclass(frozen=True)
class Played:
    """What happened in a schedule: in order, how often, and how many decisions of each kind.

    `wrong` says what came of it that may not, "" where all is well.
    """

    story: list[str]
    happened: Counter[str]
    kinds: Counter[str]
    wrong: str = ""


def play(seed: int, *, leg: Leg | None = None, harder: bool = False) -> Played:
    """Play a seed's schedule, where a leg is given without it, and check what came of it."""
    schedule = Schedule(seed, harder=harder)
    cluster, kinds, wrong = schedule.cluster, Counter[str](), ""
    try:
        with without(leg):
            schedule.run()
        fenced = leg is None or leg.fenced
        kinds = check(cluster.log, cluster.index, cluster.rule, fenced=fenced)
    except Divergence as divergence:
        wrong = str(divergence)
    return Played(cluster.story, cluster.happened, kinds, wrong)
