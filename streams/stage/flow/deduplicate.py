"""The owner of a partition: events in, exactly one decision per event out.

Map, map, fold: lookups run once for the whole batch; decisions are made one by one in log order,
and each event sees the decisions before it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from schemas.base import MemoryId, ScopeName
from schemas.codec import DECISION
from schemas.decisions import (
    Block,
    Change,
    Decision,
    Ignore,
    Insert,
    Marker,
    Reason,
    Replace,
    Revision,
)
from schemas.events import Answer, Consolidate, Event, Forget, Remember, Request, Undo
from schemas.memories import Memory
from schemas.outcomes import DeadLetter, Review, Stage
from streams.model.embedding import NEAR_TIE, TextVector, Vector, nowhere, pack, similarity
from streams.model.identity import content_key, decision_id, event_key, memory_id, spelt_alike
from streams.model.merge import keep_better
from streams.model.neighbours import Neighbour, StoredMemory
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal, Poison, Transient
from streams.model.ports.index import DecidedEvents, Index, Query
from streams.model.ports.models import Embedder
from streams.model.verdict import Judgement
from streams.model.wordings import texts_of, with_vectors
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.consolidation import RelatedPair, consolidate, measured, unchanged
from streams.stage.core.decide import (
    add,
    block,
    decide,
    forward,
    ignore,
    lacking,
    let_through,
    older_news,
    recognise,
    reject,
    rename,
    supersede,
)
from streams.stage.core.overlay import Fork
from streams.stage.core.requests import (
    Held,
    WordingVectors,
    brings_back,
    changed,
    forgotten,
    is_foreign,
    made_up_for,
    put_back,
)
from streams.stage.core.reviewing import answered, questions
from streams.stage.core.survivorship import said_again
from streams.stage.core.tombstones import TombstoneKey, TombstoneProbe, WrongKey, recognised
from streams.stage.flow.dead_letters import dead_letter, reused
from streams.stage.flow.decisions import fitting
from streams.stage.flow.incoming import MisroutedEvent, ReceivedRecord, WithheldEvent, time_of
from streams.stage.flow.judging import CandidatePair, Judging
from streams.stage.flow.merging import MergeResult, Merging
from streams.stage.flow.nominating import expected, floor_of, ranked
from streams.stage.flow.seen import (
    Asked,
    BatchKnowledge,
    JudgedMemory,
    addressed_memory,
    as_held,
    free_name,
    graves_in,
    has_words_of,
    live_memory,
    memories_named,
    vectors_united,
    with_content,
    with_whole,
)

_EMBEDDER, _INDEX, _JUDGE = "embedder", "index", "judge"
"""What evidence calls whoever did not answer."""

_BREATH = 16
"""Events decided between two yields to the event loop: some milliseconds."""

_OVERFETCH = 8
"""Hits requested beyond the policy's limit: the overlay may have retired some of them, and float32
may order near ties differently from the exact measure."""


@dataclass(frozen=True)
class DecidedBatch:
    """One decision per received record, in order, with what they refer to.

    `encoded` are the decisions as they travel; rejects refer to `dead_letters`, inserts to
    `reviews`. `titles` are those of the memories that were compared with. `silent` is who could not
    be asked, with the failure; `blind`: the index was one of them, and none of its answers is used.
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    encoded: list[bytes] = field(default_factory=list[bytes])
    dead_letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    reviews: list[Review] = field(default_factory=list[Review])
    titles: dict[MemoryId, str] = field(default_factory=dict[MemoryId, str])
    blind: bool = False
    silent: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Deduplicator:
    """The dependencies of deciding, bound once."""

    embedder: Embedder
    index: Index
    decided: DecidedEvents
    policy: Policy
    judging: Judging
    key: TombstoneKey | None = None
    """The key that reads tombstones; without one, meeting a tombstone stops the process."""

    @cached_property
    def _merging(self) -> Merging:
        return Merging(self.judging.readings, self.judging.wording)

    async def deduplicate(
        self, batch: Sequence[ReceivedRecord], fork: Fork, *, otherwise: DecidedEvents | None = None
    ) -> DecidedBatch:
        """Decide on a batch in the order of the log, recording each decision on the fork.

        Equal to deciding the records one by one. Changes nothing but the fork. Where index and
        embedder have not answered for so long that the policy lets events through unchecked,
        `otherwise` knows which were decided on before, as far as the fork does not.
        """
        events = [event for item in batch if (event := item.decidable) is not None]
        seen = await self._known(events, fork, otherwise)
        made = DecidedBatch(titles=seen.titles, blind=seen.blind, silent=seen.silent)
        for number, item in enumerate(batch):
            if number % _BREATH == 0:
                await asyncio.sleep(0)  # lets heartbeats go out
            decided = await self._outcome(item, seen, fork)
            outcome, encoded = fitting(item.record, _telling_masked(decided, item.masked))
            if isinstance(outcome, DeadLetter):
                made.dead_letters.append(outcome)
                outcome = reject(item.record.position, outcome)
            fork.record(outcome)
            made.reviews.extend(seen.reviews.pop(outcome.decision_id, []))
            made.decisions.append(outcome)
            made.encoded.append(encoded or DECISION.encode(outcome))
        return made

    async def _known(
        self, events: Sequence[Event], fork: Fork, otherwise: DecidedEvents | None
    ) -> BatchKnowledge:
        """Return what is known of a batch's events, also where the index does not tell and need not."""
        try:
            return await self._look_up(events, fork, waits=otherwise is None)
        except Transient as error:
            if otherwise is None or not self._needs_no_index(events):
                raise
            failure = error
        ids = [decision_id(event.scope, event.event_id) for event in events]
        seen = BatchKnowledge(await otherwise.decided(ids), {}, {}, {}, waits=False, blind=True)
        seen.silent[_INDEX] = str(failure)
        await self._embed([event.text for event in events if isinstance(event, Remember)], seen)
        return seen

    def _needs_no_index(self, events: Sequence[Event]) -> bool:
        """Tell whether events can be decided on by whoever knows none of the memories.

        What names a memory cannot; nor can any where something may be forgotten, and come back.
        """
        return self.key is None and not any(map(memories_named, events))

    async def _look_up(self, events: Sequence[Event], fork: Fork, *, waits: bool) -> BatchKnowledge:
        """Ask, once for the whole batch, what log and index know; embed and search what is new."""
        ids = [decision_id(event.scope, event.event_id) for event in events]
        # What this batch erases counts as unknown after the request, and is decided like any other.
        erasing = {event.scope for event in events if isinstance(event, Forget)}
        asked = [
            identity
            for event, identity in zip(events, ids, strict=True)
            if event.scope in erasing or fork.decided(identity) is None
        ]
        decided = await self.decided.decided(list(dict.fromkeys(asked)))
        undecided = [
            event
            for event, identity in zip(events, ids, strict=True)
            if event.scope in erasing or fork.decided(identity, decided.get(identity)) is None
        ]
        said = [event for event in undecided if isinstance(event, Remember)]
        compared = [event for event in said if self.policy.rules(event.scope).enabled]
        contents = {content_key(event.scope, event.text) for event in compared}
        names = {name for event in undecided for name in memories_named(event)}
        seen = BatchKnowledge(
            decided=decided,
            contents=await self.index.with_content(list(contents)) if contents else {},
            named=await self.index.get(list(names)) if names else {},
            forgotten=await self._forgotten(events),
            waits=waits,
        )
        unknown = [event for event in compared if with_content(event, seen, fork) is None]
        off = [event for event in said if not self.policy.rules(event.scope).enabled]
        await self._embed([event.text for event in (*unknown, *off)], seen)
        embedded = [event for event in unknown if event.text not in seen.failed]
        await self._search(embedded, seen)
        to_judge = (
            e for e in embedded if not e.supersedes and addressed_memory(e, seen, fork) is None
        )
        asked = expected(list(to_judge), self.policy, seen, fork)
        await self._judge(asked, seen)  # what fails is judged again, each event by itself
        return seen

    async def _forgotten(
        self, events: Sequence[Event]
    ) -> Mapping[ScopeName, Sequence[StoredMemory]]:
        """Return the tombstones in the scopes of remember events, to catch what is said again."""
        scopes = list(dict.fromkeys(e.scope for e in events if isinstance(e, Remember)))
        return await self.index.forgotten(scopes) if scopes else {}

    async def _judge(self, asked: Sequence[CandidatePair], seen: BatchKnowledge) -> bool:
        """Judge what was not judged yet; tell whether that has failed, and may."""
        new = {_asked(one): one for one in asked if _judgement(one, seen) is None}
        if not new:
            return True
        try:
            judged = await self.judging.judge(list(new.values()))
        except (Transient, Fatal, Poison):
            raise
        except Exception as error:
            if not self.policy.fail_open.enabled:
                raise
            seen.silent[_JUDGE] = f"{type(error).__name__} while judging"
            return False
        for (key, one), judgement in zip(new.items(), judged, strict=True):
            seen.judged[key] = JudgedMemory(one.neighbour.memory, judgement)
        return True

    async def _outcome(
        self, item: ReceivedRecord, seen: BatchKnowledge, fork: Fork
    ) -> Decision | DeadLetter:
        """Try each case in turn: decided before, addressed by name, same words, compared."""
        source, event = item.record.position, item.event
        if isinstance(event, Poison):
            return dead_letter(item.record, Stage.DECODE, event)
        if isinstance(event, MisroutedEvent):
            return forward(source, event.event, event.partition)
        if isinstance(event, WithheldEvent):
            return block(source, event.scope, event.event_id, found=event.found)
        graves = graves_in(event.scope, seen, fork)
        if isinstance(event, Remember) and graves:
            gone = await self._recognised(event, graves.values(), seen)
            if gone is not None:
                return block(source, event.scope, event.event_id, gone=gone)
        identity = decision_id(event.scope, event.event_id)
        if graves and memory_id(identity) in graves:
            return reused(item.record)  # its own memory was forgotten: accepting it would lose it
        before = fork.decided(identity, seen.decided.get(identity))
        if before is not None:
            if before != event_key(event):
                return reused(item.record)
            return ignore(Case(event, source, self.policy), Reason.SAME_EVENT)
        if isinstance(event, Answer):
            newer, older = (
                live_memory(event.scope, one.memory_id, seen, fork)
                for one in (event.newer, event.older)
            )
            case = Case(event, source, self.policy)
            return answered(case, newer, older, self.embedder.model)
        braked = fork.recent.engaged(event.scope, self.policy.rules(event.scope).brake)
        if not isinstance(event, Remember):
            return await self._requested(item, event, seen, fork, braked=braked)
        named = free_name(event, seen, fork)
        case = Case(event, source, self.policy, named, braked, time_of(item.record))
        made = await self._remember(case, seen, fork)
        failure = seen.failed.get(event.text)
        if failure is None or not isinstance(made, Insert | Replace):
            return made
        return lacking(made, "not-embedded", _why(failure))

    async def _recognised(
        self, event: Remember, found: Iterable[StoredMemory], seen: BatchKnowledge
    ) -> MemoryId | None:
        """Return the forgotten memory that an event would bring back, if any."""
        graves = [one for one in found if one.memory.metadata]
        if not graves:
            return None
        key = self.required_key(event.scope)
        near = None if key.excuses(event) else self.policy.rules(event.scope).bands.match
        vector = (await self._surely_encoded(event.text, seen)).vector
        said = TombstoneProbe(event.scope, self.judging.readings.of(event.text), vector, near)
        try:
            gone = recognised(key, said, graves)
        except WrongKey as error:
            raise Fatal(f"{error}: set forget.key to the original one") from error
        return None if gone is None else gone.id

    def required_key(self, scope: ScopeName) -> TombstoneKey:
        """Return the key that reads tombstones of a scope. Raises Fatal if there is none."""
        if self.key is None:
            raise Fatal(
                f"something of {scope} is to be forgotten, or was, and forget.key is not set: set "
                "it, to the same secret for all services and commands"
            )
        return self.key

    async def _requested(
        self,
        item: ReceivedRecord,
        event: Request,
        seen: BatchKnowledge,
        fork: Fork,
        *,
        braked: bool,
    ) -> Change | Revision | Ignore | Block:
        """Change existing memories, based on their current state."""
        source, model = item.record.position, self.embedder.model
        states = {i: fork.state(event.scope, i, seen.named.get(i)) for i in memories_named(event)}
        held = {identity: stored for identity, stored in states.items() if stored is not None}
        match event:
            case Undo() if (gone := brings_back(event, held)) is not None:
                return block(source, event.scope, event.event_id, gone=gone)
            case Undo():
                encoded = {
                    one.id: await self._as_it_was(one, held.get(one.id), seen)
                    for one in event.memories
                    if one.live or not has_words_of(held.get(one.id), one)
                }
                return put_back(Case(event, source, self.policy), held, encoded)
            case Forget():
                case, key = Case(event, source, self.policy), self.required_key(event.scope)
                if any(is_foreign(one, key.name, model) for one in event.memories):
                    return ignore(case, Reason.OUT_OF_DATE)
                return forgotten(case, held, model, erasable=item.erasable)
            case Consolidate(members=[_]):
                texts = [one.memory.text for one in held.values() if _lacks_vector(one.memory)]
                await self._embed(texts, seen)
                made = (seen.encoded[text] for text in texts if text not in seen.failed)
                return made_up_for(Case(event, source, self.policy), held, next(made, None))
            case Consolidate():
                proposal = Case(event, source, self.policy, braked=braked)
                return await self._consolidate(proposal, held, seen)
            case _:
                return changed(event, source, self.policy, held)

    async def _as_it_was(
        self, memory: Memory, held: StoredMemory | None, seen: BatchKnowledge
    ) -> WordingVectors:
        """Return the embeddings of a memory's wordings; reuse those that it holds now."""
        known = {} if held is None else as_held(held, self.embedder.model)
        texts = texts_of(memory)
        await self._embed([text for text in texts if text not in known], seen)
        shown, *variants = [
            known.get(text) or await self._surely_encoded(text, seen) for text in texts
        ]
        return WordingVectors(shown, tuple(variant.embedding for variant in variants))

    async def _consolidate(
        self, proposal: Case[Consolidate], held: Held, seen: BatchKnowledge
    ) -> Change | Ignore:
        """Judge every pair of the proposed memories that are unchanged; merge those that fit."""
        if not proposal.rules.enabled:
            return ignore(proposal, Reason.SWITCHED_OFF)
        members = unchanged(proposal.event, held)
        found = measured(members, proposal.rules)
        asked = [CandidatePair(said_again(newer), older, proposal.rules) for newer, older in found]
        judged = await self.judging.judge(asked)
        relations = [RelatedPair(*pair, one) for pair, one in zip(found, judged, strict=True)]
        outcome = consolidate(proposal, members, relations, self.embedder.model)
        if isinstance(outcome, PendingMerge):
            vectors = {str(identity): member.vector for identity, member in members.items()}
            outcome = await self._worded(outcome, proposal.event.scope, vectors, seen)
        known = (member.wordings for member in members.values())
        return with_vectors(outcome, vectors_united(known), self.embedder.model)

    async def _remember(
        self, case: Case[Remember], seen: BatchKnowledge, fork: Fork
    ) -> Change | Ignore:
        event = case.event
        addressed = addressed_memory(event, seen, fork)
        if addressed is not None and not spelt_alike(addressed.memory.text, event.text):
            if not case.is_late(addressed.memory):  # in other letters, too: "lyon" becomes "Lyon"
                return rename(case, addressed.memory, await self._encoded(event.text, seen))
            if addressed.memory.content_key != content_key(event.scope, event.text):
                return older_news(case, await self._compare(case, seen, fork), addressed.memory)
        if not case.rules.enabled:
            return add(case, await self._encoded(event.text, seen))
        known = addressed or with_content(event, seen, fork)
        if known is not None:
            if _gives_wording(case, known.memory):
                return rename(case, known.memory, await self._encoded(event.text, seen))
            return recognise(case, known.memory)
        if seen.blind:
            return let_through(case, await self._encoded(event.text, seen), f"{_INDEX}: no answer")
        if event.supersedes:
            named = [
                (name, live_memory(event.scope, name, seen, fork)) for name in event.supersedes
            ]
            memories = [(name, stored and stored.memory) for name, stored in named]
            return supersede(case, await self._encoded(event.text, seen), memories)
        return await self._compare(case, seen, fork)

    async def _compare(
        self, case: Case[Remember], seen: BatchKnowledge, fork: Fork
    ) -> Change | Ignore:
        """Judge an event against its nearest neighbours."""
        encoded = await self._encoded(case.event.text, seen)
        if case.event.text in seen.failed:
            return let_through(case, encoded, _why(seen.failed[case.event.text]))
        near = await self._near(case, encoded.vector, seen, fork)
        seen.titles.update((n.memory.id, n.memory.title) for n in near if n.memory.title)
        pairs = [CandidatePair(case.event, neighbour, case.rules) for neighbour in near]
        if not await self._judge(pairs, seen):
            return let_through(case, encoded, f"{_JUDGE}: failed")
        judgements = [seen.judged[_asked(pair)].judgement for pair in pairs]
        outcome = decide(case, encoded, near, judgements)
        known = {n.memory.id: n.stored.wordings for n in near if n.stored is not None}
        if isinstance(outcome, PendingMerge):
            vectors: dict[str, Vector] = {
                one: next(iter(w.values())) for one, w in known.items() if w
            }
            vectors[case.event.event_id] = encoded.vector
            try:
                outcome = await self._worded(outcome, case.event.scope, vectors, seen)
            except (Transient, Fatal) as error:
                if error not in seen.failed.values():
                    raise
                return let_through(case, encoded, _why(error))
        own = {content_key(case.event.scope, case.event.text): encoded.vector}
        outcome = with_vectors(outcome, vectors_united([own, *known.values()]), self.embedder.model)
        if isinstance(outcome, Insert) and outcome.evidence.reviews:
            seen.reviews[outcome.decision_id] = questions(outcome, near)
        return outcome

    async def _worded(
        self,
        unworded: PendingMerge,
        scope: ScopeName,
        vectors: Mapping[str, Vector],
        seen: BatchKnowledge,
    ) -> Change | Ignore:
        """Make the text that a merge shows, and compare it with its parts before it is stored.

        A text far from one of its parts has drifted to another subject, and a truncated one would
        not be found: then the better of the parts is shown instead, or fewer are merged.
        """
        rules = self.policy.rules(scope)
        made = await self._merging.make(unworded, scope, rules.merge)
        whole = await self._surely_encoded(made.joined.text, seen)
        parts = [vectors[part.origin] for part in unworded.parts if part.origin in vectors]
        strayed = min(similarity(whole.vector, part) for part in parts) < rules.bands.log
        fits = made.fits and not (whole.truncated or strayed)
        if not fits and unworded.fewer is not None:
            fewer = unworded.fewer()
            if isinstance(fewer, PendingMerge):
                return await self._worded(fewer, scope, vectors, seen)
            return fewer
        if not fits:
            made = MergeResult(keep_better(unworded.parts, unworded.better), made.degraded)
            whole = await self._surely_encoded(made.joined.text, seen)
        return unworded.merged(made.joined, whole, made.degraded)

    async def _near(
        self, case: Case[Remember], vector: Vector, seen: BatchKnowledge, fork: Fork
    ) -> list[Neighbour]:
        """Return the nearest live memories, including those that this batch decided."""
        event, nominate = case.event, case.rules.nominate
        wanted, floor = nominate.neighbours_max, nominate.similarity_min
        await self._search([event], seen)
        hits = seen.hits[event.scope, event.text]
        limit = wanted + _OVERFETCH
        while True:
            candidates = fork.near(event.scope, vector, hits, wanted, floor_of(nominate))
            near = ranked(event, vector, candidates, case.rules)
            if parts := [n.memory.id for n in near if n.stored and not n.stored.is_whole]:
                # Their other wordings are only in the index, which did not find those near.
                held = await self.index.get(parts)
                whole = (fork.current(event.scope, stored) for stored in held.values())
                candidates = with_whole(candidates, whole)
                near = ranked(event, vector, candidates, case.rules)
                if not all(n.stored.is_whole for n in near if n.stored):
                    raise Transient(
                        "the index was replaced while it was queried: it is asked again"
                    )
            least = near[-1].similarity if len(near) == wanted else floor
            if len(hits) < limit or _similarity(vector, hits[-1]) + NEAR_TIE < least:
                return near
            # More hits as near may follow the last one: many were retired, or they tie.
            limit *= 2
            [hits] = await self.index.search(
                [Query(event.scope, vector, limit, floor_of(nominate))]
            )

    async def _encoded(self, text: str, seen: BatchKnowledge) -> EncodedVector:
        """Return a text's embedding; compute it now if the batch did not."""
        await self._embed([text], seen)
        return seen.encoded[text]

    async def _surely_encoded(self, text: str, seen: BatchKnowledge) -> EncodedVector:
        """Return a text's own embedding, where no stand-in will do."""
        encoded = await self._encoded(text, seen)
        if text in seen.failed:
            raise seen.failed[text]
        return encoded

    async def _embed(self, texts: Sequence[str], seen: BatchKnowledge) -> None:
        """Embed each distinct text that has no embedding yet."""
        missing = [text for text in dict.fromkeys(texts) if text not in seen.encoded]
        if missing:
            for text, made in zip(missing, await self._embedded(missing, seen), strict=True):
                embedding = pack(made.vector, self.embedder.model)
                seen.encoded[text] = EncodedVector(made.vector, embedding, made.truncated)

    async def _embedded(self, texts: Sequence[str], seen: BatchKnowledge) -> list[TextVector]:
        """Return a vector per text: its own, or a stand-in where the policy wants no waiting.

        What is refused together is asked for one by one: a text spoils no other.
        """
        try:
            return await self.embedder.embed(texts)
        except Transient as error:
            if seen.waits:
                raise
            failure = error
        except Fatal as error:
            if not self.policy.fail_open.enabled:
                raise
            if len(texts) > 1:
                return [one for text in texts for one in await self._embedded([text], seen)]
            failure = error
        seen.failed.update(dict.fromkeys(texts, failure))
        seen.silent[_EMBEDDER] = str(failure)
        return [TextVector(nowhere(self.embedder.dimension), truncated=True) for _ in texts]

    async def _search(self, events: Sequence[Remember], seen: BatchKnowledge) -> None:
        """Query the index for the neighbours of each event not searched yet."""
        places = dict.fromkeys((event.scope, event.text) for event in events)
        asked = [place for place in places if place not in seen.hits]
        queries: list[Query] = []
        for scope, text in asked:
            nominate = self.policy.rules(scope).nominate
            limit = nominate.neighbours_max + _OVERFETCH
            queries.append(Query(scope, seen.encoded[text].vector, limit, floor_of(nominate)))
        if queries:
            seen.hits.update(zip(asked, await self.index.search(queries), strict=True))


