"""The core decision: event, nearest neighbours, verdicts and policy → one decision.

Pure and total. One fact becomes one memory, which keeps every wording; the policy chooses the shown
text. When in doubt, both are kept. No memory is replaced, merged or reinforced based on a truncated
text, and a pinned memory is neither merged nor replaced.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from schemas.base import (
    LABEL_MAX,
    Embedding,
    EventId,
    MemoryId,
    Position,
    ScopeName,
)
from schemas.decisions import (
    Band,
    Block,
    Change,
    Compared,
    Composition,
    Evidence,
    Forward,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Revise,
    Revised,
    Verdict,
)
from schemas.events import Event, Remember
from schemas.memories import Memory, Persistence, Standing, Superseded, Target, Unchecked
from schemas.outcomes import DeadLetter
from streams.model.better import Preference, better
from streams.model.identity import (
    decision_id,
    forwarding_id,
    rejection_id,
    review_id,
)
from streams.model.merge import MergedText, MergePart, alone
from streams.model.neighbours import Neighbour
from streams.model.observed import is_unlikely
from streams.model.policy import Act
from streams.model.verdict import Judgement, contradicts, unsettled
from streams.model.wordings import form_of
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import compatible
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.text.guards.registry import GUARDS, may_be_of_two

Made = TypeVar("Made", bound=Insert | Replace)


def ignore(case: Case[Event], reason: Reason, refused: Sequence[str] = ()) -> Ignore:
    """Change nothing; `refused` lists memories that should have changed, each with the reason."""
    return Ignore(**case.fields(Evidence(reason=reason, refused=tuple(refused))))


def revise(
    case: Case[Event], reason: Reason, revised: Sequence[Revised], refused: Sequence[str] = ()
) -> Revise:
    """Change memories as somebody has asked for; `refused` is as for `ignore`."""
    because = Evidence(reason=reason, refused=tuple(refused))
    return Revise(**case.fields(because), memories=tuple(revised))


def next_version(memory: Memory, **update: object) -> Memory:
    """Return a memory with these values, and nothing else changed but its version."""
    return memory.model_copy(update={**update, "version": memory.version + 1})


def reject(source: Position, letter: DeadLetter) -> Reject:
    """Mark the position of a record that became a dead letter."""
    return Reject(
        decision_id=rejection_id(source.topic, source.partition, source.offset),
        source=source,
        dead_letter_id=letter.id,
    )


def forward(source: Position, event: Event, partition: int) -> Forward:
    """Mark the position of a record whose event was republished to its scope's partition."""
    return Forward(
        decision_id=forwarding_id(source.topic, source.partition, source.offset),
        source=source,
        event_id=event.event_id,
        scope=event.scope,
        partition=partition,
    )


def block(
    source: Position,
    scope: ScopeName,
    event: EventId,
    *,
    gone: MemoryId | None = None,
    found: Sequence[str] = (),
) -> Block:
    """Record only that an event existed, none of its content.

    It would restore the forgotten memory `gone`, or screening `found` in it what is kept out.
    """
    return Block(
        decision_id=decision_id(scope, event),
        source=source,
        event_id=event,
        scope=scope,
        memory_id=gone,
        found=tuple(found),
    )


def recognise(case: Case[Remember], known: Memory) -> Reinforce:
    """Reinforce the live memory that already has the event's exact words."""
    because = Evidence(reason=Reason.SAME_CONTENT, refused=_unheeded(case, "the words are known"))
    return _reinforce(case, known, because, None)


def rename(case: Case[Remember], known: Memory, encoded: EncodedVector) -> Replace:
    """Replace the text of the live memory that the event addresses."""
    because = Evidence(
        reason=Reason.SAME_MEMORY_ID,
        truncated=encoded.truncated,
        refused=_unheeded(case, "it gives a memory new words", but=known.id),
    )
    return Replace(
        **case.fields(because),
        memory=survivorship.renewed(known, case.event, case.now, truncated=encoded.truncated),
        embedding=encoded.embedding,
        targets=(target_of(known),),
    )


def older_news(case: Case[Remember], compared: Change | Ignore, known: Memory) -> Change | Ignore:
    """Keep as history what an event tells of a memory that it addresses and that was seen since.

    `compared` is the decision on it as on any event; only what would be live beside the memory is
    changed. What could not be compared, or waits for an answer, stays, and so does an event with an
    unlikely time: nobody knows which of the two is older.
    """
    if not isinstance(compared, Insert) or not compared.memory.live:
        return compared
    undecided = compared.evidence.reviews or compared.memory.unchecked is not None
    if undecided or is_unlikely(case.event.occurred_at, case.now):
        return compared
    because = compared.evidence.model_copy(update={"reason": Reason.SAME_MEMORY_ID})
    return _as_history(compared.model_copy(update={"evidence": because}), known)


