"""Unites entries of a Memories.md that decisions merge: which one stays, and what is edited."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.base import MemoryId
from schemas.decisions import Change, Compared, Decision, Reinforce, Replace, Supersession
from schemas.memories import Persistence, Standing, Turns
from streams.memories_md.core.editing import replace_header, replace_meta, replace_text, retire
from streams.memories_md.core.entries import (
    Document,
    Header,
    LocatedEntry,
    MemoryEntry,
    Meta,
    SupersededBy,
)
from streams.model.identity import normalised


@dataclass(frozen=True, slots=True)
class ReplacedEntry:
    """An entry that another one replaces, by the decision on `by`: itself or that other one.

    `compared` is the comparison that the decider saw; None if the words are the same.
    """

    found: LocatedEntry
    by: LocatedEntry
    decision: Change
    compared: Compared | None


@dataclass(frozen=True, slots=True)
class Union:
    """Entries that become one: the survivor, its new text, and the others."""

    survivor: LocatedEntry
    text: str
    gone: tuple[ReplacedEntry, ...]


def unions(found: Sequence[LocatedEntry], decisions: Sequence[Decision]) -> list[Union]:
    """Return the unions that follow from decisions on entries, one for each and in their order.

    If one entry's text says everything, that entry stays; if a new text was made, the first does.
    """
    by_memory: dict[MemoryId, Union] = {}
    for one, decision in zip(found, decisions, strict=True):
        if not isinstance(decision, Change):
            continue
        memory = decision.memory
        if isinstance(decision, Reinforce):
            known = by_memory[memory.id]
            gone = ReplacedEntry(one, one, decision, _compared(decision, memory.id))
            by_memory[memory.id] = replace(known, gone=(*known.gone, gone))
        elif isinstance(decision, Supersession):
            targets = [target.memory_id for target in decision.targets]
            joined = {identity: by_memory.pop(identity) for identity in targets}
            by_memory[memory.id] = _one_of(joined, one, decision)
        elif memory.live:
            by_memory[memory.id] = Union(one, one.entry.text, ())
    return [union for union in by_memory.values() if union.gone]


def united(document: Document, union: Union) -> Document:
    """Update the survivor's text, counts and turns; retire the others with its title as successor.

    Raises ValueError if that cannot be written as intended.
    """
    stays, others = union.survivor, [gone.found for gone in union.gone]
    every = [stays.entry, *(one.entry for one in others)]
    if normalised(union.text) != normalised(stays.entry.text):
        document = replace_text(document, stays.at, union.text)
    document = replace_header(document, stays.at, _header(every))
    document = replace_meta(document, stays.at, _meta(every))
    for one in others:
        document = retire(document, one.at, SupersededBy(stays.entry.header.title))
    return document


def _one_of(known: dict[MemoryId, Union], one: LocatedEntry, decision: Supersession) -> Union:
    """Unite an entry with those that it is merged with or that it replaces."""
    text = decision.memory.text
    earlier = sorted(known.values(), key=lambda union: union.survivor.line)
    whole = (union.survivor for union in earlier if normalised(union.text) == normalised(text))
    alone = isinstance(decision, Replace) or normalised(one.entry.text) == normalised(text)
    stays = one if alone else next(whole, earlier[0].survivor)
    gone = [gone for union in earlier for gone in union.gone]
    for identity, union in known.items():
        if union.survivor.at != stays.at:
            compared = _compared(decision, identity)
            gone.append(ReplacedEntry(union.survivor, one, decision, compared))
    if not alone:
        nearest = _compared(decision, *known)
        gone.append(ReplacedEntry(one, one, decision, nearest))
    return Union(stays, text, tuple(gone))


def _compared(decision: Change, *memories: MemoryId) -> Compared | None:
    """Return the comparison of the nearest of some memories that the decider saw."""
    seen = (one for one in decision.evidence.neighbours if one.memory_id in memories)
    return next(seen, None)


def _header(every: Sequence[MemoryEntry]) -> Header:
    """Return the first entry's header, with the strongest persistence and status of all."""
    lasting = [entry.header.persistence for entry in every if entry.header.persistence is not None]
    strongest: Persistence | None = max(lasting, key=lambda one: one.rank, default=None)
    active = any(entry.header.status is Standing.ACTIVE for entry in every)
    status = Standing.ACTIVE if active else Standing.TENTATIVE
    return replace(every[0].header, persistence=strongest, status=status)


def _meta(every: Sequence[MemoryEntry]) -> Meta:
    """Return the first entry's parentheses, with the counts of all and missing values filled in.

    Turns restart in each episode, so only those of the first entry's episode are joined.
    """
    own = every[0].meta
    turns = [
        entry.meta.turns
        for entry in every
        if entry.meta.turns is not None and entry.meta.episode == own.episode
    ]
    scores = (entry.meta.score for entry in every if entry.meta.score is not None)
    goals = (entry.meta.goal for entry in every if entry.meta.goal is not None)
    return replace(
        own,
        turns=_widened(turns),
        score=next(scores, None),
        seen=sum(entry.meta.seen for entry in every),
        goal=next(goals, None),
    )


def _widened(turns: Sequence[Turns]) -> Turns | None:
    if not turns:
        return None
    return Turns(first=min(one.first for one in turns), last=max(one.last for one in turns))
