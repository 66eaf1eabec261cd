"""The operating point: what the threshold of one memory finds and hides, by people's answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.decisions import Insert
from streams.lab.core.calibration import Sample, Samples, sample
from streams.lab.core.grading import Truth
from streams.lab.core.measures import Proportion
from streams.model.policy import Rules
from streams.web.app.chronicle import Chronicle, DoubtfulPair

PAIRS_MAX = 1_000
"""Answered pairs that are counted, the newest: each is read from the log once."""

_STEPS = [step / 100 for step in range(101)]
_SHOWN = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
_SIDE, _LEFT, _TOP = 260, 48, 26
"""Of the drawing, in its own units: about a pixel each on a narrow screen."""


@dataclass(frozen=True)
class OperatingPoint:
    """What is found and hidden where pairs are one memory from the probability `least` on."""

    least: float
    found: Proportion
    hidden: Proportion
    x: float
    y: float
    is_now: bool = False


@dataclass(frozen=True)
class Curve:
    """Found against hidden over the threshold; `now` is the policy's, `rows` are for the table."""

    line: Sequence[OperatingPoint]
    rows: Sequence[OperatingPoint]
    now: OperatingPoint
    ticks: Sequence[tuple[str, float, float]]
    left: int
    top: int
    side: int
    pairs: int


class AnsweredPairs:
    """The answered pairs as samples: what the judges said of each when it was decided on.

    The judges are not asked again. A pair whose decision was erased is left out.
    """

    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle
        self._seen: dict[tuple[str, Truth], Sample] = {}

    async def samples(self, pairs: Iterable[DoubtfulPair]) -> list[Sample]:
        """Return those of these pairs that have an answer that holds, the newest of them."""
        settlements = self._chronicle.settlements
        settled = ((pair, settlements.answer(pair.id)) for pair in pairs)
        known = [(pair, one.answer.verdict) for pair, one in settled if one is not None]
        read = [await self._sample(pair, Truth(said)) for pair, said in known[-PAIRS_MAX:]]
        return [one for one in read if one is not None]

    async def _sample(self, pair: DoubtfulPair, truth: Truth) -> Sample | None:
        key = (pair.id, truth)
        if key not in self._seen:
            decision = await self._chronicle.decision(pair.partition, pair.offset)
            near = decision.evidence.neighbours if isinstance(decision, Insert) else ()
            compared = next((one for one in near if one.memory_id == pair.older), None)
            if compared is None:
                return None
            self._seen[key] = sample(truth, compared.similarity, compared)
        return self._seen[key]


def curve(samples: Sequence[Sample], rules: Rules) -> Curve | None:
    """Draw what each threshold finds and hides; None without pairs of one fact and of two."""
    seen = Samples(samples, rules)
    if not (seen.one.any() and seen.apart.any()):
        return None
    now, match = rules.judges.one_memory_min, rules.bands.match

    def point(least: float) -> OperatingPoint:
        joined = seen.outcome(match, least)
        found, hidden = seen.found(joined), seen.hidden(joined)
        across, up = hidden.count / hidden.of, found.count / found.of
        return OperatingPoint(least, found, hidden, _across(across), _up(up), is_now=least == now)

    shown = sorted({*_SHOWN, now})
    return Curve(
        line=[point(least) for least in sorted({*_STEPS, now})],
        rows=[point(least) for least in shown],
        now=point(now),
        ticks=[(f"{part:.0%}", _across(part), _up(part)) for part in (0, 0.25, 0.5, 0.75, 1)],
        left=_LEFT,
        top=_TOP,
        side=_SIDE,
        pairs=len(samples),
    )


def _across(share: float) -> float:
    return round(_LEFT + _SIDE * share, 1)


def _up(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 1)
