"""The heart: an event, what is near it, the verdicts and the policy → one decision.

Pure and total. In doubt both are kept: a duplicate can be merged later, a lost memory cannot come
back. Nothing is replaced, merged or reinforced on the strength of a truncated text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from schemas.base import DecisionId, Embedding, MemoryId, Position
from schemas.decisions import (
    Band,
    Change,
    Compared,
    Evidence,
    Forward,
    Ignore,
    Insert,
    Merge,
    MergeProof,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Target,
    Verdict,
)
from schemas.events import Remember
from schemas.memories import Memory, Superseded
from schemas.outcomes import DeadLetter
from streams.core import survivorship
from streams.core.embedding import Vector
from streams.core.identity import decision_id, forwarding_id, memory_id, rejection_id
from streams.core.merge import Joined, contains, join
from streams.core.neighbours import Neighbour
from streams.core.policy import Policy
from streams.core.verdict import Judgement


@dataclass(frozen=True)
class Encoded:
    """A text's vector and its travelling form; `truncated` where they cover only a part."""

    vector: Vector
    embedding: Embedding
    truncated: bool


@dataclass(frozen=True)
class Undecided:
    """A merge that needs the embedding of its text before it can be decided."""

    text: str
    complete: Callable[[Encoded], Change]


@dataclass(frozen=True)
class Case:
    """One event on the table: where it came from, and the policy it is decided by.

    `named` is the id of the memory that the producer's own name stands for, where that name is
    free: the memory that this event may create gets it.
    """

    event: Remember
    source: Position
    policy: Policy
    named: MemoryId | None = None

    @cached_property
    def decision_id(self) -> DecisionId:
        return decision_id(self.event.scope, self.event.event_id)

    @property
    def new_memory_id(self) -> MemoryId:
        """The id of the memory that this event may create."""
        return self.named or memory_id(self.decision_id)


def ignore(case: Case, reason: Reason) -> Ignore:
    """Change nothing."""
    return Ignore(
        decision_id=case.decision_id,
        event=case.event,
        source=case.source,
        policy_id=case.policy.id,
        evidence=Evidence(reason=reason),
    )


def reject(source: Position, letter: DeadLetter) -> Reject:
    """Mark the place of a record that is in the dead letters."""
    return Reject(
        decision_id=rejection_id(source.topic, source.partition, source.offset),
        source=source,
        dead_letter_id=letter.id,
    )


def forward(source: Position, event: Remember, partition: int) -> Forward:
    """Mark the place of a record whose event was published anew in its scope's partition."""
    return Forward(
        decision_id=forwarding_id(source.topic, source.partition, source.offset),
        source=source,
        event_id=event.event_id,
        scope=event.scope,
        partition=partition,
    )


def recognise(case: Case, known: Memory) -> Reinforce:
    """Reinforce the live memory that says the very words of the event."""
    return _reinforce(case, known, Evidence(reason=Reason.SAME_CONTENT), None)


def rename(case: Case, known: Memory, encoded: Encoded) -> Replace:
    """Give a live memory, addressed by its producer's name for it, the event's text."""
    return Replace(
        decision_id=case.decision_id,
        event=case.event,
        source=case.source,
        policy_id=case.policy.id,
        evidence=Evidence(reason=Reason.SAME_MEMORY_ID, truncated=encoded.truncated),
        memory=survivorship.renewed(known, case.event, truncated=encoded.truncated),
        embedding=encoded.embedding,
        targets=(_target(known),),
    )


def decide(
    case: Case,
    encoded: Encoded,
    near: Sequence[Neighbour],
    verdicts: Sequence[Judgement],
    degraded: tuple[str, ...] = (),
) -> Change | Undecided:
    """Decide on an event whose words and name are new to its scope.

    `verdicts` has one judgement per neighbour, in the same order, nearest first. Returns Undecided
    where a merged text has to be embedded first.
    """
    evidence = _Evidence(near, verdicts, degraded, truncated=encoded.truncated)
    acting = evidence.by_verdict()
    if _on_truncated_text(encoded, acting):
        return _insert(case, encoded, evidence.because(Reason.TRUNCATED))
    if known := acting[Verdict.SAME]:
        because = evidence.because(Reason.SAME_FACT)
        return _reinforce(case, known[0].memory, because, encoded.embedding)
    if known := acting[Verdict.REFINED_BY]:
        because = evidence.because(Reason.KNOWN_IN_FULL)
        return _reinforce(case, known[0].memory, because, encoded.embedding)
    if contradicted := acting[Verdict.CONTRADICTS]:
        return _contradict(case, encoded, contradicted, evidence)
    if refined := acting[Verdict.REFINES]:
        return _merge(case, encoded, refined, evidence, Reason.ADDS_TO_KNOWN)
    if unsure := acting[Verdict.UNSURE]:
        if _merges_unverified(case.policy, unsure[0]):
            return _merge(case, encoded, unsure[:1], evidence, Reason.NEARLY_IDENTICAL)
        return _insert(case, encoded, evidence.because(Reason.UNSURE))
    return _insert(case, encoded, evidence.because(_why_new(near)))


def _merges_unverified(policy: Policy, neighbour: Neighbour) -> bool:
    rule = policy.without_verdict
    return (rule.match if neighbour.band is Band.MATCH else rule.review) == "merge"


def _on_truncated_text(encoded: Encoded, acting: dict[Verdict, list[Neighbour]]) -> bool:
    compared = [neighbour for group in acting.values() for neighbour in group]
    return bool(compared) and (
        encoded.truncated or any(neighbour.memory.truncated for neighbour in compared)
    )


