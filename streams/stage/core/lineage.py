"""Undo: which later decisions depend on a decision, and the memories' state without it.

An undo and the decisions that it undoes cancel out and are not considered again. A memory returns
to its state before the first undone decision that changed it; decisions since then depend on it,
are undone with it, and their events are decided again. Memories that an undone decision had joined
get one side each, a cannot-link constraint that holds until the undo itself is undone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from schemas.base import DecisionId, MemoryId
from schemas.decisions import (
    Change,
    Decision,
    Erase,
    Insert,
    Marker,
    Reason,
    Revision,
)
from schemas.events import CONCERNED_MAX, UNDOES_MAX, Event, Remember, Undo
from schemas.memories import Memory, Side, Superseded
from streams.model.identity import (
    content_key,
    decision_id,
    memory_id,
    republished_id,
    request_id,
)
from streams.model.neighbours import StoredMemory
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import sides
from streams.stage.core.ledger import effects, memory_of, stated, take, touched, version_after

Changing: TypeAlias = Change | Revision
"""The decisions that change memories."""


class CannotUndo(Exception):
    """A decision cannot be undone, or not yet; the message says why and what to do first."""


class UndoneAlready(CannotUndo):
    """A decision was already undone by the decision `undo`."""

    def __init__(self, decision: DecisionId, undo: DecisionId) -> None:
        super().__init__(f"decision {decision} is undone already, by decision {undo}")
        self.undo = undo


@dataclass(frozen=True)
class Wish:
    """Who wants something undone, when, and why."""

    author: str
    at: datetime
    note: str = ""


@dataclass(frozen=True)
class UndoPlan:
    """The plan of an undo.

    `meant` is the decision to undo, `resting` the dependent decisions undone with it, in order.
    `request` asks for it; `republished` are their events to decide again right after it. `memories`
    pairs the current state of each memory concerned, None for a new one, with its future state.
    """

    meant: Changing
    resting: tuple[Changing, ...]
    request: Undo
    republished: tuple[Remember, ...]
    memories: tuple[tuple[Memory | None, Memory], ...]

    @property
    def events(self) -> list[Event]:
        """The events to publish together, in this order."""
        return [self.request, *self.republished]

    @property
    def unsettled(self) -> list[Changing]:
        """Undone requests and answers of people, which are not repeated: people must check them."""
        return [one for one in self.resting if not isinstance(one.event, Remember)]


def changing(decisions: Iterable[Decision]) -> list[Changing]:
    """Return the decisions that change memories."""
    return [one for one in decisions if isinstance(one, Change | Revision)]


def undone(changes: Iterable[Changing]) -> dict[DecisionId, DecisionId]:
    """Return the decisions that no longer hold, each with the undo that undid it.

    `changes` are those of one or more scopes, in order. An undone decision holds again if its undo
    was undone.
    """
    return _undone(_undos(changes))


def resting_on(changes: Sequence[Changing], meant: Changing) -> list[Changing]:
    """Return a decision and the decisions in force that depend on it, in order.

    Each of them changed, or was caused by, a memory that an earlier one had changed. Decisions on
    events republished by an undo depend on that undo as well.
    """
    gone, concerned, found = undone(changes), set(touched(meant)), [meant]
    again = _copies(meant.decision_id, meant.event) if isinstance(meant.event, Undo) else {}
    for one in changes[_place(changes, meant) + 1 :]:
        if one.decision_id in gone or isinstance(one.event, Undo):
            continue
        if one.decision_id in again or not concerned.isdisjoint(_leans_on(one)):
            found.append(one)
            concerned.update(touched(one))
    return found


def plan(decisions: Sequence[Decision], meant: DecisionId, wish: Wish) -> UndoPlan:
    """Return the plan to undo a decision.

    `decisions` are all decisions of its scope that count, in order. Raises CannotUndo if it cannot
    be undone.
    """
    changes = changing(decisions)
    decision = _to_be_undone(decisions, changes, meant)
    resting = resting_on(changes, decision)
    _require_nothing_erased(resting)
    _require_newest_undo(changes, resting)
    event_id = request_id(decision.event.scope, "undo", wish.author, wish.at, meant)
    own_id = decision_id(decision.event.scope, event_id)
    memories = _without(changes, resting, own_id, wish.at)
    _require_few(resting, memories)
    _require_unpinned(memories)
    request = Undo(
        event_id=event_id,
        scope=decision.event.scope,
        author=wish.author,
        occurred_at=wish.at,
        note=wish.note,
        undoes=tuple(one.decision_id for one in resting),
        memories=tuple(after for _, after in memories),
    )
    return UndoPlan(
        meant=decision,
        resting=tuple(resting[1:]),
        request=request,
        republished=tuple(_republished(decisions, changes, resting, own_id, request)),
        memories=tuple(memories),
    )


def cut_off(decisions: Sequence[Decision], undo: DecisionId) -> list[Remember]:
    """Return the republished events of a completed undo that have no decision.

    The publisher of the undo may have died before it published the rest.
    """
    changes = changing(decisions)
    place = next(i for i, one in enumerate(changes) if one.decision_id == undo)
    request = changes[place].event
    if not isinstance(request, Undo):
        return []
    before = changes[:place]
    by_id = {one.decision_id: one for one in before}
    resting = [by_id[identity] for identity in request.undoes if identity in by_id]
    known = {one.decision_id for one in decisions}
    wanted = _republished(decisions, before, resting, undo, request)
    return [one for one in wanted if decision_id(one.scope, one.event_id) not in known]


def _undos(changes: Iterable[Changing]) -> dict[DecisionId, Undo]:
    return {one.decision_id: one.event for one in changes if isinstance(one.event, Undo)}


def _undone(undos: Mapping[DecisionId, Undo]) -> dict[DecisionId, DecisionId]:
    gone: dict[DecisionId, DecisionId] = {}
    for identity in reversed(list(undos)):
        if identity not in gone:
            gone |= {one: identity for one in undos[identity].undoes if one not in gone}
    return gone


def _copies(undo: DecisionId, request: Undo) -> dict[DecisionId, DecisionId]:
    """Return the decisions on the events republished after an undo, with the original decisions."""
    return {
        decision_id(request.scope, republished_id(undo, original)): original
        for original in request.undoes
    }


def _leans_on(decision: Changing) -> list[MemoryId]:
    """Return the memories that a decision changed, or that superseded its memory immediately."""
    outdated_by = [one.superseded.by for one in stated(decision) if one.superseded is not None]
    return [*touched(decision), *(identity for identity in outdated_by if identity is not None)]


def _place(changes: Sequence[Changing], meant: Changing) -> int:
    ids = [one.decision_id for one in changes]
    return ids.index(meant.decision_id)


def _to_be_undone(
    decisions: Sequence[Decision], changes: Sequence[Changing], meant: DecisionId
) -> Changing:
    found = next((one for one in changes if one.decision_id == meant), None)
    if found is None:
        others = [one.kind for one in decisions if one.decision_id == meant]
        raise CannotUndo(
            f"decision {meant} changed nothing that could be undone: {''.join(others[:1]) or 'gone'}"
        )
    if (undo := undone(changes).get(meant)) is not None:
        raise UndoneAlready(meant, undo)
    return found


def _require_nothing_erased(resting: Sequence[Changing]) -> None:
    for one in resting:
        if isinstance(one, Erase):
            raise CannotUndo(f"decision {one.decision_id} no longer has what would be restored")


def _require_newest_undo(changes: Sequence[Changing], resting: Sequence[Changing]) -> None:
    """Refuse to undo an undo if a later one undid more decisions on the same memories."""
    meant, gone = resting[0], undone(changes)
    if not isinstance(meant.event, Undo):
        return
    concerned = {identity for one in resting for identity in touched(one)}
    place = _place(changes, meant)
    older = {one.decision_id for one in changes[:place]}
    for later in reversed(changes[place + 1 :]):
        if isinstance(later.event, Undo) and later.decision_id not in gone:
            reaches_back = not older.isdisjoint(later.event.undoes)
            if reaches_back and not concerned.isdisjoint(touched(later)):
                raise CannotUndo(
                    f"decision {later.decision_id} has undone more of the same memories since: "
                    "undo that first"
                )


def _without(
    changes: Sequence[Changing], resting: Sequence[Changing], undo: DecisionId, at: datetime
) -> list[tuple[Memory | None, Memory]]:
    """Return the memories concerned, each in its current state and without these decisions."""
    before, now = _states(changes, {one.decision_id for one in resting})
    alone = _alone(resting[0], before, undo)
    made = {identity: _back(was, now[identity], at) for identity, was in before.items()}
    if alone is not None:
        version = now[alone.id].version + 1 if alone.id in now else 1
        made[alone.id] = alone.model_copy(update={"version": version})
    told = _told_since(changes, resting, now.values())
    taken_apart = _taken_apart(resting[0], made, undo)
    return [
        (now.get(identity), _with_sides(after, [told, taken_apart.get(identity, ())]))
        for identity, after in made.items()
    ]


def _told_since(
    changes: Sequence[Changing], resting: Sequence[Changing], now: Iterable[Memory]
) -> tuple[Side, ...]:
    """Return the sides that later undos gave to the memories concerned: these stay in force."""
    earlier = changes[: _place(changes, resting[0])]
    past = {one.decision_id for one in (*earlier, *resting)}
    return sides(tuple(one for one in m.kept_apart if one.undo not in past) for m in now)


def _taken_apart(
    meant: Changing, made: Mapping[MemoryId, Memory], undo: DecisionId
) -> dict[MemoryId, tuple[Side, ...]]:
    """Return a side for each memory of an undone decision that is live without it.

    Whatever the decision did with them, when in doubt they are two facts.
    """
    if isinstance(meant, Revision):
        return {}
    parts = {*touched(meant), memory_id(undo)}
    live = [identity for identity, after in made.items() if identity in parts and after.live]
    if len(live) == 1:
        return {}
    return {identity: (Side(undo=undo, side=identity),) for identity in live}


def _with_sides(memory: Memory, more: Sequence[tuple[Side, ...]]) -> Memory:
    if not memory.live:
        return memory
    return memory.model_copy(update={"kept_apart": sides([memory.kept_apart, *more])})


def _states(
    changes: Sequence[Changing], resting: set[DecisionId]
) -> tuple[dict[MemoryId, Memory | None], dict[MemoryId, Memory]]:
    """Return the memories concerned before the first of these decisions, and their state now."""
    state = dict[MemoryId, StoredMemory]()
    before: dict[MemoryId, Memory | None] = {}
    for one in changes:
        made = effects(one)
        for effect in made if one.decision_id in resting else ():
            identity = memory_of(effect)
            held = state.get(identity)
            if version_after(effect) != (1 if held is None else held.memory.version + 1):
                raise CannotUndo(f"what memory {identity} was before is no longer in the log")
            before.setdefault(identity, None if held is None else held.memory)
        take(state, made, holed=True)
    return before, {identity: state[identity].memory for identity in before}


def _back(was: Memory | None, now: Memory, at: datetime) -> Memory:
    """Return a memory in its previous state, as its next version; retired if it had none."""
    if was is None:
        return survivorship.retired(now, Superseded(by=None, at=at, reason=Reason.UNDONE.value))
    return was.model_copy(update={"version": now.version + 1})


def _alone(
    meant: Changing, before: Mapping[MemoryId, Memory | None], undo: DecisionId
) -> Memory | None:
    """Return the memory that an undone decision's event creates by itself.

    None if there is no `remember` event, its words are known without it, or they are what was
    undone: by an insert, or as the new words of the memory that the event named. Those stay in the
    history of their memory.
    """
    event = meant.event
    if isinstance(meant, Insert | Revision) or not isinstance(event, Remember):
        return None
    if meant.evidence.reason is Reason.SAME_MEMORY_ID:
        return None
    known = before[meant.memory.id]
    if known is None:
        return survivorship.born(event, meant.memory.id, truncated=False)
    if content_key(event.scope, event.text) in known.content_keys:
        return None
    return survivorship.born(event, memory_id(undo), truncated=False)


def _require_few(
    resting: Sequence[Changing], memories: Sequence[tuple[Memory | None, Memory]]
) -> None:
    if len(memories) > CONCERNED_MAX:
        widest = next((one for one in reversed(resting[1:]) if len(touched(one)) > 1), resting[-1])
        raise CannotUndo(
            f"{len(memories):,} memories are concerned, and {CONCERNED_MAX} can be changed at "
            f"once: undo the later decision {widest.decision_id} first"
        )
    if len(resting) > UNDOES_MAX:
        raise CannotUndo(
            f"{len(resting):,} decisions rest on it, and {UNDOES_MAX:,} can be undone at once: "
            f"undo the later decision {resting[-1].decision_id} first"
        )


def _require_unpinned(memories: Sequence[tuple[Memory | None, Memory]]) -> None:
    for now, after in memories:
        if now is not None and now.live and now.pinned:
            if after.live and after.content_key == now.content_key:
                continue
            raise CannotUndo(
                f"memory {now.id} is pinned, and would be changed: "
                f"memsieve memory unpin {now.id} first"
            )


def _republished(
    decisions: Sequence[Decision],
    changes: Sequence[Changing],
    resting: Sequence[Changing],
    own_id: DecisionId,
    request: Undo,
) -> list[Remember]:
    """Return the events of the dependent decisions, to be decided again, each once.

    An event is omitted if another decision on it is in force from now on.
    """
    originals = _originals(decisions)
    first = {one.decision_id: originals.get(one.decision_id, one.decision_id) for one in changes}
    gone = _undone({**_undos(changes), own_id: request})
    said = {first[one.decision_id] for one in changes if one.decision_id not in gone}
    said.add(first[resting[0].decision_id])
    again: list[Remember] = []
    for one in resting[1:]:
        if isinstance(one.event, Remember) and first[one.decision_id] not in said:
            said.add(first[one.decision_id])
            fresh = {"event_id": republished_id(own_id, one.decision_id)}
            again.append(one.event.model_copy(update=fresh))
    return again


def _originals(decisions: Sequence[Decision]) -> dict[DecisionId, DecisionId]:
    """Return the decisions on republished events, with the first decision on the same event.

    An undo that came too late has published its events, too.
    """
    originals: dict[DecisionId, DecisionId] = {}
    for one in decisions:
        if not isinstance(one, Marker) and isinstance(one.event, Undo):
            for copy, repeated in _copies(one.decision_id, one.event).items():
                originals[copy] = originals.get(repeated, repeated)
    return originals
