"""What the flow asks of the world, and in which order: once per batch, the successor first."""

from collections.abc import Mapping, Sequence

import pytest

from schemas.base import DecisionId, Position
from schemas.decisions import Decision, Insert, Merge, Reinforce, Reject, Verdict
from schemas.events import Remember
from streams.index.exact import ExactIndex
from streams.judges.lexicons import english
from streams.model.embedding import TextVector
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import Fatal
from streams.model.ports.index import Query
from streams.model.ports.models import NoAnswer
from streams.model.verdict import Opinion, Pair
from streams.stage.core.overlay import Overlay
from streams.stage.flow.apply import apply
from streams.stage.flow.decisions import CountedDecision
from streams.stage.flow.deduplicate import DecidedBatch, Deduplicator
from streams.stage.flow.incoming import ReceivedRecord
from streams.stage.flow.judging import Judging
from streams.store.app import policies
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, event, judging, policy, record, unit
from tests.fakes.judges import ScriptedVerifier
from tests.fakes.sentences import SentenceEmbedder

TABLE = {
    "Ana likes coffee.": unit(1),
    "Ana truly likes coffee.": at_cosine(0.97),
    "Ben plays chess.": unit(0, 0, 1),
}


class Asked(SentenceEmbedder):
    """Remembers what it was asked to embed, call by call."""

    def __init__(self) -> None:
        super().__init__(TABLE, characters_max=200)
        self.calls: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.calls.append(list(texts))
        return await super().embed(texts)


class Watched(ExactIndex):
    """Remembers its searches, and what each write left live and retired."""

    def __init__(self) -> None:
        super().__init__()
        self.searches: list[int] = []
        self.writes: list[list[tuple[str, bool]]] = []

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        self.searches.append(len(queries))
        return await super().search(queries)

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        self.writes.append([(change.memory.text, change.memory.live) for change in changes])
        await super().write(changes)


class NothingBefore:
    """Implements ports.DecidedEvents for a world that begins now."""

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        del ids
        return {}


async def decide(events: Sequence[Remember], embedder: Asked, index: ExactIndex) -> list[Decision]:
    """Decide on a batch of events."""
    deduplicator = Deduplicator(embedder, index, NothingBefore(), policy(), judging())
    batch = [ReceivedRecord(record(b"", offset), said) for offset, said in enumerate(events)]
    return (await deduplicator.deduplicate(batch, Overlay().fork())).decisions


def window(decisions: Sequence[Decision]) -> list[CountedDecision]:
    """Place decisions in a log, one after the other."""
    place = "memory.decisions"
    return [
        CountedDecision(decision, Position(topic=place, partition=0, offset=offset))
        for offset, decision in enumerate(decisions)
    ]


@pytest.mark.covers("B79")
async def test_a_batch_is_embedded_and_searched_in_one_call_each_text_once() -> None:
    embedder, index = Asked(), Watched()
    said = ["Ana likes coffee.", "Ben plays chess.", "Ana likes coffee."]
    events = [event(text, event_id=str(number)) for number, text in enumerate(said)]
    decisions = await decide(events, embedder, index)
    assert [type(decision) for decision in decisions] == [Insert, Insert, Reinforce]
    assert embedder.calls == [["Ana likes coffee.", "Ben plays chess."]]
    assert index.searches == [2]


async def test_a_decision_that_no_topic_would_take_is_refused_and_nothing_builds_on_it() -> None:
    embedder, index = Asked(), Watched()
    large = event("Ana likes coffee.", metadata={"notes": "x" * 8_000_000})
    again = event("Ana likes coffee.", event_id="again")
    decisions = await decide([large, again], embedder, index)
    assert [type(decision) for decision in decisions] == [Reject, Insert]


async def test_words_that_the_store_knows_are_not_embedded_again() -> None:
    embedder, index = Asked(), Watched()
    await apply(window(await decide([event("Ana likes coffee.")], embedder, index)), index=index)
    embedder.calls.clear()
    [again] = await decide([event("ana LIKES coffee.", event_id="2")], embedder, index)
    assert isinstance(again, Reinforce)
    assert again.embedding is None
    assert embedder.calls == []


@pytest.mark.covers("B72", "D24")
async def test_a_successor_is_searchable_before_what_it_replaces_is_retired() -> None:
    embedder, index = Asked(), Watched()
    await apply(window(await decide([event("Ana likes coffee.")], embedder, index)), index=index)
    index.writes.clear()
    [merge] = await decide([event("Ana truly likes coffee.")], embedder, index)
    assert isinstance(merge, Merge)
    await apply(window([merge]), index=index)
    assert index.writes == [
        [("Ana truly likes coffee.", True)],
        [("Ana likes coffee.", False)],
    ]


async def test_a_store_without_what_a_decision_builds_on_stops_the_writer() -> None:
    embedder = Asked()
    said = [event("Ana likes coffee."), event("Ana likes coffee.", event_id="again")]
    _, again = await decide(said, embedder, Watched())
    empty = Watched()
    with pytest.raises(Fatal, match=r"memory.decisions/0/0.*delete the index"):
        await apply(window([again]), index=empty)
    assert empty.writes == []


class CallByCall(ScriptedVerifier):
    """Remembers the pairs of texts it was asked about, call by call."""

    def __init__(self, script: Mapping[tuple[str, str], Verdict]) -> None:
        super().__init__(script, name="built-in")
        self.calls: list[list[tuple[str, str]]] = []

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        if pairs:
            self.calls.append([(pair.event.text, pair.memory.text) for pair in pairs])
        return await super().verify(pairs)


TEA, LIKES_TEA, TEA_AT_DAWN = "Ana drinks tea.", "Ana is fond of tea.", "Ana has tea at dawn."
NEAR = {TEA: unit(1), LIKES_TEA: at_cosine(0.96), TEA_AT_DAWN: at_cosine(0.93)}


async def _judged(verdicts: Mapping[tuple[str, str], Verdict]) -> tuple[DecidedBatch, CallByCall]:
    verifier = CallByCall(verdicts)
    judges = Judging(TextAnalyzer(english()), {"built-in": verifier})
    embedder = SentenceEmbedder(NEAR, characters_max=200)
    deduplicator = Deduplicator(
        embedder, ExactIndex(), NothingBefore(), policies.load("default"), judges
    )
    batch = [
        ReceivedRecord(record(b"", number), event(text, event_id=str(number)))
        for number, text in enumerate(NEAR)
    ]
    return await deduplicator.deduplicate(batch, Overlay().fork()), verifier


async def test_all_pairs_of_a_batch_are_judged_in_one_call() -> None:
    pairs = [(LIKES_TEA, TEA), (TEA_AT_DAWN, TEA), (TEA_AT_DAWN, LIKES_TEA)]
    made, verifier = await _judged(dict.fromkeys(pairs, Verdict.DISTINCT))
    assert [type(decision) for decision in made.decisions] == [Insert] * 3
    [asked] = verifier.calls
    assert sorted(asked) == sorted(pairs)


async def test_what_an_event_was_expected_to_become_is_judged_again_when_it_becomes_another() -> (
    None
):
    said = {
        (LIKES_TEA, TEA): Verdict.REFINES,
        (TEA_AT_DAWN, TEA): Verdict.DISTINCT,
        (TEA_AT_DAWN, LIKES_TEA): Verdict.DISTINCT,
    }
    made, verifier = await _judged(said)
    assert [type(decision) for decision in made.decisions] == [Insert, Merge, Insert]
    _, *again = verifier.calls
    assert again, "the memory that the merge made has another wording than the event alone"
