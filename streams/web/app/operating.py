"""The operating point: what the threshold of one memory finds and hides, by people's answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streams.lab.core.calibration import Sample, Samples, sample
from streams.lab.core.grading import Truth
from streams.lab.core.measures import Proportion
from streams.model.policy import Rules
from streams.web.app.chronicle import Chronicle, DoubtfulPair

PAIRS_MAX = 1_000
"""Answered pairs that are counted, the newest: each is read from the log once."""

_STEPS = [step / 100 for step in range(101)]
_SHOWN = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0}


@dataclass(frozen=True)
class OperatingPoint:
    """What is found and hidden where pairs are one memory from the probability `least` on."""

    least: float
    found: Proportion
    hidden: Proportion


@dataclass(frozen=True)
class Curve:
    """Found against hidden over the threshold; `now` is the policy's, `rows` are for the table."""

    line: Sequence[OperatingPoint]
    rows: Sequence[OperatingPoint]
    now: OperatingPoint


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
        settled = ((pair, settlements.answer(pair.memories)) for pair in pairs)
        known = [(pair, one.answer.verdict) for pair, one in settled if one is not None]
        read = [await self._sample(pair, Truth(said)) for pair, said in known[-PAIRS_MAX:]]
        return [one for one in read if one is not None]

    async def _sample(self, pair: DoubtfulPair, truth: Truth) -> Sample | None:
        key = (pair.id, truth)
        if key not in self._seen:
            found = await self._chronicle.compared(pair)
            if found is None:
                return None
            _, compared = found
            self._seen[key] = sample(truth, compared.similarity, compared)
        return self._seen[key]


def curve(samples: Sequence[Sample], rules: Rules) -> Curve | None:
    """Tell what each threshold finds and hides; None without pairs of one fact and of two."""
    seen = Samples(samples, rules)
    if not (seen.one.any() and seen.apart.any()):
        return None
    now, match = rules.judges.one_memory_min, rules.bands.match
    joined = {least: seen.outcome(match, least) for least in sorted({*_STEPS, now})}
    line = {
        least: OperatingPoint(least, seen.found(marks), seen.hidden(marks))
        for least, marks in joined.items()
    }
    rows = [one for least, one in line.items() if least in {*_SHOWN, now}]
    return Curve(list(line.values()), rows, line[now])