def _as_history(inserted: Insert, newer: Memory) -> Insert:
    """Retire a memory as it is inserted: a newer one stands in its place."""
    why = inserted.evidence.reason.value
    superseded = Superseded(by=newer.id, at=newer.last_seen_at, reason=why)
    history = survivorship.retired(inserted.memory, superseded)
    return inserted.model_copy(update={"memory": history.model_copy(update={"version": 1})})


def add(case: Case[Remember], encoded: EncodedVector) -> Insert:
    """Insert the event as its own memory because its scope is not deduplicated."""
    because = Evidence(
        reason=Reason.SWITCHED_OFF,
        truncated=encoded.truncated,
        refused=_unheeded(case, "switched off here"),
    )
    return _insert(case, encoded, because)


def let_through(case: Case[Remember], encoded: EncodedVector, silent: str) -> Insert:
    """Keep an event that could not be compared; `silent` is as for `lacking`."""
    made = _insert(case, encoded, Evidence(reason=Reason.UNCHECKED, truncated=encoded.truncated))
    return lacking(made, "not-compared", silent)


def lacking(decision: Made, what: Unchecked, silent: str) -> Made:
    """Mark the memory that an event makes with what it lacks; `silent` did not answer, and why."""
    update = {"degraded": tuple(dict.fromkeys((*decision.evidence.degraded, silent)))}
    return decision.model_copy(
        update={
            "evidence": decision.evidence.model_copy(update=update),
            "memory": decision.memory.model_copy(update={"unchecked": what}),
        }
    )


def _unheeded(case: Case[Remember], why: str, *, but: str | None = None) -> tuple[str, ...]:
    """Return a refusal with reason `why` for every memory that the event asks to supersede.

    `but` is one that it changes all the same.
    """
    named = (name for name in case.event.supersedes if name != but)
    return tuple(f"{name}: {why}"[:LABEL_MAX] for name in named)


def supersede(
    case: Case[Remember], encoded: EncodedVector, named: Sequence[tuple[str, Memory | None]]
) -> Change:
    """Let an event supersede the memories that it names, as far as the policy allows.

    `named` pairs each name with the live memory of the scope that has it. A memory that may not be
    retired is kept, and the evidence says why.
    """
    refused = {name: _may_not_retire(case, memory) for name, memory in named}
    targets = [memory for name, memory in named if memory is not None and refused[name] is None]
    allowed = targets[: case.rules.supersede.named_max]
    reason = Reason.SUPERSEDES_BY_NAME if allowed else Reason.NOTHING_NEAR
    refused |= {
        memory.id: "the policy leaves that to a person" for memory in targets[len(allowed) :]
    }
    if allowed and case.braked:
        refused |= {memory.id: "the brake is on" for memory in allowed}
        reason, allowed = Reason.BRAKED, []
    evidence = Evidence(
        reason=reason,
        truncated=encoded.truncated,
        refused=tuple(f"{name}: {why}"[:LABEL_MAX] for name, why in refused.items() if why),
    )
    if not allowed:
        return _insert(case, encoded, evidence)
    return _replace(case, encoded, allowed, evidence)


def _may_not_retire(case: Case[Remember], memory: Memory | None) -> str | None:
    """Return why an event may not retire a memory that it names; None if it may."""
    if memory is None:
        return "no live memory of this scope"
    if memory.pinned:
        return "pinned"
    if _holds_longer(memory.persistence, case.event.persistence):
        return f"{memory.persistence} is not replaced by {case.event.persistence}"
    return None


def is_stronger(memory: Memory, other: Remember | Memory) -> bool:
    """Return whether a memory is active and the other tentative, or has a higher persistence."""
    guess = other.status == Standing.TENTATIVE and memory.status is Standing.ACTIVE
    return guess or _holds_longer(memory.persistence, other.persistence)


def _holds_longer(memory: Persistence | None, event: Persistence | None) -> bool:
    """Return whether a memory's persistence outranks the event's; False if either is unknown."""
    return memory is not None and event is not None and memory.rank > event.rank


def decide(
    case: Case[Remember],
    encoded: EncodedVector,
    near: Sequence[Neighbour],
    judgements: Sequence[Judgement],
) -> Change | PendingMerge:
    """Decide on an event whose words and name are new to its scope.

    `judgements` has one entry per neighbour, in the same order, nearest first. Returns PendingMerge
    if the merged text has to be composed first.
    """
    return _Deciding(case, encoded, list(zip(near, judgements, strict=True))).outcome()