def _gives_wording(case: Case[Remember], memory: Memory) -> bool:
    """Return whether an event replaces a memory that has its words, by the form that it gives them."""
    event, free = case.event, not (memory.pinned or case.is_late(memory))
    return free and memory.id in event.supersedes and not spelt_alike(memory.text, event.text)


def _why(failure: Transient | Fatal) -> str:
    return f"{_EMBEDDER}: {'no answer' if isinstance(failure, Transient) else 'refused'}"


def _lacks_vector(memory: Memory) -> bool:
    return memory.live and memory.unchecked == "not-embedded"


def _judgement(pair: CandidatePair, seen: BatchKnowledge) -> Judgement | None:
    """Return what was judged of a pair; None if the memory has turned out different."""
    known = seen.judged.get(_asked(pair))
    return known.judgement if known and known.memory == pair.neighbour.memory else None


def _asked(pair: CandidatePair) -> Asked:
    event, memory = pair.event, pair.neighbour.memory
    return event.scope, event.event_id, event.text, memory.id, memory.version


def _telling_masked(
    outcome: Decision | DeadLetter, masked: tuple[str, ...]
) -> Decision | DeadLetter:
    """Record in the evidence what was masked in the event."""
    if not masked or isinstance(outcome, Marker | DeadLetter):
        return outcome
    evidence = outcome.evidence.model_copy(update={"masked": masked})
    return outcome.model_copy(update={"evidence": evidence})


def _similarity(vector: Vector, hit: StoredMemory) -> float:
    found = hit.nearest(vector)
    return -1.0 if found is None else found[0]