def _why_new(near: Sequence[Neighbour]) -> Reason:
    return Reason.DISTINCT if near and near[0].band is not Band.NONE else Reason.NOTHING_NEAR


def _insert(case: Case, encoded: Encoded, evidence: Evidence) -> Insert:
    memory = survivorship.born(case.event, case.new_memory_id, truncated=encoded.truncated)
    return Insert(
        decision_id=case.decision_id,
        event=case.event,
        source=case.source,
        policy_id=case.policy.id,
        evidence=evidence,
        memory=memory,
        embedding=encoded.embedding,
    )


def _reinforce(
    case: Case, known: Memory, evidence: Evidence, embedding: Embedding | None
) -> Reinforce:
    return Reinforce(
        decision_id=case.decision_id,
        event=case.event,
        source=case.source,
        policy_id=case.policy.id,
        evidence=evidence,
        memory=survivorship.seen_again(known, case.event),
        target=_target(known),
        embedding=embedding,
    )


def _contradict(
    case: Case, encoded: Encoded, contradicted: Sequence[Neighbour], evidence: "_Evidence"
) -> Change:
    """Let the newer statement stand, by the events' own times; the older one is kept, retired."""
    newest = max(contradicted, key=lambda neighbour: neighbour.memory.last_seen_at)
    if case.event.occurred_at < newest.memory.last_seen_at:
        inserted = _insert(case, encoded, evidence.because(Reason.OLDER_CONTRADICTION))
        superseded = Superseded(
            by=newest.memory.id,
            at=newest.memory.last_seen_at,
            reason=Reason.OLDER_CONTRADICTION.value,
        )
        history = survivorship.retired(inserted.memory, superseded)
        return inserted.model_copy(update={"memory": history.model_copy(update={"version": 1})})
    return Replace(
        decision_id=case.decision_id,
        event=case.event,
        source=case.source,
        policy_id=case.policy.id,
        evidence=evidence.because(Reason.NEWER_CONTRADICTION),
        memory=survivorship.born(case.event, case.new_memory_id, truncated=encoded.truncated),
        embedding=encoded.embedding,
        targets=tuple(_target(neighbour.memory) for neighbour in contradicted),
    )


def _merge(
    case: Case,
    encoded: Encoded,
    parts: Sequence[Neighbour],
    evidence: "_Evidence",
    reason: Reason,
) -> Change | Undecided:
    """Make one memory of the event and the parts, oldest first, each sentence once."""
    memories = sorted(
        (part.memory for part in parts), key=lambda memory: (memory.created_at, memory.id)
    )
    joined = _joined(case.event, memories)
    if len(joined.text) > case.policy.merge.characters_max:
        return _insert(case, encoded, evidence.because(Reason.TOO_LONG_TO_MERGE))
    texts = [*(memory.text for memory in memories), case.event.text]
    if not all(contains(joined.text, text) for text in texts):
        # One may lean on the other's words, or where one ends may be in doubt.
        return _insert(case, encoded, evidence.because(Reason.CANNOT_BE_JOINED))

    def complete(whole: Encoded) -> Change:
        if whole.truncated:
            return _insert(case, encoded, evidence.because(Reason.TRUNCATED))
        return Merge(
            decision_id=case.decision_id,
            event=case.event,
            source=case.source,
            policy_id=case.policy.id,
            evidence=evidence.because(reason, joined.proof),
            memory=survivorship.merged(
                memories, case.event, case.new_memory_id, joined.text, truncated=False
            ),
            embedding=whole.embedding,
            event_embedding=encoded.embedding,
            targets=tuple(_target(memory) for memory in memories),
        )

    if joined.text == case.event.text:
        return complete(encoded)
    return Undecided(joined.text, complete)


def _joined(event: Remember, memories: Sequence[Memory]) -> Joined:
    """Join the texts; where the event already says it all, its own wording stands."""
    parts = [(memory.id, memory.text) for memory in memories]
    whole = join([(event.event_id, event.text), *parts])
    return join([*parts, (event.event_id, event.text)]) if whole.added else whole


def _target(memory: Memory) -> Target:
    return Target(memory_id=memory.id, version=memory.version)


class _Evidence:
    """What was compared, ready to be given a reason."""

    def __init__(
        self,
        near: Sequence[Neighbour],
        verdicts: Sequence[Judgement],
        degraded: tuple[str, ...],
        *,
        truncated: bool,
    ) -> None:
        self._pairs = list(zip(near, verdicts, strict=True))
        self._degraded = degraded
        self._truncated = truncated

    def by_verdict(self) -> dict[Verdict, list[Neighbour]]:
        """Return the neighbours that call for more than an insert, nearest first."""
        groups: dict[Verdict, list[Neighbour]] = {
            verdict: [] for verdict in Verdict if verdict is not Verdict.DISTINCT
        }
        for neighbour, judgement in self._pairs:
            if judgement.verdict is not Verdict.DISTINCT:
                groups[judgement.verdict].append(neighbour)
        return groups

    def because(self, reason: Reason, proof: MergeProof | None = None) -> Evidence:
        return Evidence(
            reason=reason,
            neighbours=tuple(
                Compared(
                    memory_id=neighbour.memory.id,
                    version=neighbour.memory.version,
                    similarity=neighbour.similarity,
                    band=neighbour.band,
                    verdict=judgement.verdict,
                    judge=judgement.judge,
                )
                for neighbour, judgement in self._pairs
            ),
            truncated=self._truncated,
            degraded=self._degraded,
            merge=proof,
        )