class _Deciding:
    """Decides one event against its neighbours by the rules of its scope."""

    def __init__(
        self,
        case: Case[Remember],
        encoded: EncodedVector,
        pairs: Sequence[tuple[Neighbour, Judgement]],
    ) -> None:
        self._case = case
        self._rules = case.rules
        self._encoded = encoded
        self._pairs = pairs

    def outcome(self) -> Change | PendingMerge:
        """Try verdicts from the most to the least certain; the nearest of each counts."""
        if self._reads_a_part():
            return self._kept_both(Reason.TRUNCATED)
        if same := self._with(Verdict.SAME):
            return self._same(same[0][0])
        if known := self._with(Verdict.REFINED_BY):
            return self._reinforced(known[0][0].memory, Reason.KNOWN_IN_FULL)
        if outdated := self._outdated():
            return self._replaced([outdated], Reason.BETTER_THAN_KNOWN)
        if contradicted := self._with(Verdict.CONTRADICTS):
            return self._contradicted(contradicted)
        if refined := self._with(Verdict.REFINES):
            return self._refined([neighbour.memory for neighbour, _ in refined])
        if overlapping := self._with(Verdict.OVERLAPS):
            return self._overlapping(overlapping[0][0].memory)
        if unsure := self._with(Verdict.UNSURE):
            return self._unsure(*unsure[0])
        far = not self._pairs or self._pairs[0][0].band is Band.NONE
        return self._kept_both(Reason.NOTHING_NEAR if far else Reason.DISTINCT)

    def _with(self, verdict: Verdict) -> list[tuple[Neighbour, Judgement]]:
        return [pair for pair in self._pairs if pair[1].verdict is verdict]

    def _reads_a_part(self) -> bool:
        acting = [n for n, judgement in self._pairs if judgement.verdict is not Verdict.DISTINCT]
        return bool(acting) and (
            self._encoded.truncated or any(neighbour.memory.truncated for neighbour in acting)
        )

    def _same(self, neighbour: Neighbour) -> Change | PendingMerge:
        return self._act(self._rules.with_verdict.same, neighbour, Reason.SAME_FACT)

    def _refined(self, memories: Sequence[Memory]) -> Change | PendingMerge:
        """Decide when the event says all that these memories say and more: show its text.

        Where a model words merges, it may word both. Join the nearest with those that no undo keeps
        apart from it or from each other.
        """
        match self._rules.with_verdict.refines:
            case "keep-both":
                return self._kept_both(Reason.UNSURE)
            case "replace" if not any(map(self._is_stronger, memories)):
                return self._repeated(compatible(memories), Reason.ADDS_TO_KNOWN)
            case "replace" | "merge":
                merge = self._merged(memories, Reason.ADDS_TO_KNOWN)
                if not isinstance(merge, PendingMerge):
                    return merge
                if self._rules.merge.strategy == "llm":
                    return replace(merge, better=self._case.event.event_id, complete=True)
                shown = alone(merge.parts[-1], "keep-better")
                return merge.merged(shown, self._encoded, ())

    def _overlapping(self, memory: Memory) -> Change | PendingMerge:
        """Decide when event and memory say one fact and each adds something."""
        if self._rules.with_verdict.refines == "keep-both":
            return self._kept_both(Reason.UNSURE)
        return self._joined(memory, Reason.OVERLAPS_KNOWN)

    def _contradicted(
        self, contradicted: Sequence[tuple[Neighbour, Judgement]]
    ) -> Change | PendingMerge:
        """Decide between contradicting statements; the newer one wins if the policy says so."""
        match self._rules.with_verdict.contradicts:
            case "keep-both":
                return self._kept_both(Reason.CONTRADICTS_KNOWN)
            case "review":
                return self._asked(contradicted[0][0])
            case "supersede":
                least = self._rules.judges.supersede_min
                sure = [
                    near.memory
                    for near, told in contradicted
                    if contradicts(told, least) and not may_be_of_two(told.findings)
                ]
                return self._dated(sure) if sure else self._kept_both(Reason.CONTRADICTS_KNOWN)

    def _dated(self, contradicted: Sequence[Memory]) -> Change:
        """Keep the newer statement live, by event time; store the older one as retired.

        A pinned memory stays beside a newer statement. An event with an unlikely time is neither
        the newer nor the older.
        """
        case = self._case
        if is_unlikely(case.event.occurred_at, case.now):
            return self._kept_both(Reason.CONTRADICTS_KNOWN)
        newest = max(contradicted, key=lambda memory: case.believed(memory.last_seen_at))
        if not case.is_late(newest):
            outdated = [memory for memory in contradicted if not memory.pinned]
            if not outdated:
                return self._kept_both(Reason.CONTRADICTS_KNOWN)
            return self._replaced(outdated, Reason.NEWER_CONTRADICTION)
        if case.braked:
            return self._kept_both(Reason.BRAKED)
        return _as_history(self._kept_both(Reason.OLDER_CONTRADICTION), newest)

    def _unsure(self, neighbour: Neighbour, judgement: Judgement) -> Change | PendingMerge:
        """Apply the policy's action for pairs without a verdict.

        An event with a higher persistence becomes its own memory unless both are worded alike.
        """
        event, memory = self._case.event, neighbour.memory
        if _holds_longer(event.persistence, memory.persistence) and (
            form_of(event.text) != form_of(memory.text)
        ):
            return self._kept_both(Reason.UNSURE)
        act = unsettled(judgement, neighbour.band, self._rules)
        return self._act(act, neighbour, Reason.NEARLY_IDENTICAL)

    def _act(self, act: Act, neighbour: Neighbour, reason: Reason) -> Change | PendingMerge:
        """Carry out the policy's action for one neighbour."""
        memory = neighbour.memory
        match act:
            case "keep-both":
                return self._kept_both(Reason.UNSURE)
            case "review":
                return self._asked(neighbour)
            case "merge":
                return self._joined(memory, reason)
            case "reinforce":
                return self._reinforced(memory, reason)
            case "replace":
                return self._repeated([memory], reason)
            case "keep-better":
                preference = self._preference(memory)
                if preference.winner == "tie":
                    return self._act(self._rules.better.tie, neighbour, reason)
                if preference.winner == "event":
                    return self._repeated([memory], Reason.BETTER_THAN_KNOWN)
                return self._reinforced(memory, Reason.NO_BETTER_THAN_KNOWN)

    def _is_stronger(self, memory: Memory) -> bool:
        return is_stronger(memory, self._case.event)

    def _outdated(self) -> Memory | None:
        """Return the nearest tentative memory that the event settles; None if there is none.

        The band's action must be `keep-better`. Whether the event confirms or refutes a guess, no
        fact is lost; but it must be about the same thing and have no lower persistence.
        """
        for neighbour, judgement in self._pairs:
            if not _of_one_thing(judgement):
                continue
            if self._is_stronger(neighbour.memory):
                continue
            act = unsettled(judgement, neighbour.band, self._rules)
            preference = self._preference(neighbour.memory)
            if act == "keep-better" and (preference.winner, preference.by) == ("event", "status"):
                return neighbour.memory
        return None

    def _preference(self, memory: Memory) -> Preference:
        return better(self._case.event, memory, self._rules.better, self._case.now)

    def _asked(self, neighbour: Neighbour) -> Insert:
        """Keep both and ask a person."""
        identity = review_id(self._case.decision_id, neighbour.memory.id)
        evidence = self._because(Reason.KEPT_FOR_REVIEW)
        return _insert(
            self._case, self._encoded, evidence.model_copy(update={"reviews": (identity,)})
        )

    def _kept_both(self, reason: Reason) -> Insert:
        return _insert(self._case, self._encoded, self._because(reason))

    def _reinforced(self, memory: Memory, reason: Reason) -> Reinforce:
        return _reinforce(self._case, memory, self._because(reason), self._encoded.embedding)

    def _replaced(self, memories: Sequence[Memory], reason: Reason) -> Change:
        if any(memory.pinned or self._is_stronger(memory) for memory in memories):
            return self._kept_both(Reason.UNSURE)
        if self._case.braked:
            return self._kept_both(Reason.BRAKED)
        return _replace(self._case, self._encoded, memories, self._because(reason))

    def _repeated(self, memories: Sequence[Memory], reason: Reason) -> Change:
        """Replace memories that the event repeats with its text, carrying over their fields."""
        replaced = self._replaced(memories, reason)
        if not isinstance(replaced, Replace):
            return replaced
        memory = survivorship.repeated(replaced.memory, memories, self._case.now)
        return replaced.model_copy(update={"memory": memory})

    def _joined(self, memory: Memory, reason: Reason) -> Change | PendingMerge:
        """Merge with one memory unless the event has the higher persistence."""
        if _holds_longer(self._case.event.persistence, memory.persistence):
            return self._kept_both(Reason.UNSURE)
        return self._merged([memory], reason)

    def _merged(self, memories: Sequence[Memory], reason: Reason) -> Change | PendingMerge:
        """Merge the event with the nearest of these memories, oldest first.

        Skip pinned memories, and stronger ones: merging with them would promote an ephemeral or
        tentative statement. Never join memories that an undo separated.
        """
        fitting = compatible(m for m in memories if not (m.pinned or self._is_stronger(m)))
        targets = fitting[: self._rules.merge.parts_max - 1]
        if not targets:
            return self._kept_both(Reason.UNSURE)
        if self._case.braked:
            return self._kept_both(Reason.BRAKED)
        targets = sorted(targets, key=lambda memory: (memory.created_at, memory.id))
        case, encoded, event = self._case, self._encoded, self._case.event

        def merged(joined: MergedText, whole: EncodedVector, degraded: tuple[str, ...]) -> Merge:
            identity, text = case.new_memory_id, joined.text
            return Merge(
                **case.fields(self._because(reason, joined.composition, degraded)),
                memory=survivorship.merged(
                    targets, event, identity, text, case.now, truncated=False
                ),
                embedding=whole.embedding,
                event_embedding=encoded.embedding,
                targets=tuple(target_of(memory) for memory in targets),
            )

        preferred = self._preference(targets[0]).winner == "event"
        parts = (*(part_of(memory) for memory in targets), _part_of_event(event))
        return PendingMerge(
            parts=tuple(replace(part, said_at=case.believed(part.said_at)) for part in parts),
            better=event.event_id if preferred else targets[0].id,
            merged=merged,
        )

    def _because(
        self, reason: Reason, merge: Composition | None = None, degraded: tuple[str, ...] = ()
    ) -> Evidence:
        silent = (name for _, judgement in self._pairs for name in judgement.degraded)
        return Evidence(
            reason=reason,
            neighbours=tuple(compared(neighbour, j) for neighbour, j in self._pairs),
            truncated=self._encoded.truncated,
            degraded=tuple(dict.fromkeys((*silent, *degraded))),
            merge=merge,
        )


