"""Pairs that were kept apart, as questions to a person, with their current memories."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from schemas.outcomes import Review
from streams.api.app.access import Grant
from streams.memory.app.lifecycle import Lifecycle, is_forgotten
from streams.stage.core.reviewing import ReviewQuestion
from streams.web.app.chronicle import Chronicle, DoubtfulPair


@dataclass(frozen=True)
class PairFilter:
    """Which pairs somebody looks at: of scopes that are open to them, at and below `scope`."""

    grant: Grant
    scope: str = ""
    reason: str = ""

    def fits(self, pair: DoubtfulPair) -> bool:
        about = not self.reason or self.reason in pair.doubts
        return about and self.grant.shows(pair.scope, self.scope)


class Doubts:
    """Finds what is in doubt, the newest first. Answers are given elsewhere."""

    def __init__(self, life: Lifecycle, chronicle: Chronicle) -> None:
        self._life = life
        self._chronicle = chronicle

    async def open(self, wanted: PairFilter) -> list[DoubtfulPair]:
        """Return the pairs that nobody has answered, and whose memories are live."""
        known = await self._chronicle.level()
        return [
            pair
            for pair in reversed(known.pairs.values())
            if known.stand(pair)
            and known.settlements.answer(pair.memories) is None
            and wanted.fits(pair)
        ]

    async def pair(self, identity: str) -> DoubtfulPair:
        """Return the pair that has an id. Raises DeclinedRequest where none has."""
        found = (await self._chronicle.level()).pairs.get(identity)
        if found is None:
            raise self._life.unknown("question", identity)
        return found

    async def asked(self, pairs: Iterable[DoubtfulPair]) -> AsyncIterator[ReviewQuestion]:
        """Yield those of these pairs that can be asked about now, as questions."""
        for pair in pairs:
            question = await self._question(pair)
            if question is not None and question.state == "open":
                yield question

    async def question(self, pair: DoubtfulPair) -> ReviewQuestion:
        """Return a pair as a question. Raises DeclinedRequest where its subject was forgotten."""
        question = await self._question(pair)
        if question is None:
            raise self._life.unknown("question", pair.id)
        return question

    async def _question(self, pair: DoubtfulPair) -> ReviewQuestion | None:
        found = await self._chronicle.compared(pair)
        held = await (await self._life.loading.index()).get([pair.newer, pair.older])
        if found is None or len(held) < len({pair.newer, pair.older}):
            return None
        decision, compared = found
        newer, older = held[pair.newer].memory, held[pair.older].memory
        if is_forgotten(newer) or is_forgotten(older):
            return None
        review = Review(
            id=pair.id,
            scope=pair.scope,
            decision_id=decision.decision_id,
            newer=newer,
            older=older,
            compared=compared,
            asked_at=decision.event.occurred_at,
        )
        return self._chronicle.settlements.question(review, standing=newer.live and older.live)