def _of_one_thing(judgement: Judgement) -> bool:
    """Return whether every guard finding is about two answers to one question, not two things."""
    return all(GUARDS[finding.guard].of_one_thing for finding in judgement.findings)


def compared(neighbour: Neighbour, judgement: Judgement) -> Compared:
    """Return the record of a comparison that a decision keeps as evidence."""
    opinion = judgement.opinion
    told = None if opinion is None else opinion.probabilities
    return Compared(
        memory_id=neighbour.memory.id,
        version=neighbour.memory.version,
        similarity=neighbour.similarity,
        band=neighbour.band,
        verdict=judgement.verdict,
        judge=judgement.judge,
        probabilities=None if told is None else {v: round(p, 3) for v, p in told.items()},
        findings=judgement.findings,
        wording=neighbour.wording,
    )


def part_of(memory: Memory) -> MergePart:
    """Return a memory as an input of a merge."""
    return MergePart(memory.id, memory.text, memory.last_seen_at, memory.sources)


def _part_of_event(event: Remember) -> MergePart:
    return MergePart(event.event_id, event.text, event.occurred_at, event.sources)


def _insert(case: Case[Remember], encoded: EncodedVector, evidence: Evidence) -> Insert:
    memory = survivorship.born(case.event, case.new_memory_id, truncated=encoded.truncated)
    return Insert.trusted(
        schema_version=1,
        **case.fields(evidence),
        kind="insert",
        memory=memory,
        embedding=encoded.embedding,
    )


def _reinforce(
    case: Case[Remember], known: Memory, evidence: Evidence, embedding: Embedding | None
) -> Reinforce:
    return Reinforce.trusted(
        schema_version=1,
        **case.fields(evidence),
        kind="reinforce",
        memory=survivorship.seen_again(known, case.event, case.now),
        target=target_of(known),
        embedding=embedding,
    )


def _replace(
    case: Case[Remember], encoded: EncodedVector, targets: Sequence[Memory], evidence: Evidence
) -> Replace:
    return Replace(
        **case.fields(evidence),
        memory=survivorship.born(case.event, case.new_memory_id, truncated=encoded.truncated),
        embedding=encoded.embedding,
        targets=tuple(target_of(memory) for memory in targets),
    )


def target_of(memory: Memory) -> Target:
    """Return a memory as a target, at its current version."""
    return Target.trusted(memory_id=memory.id, version=memory.version)
