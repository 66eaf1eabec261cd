"""Selection, order and formatting of memories for a prompt, within a token budget."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from heapq import nsmallest
from typing import Any, TypeAlias

from schemas.base import LABEL_MAX, MemoryId, ScopeName
from schemas.memories import Memory, Persistence, Standing
from streams.memories_md.core.mapping import location_id
from streams.model.identity import normalised
from streams.model.observed import believed
from streams.model.places import LOCATION_NAME, entered, seen, whole_number

BUDGET = 300
"""Tokens of a block: what a prompt can afford at every turn."""

LASTING_MAX = 5
RECENT_MAX = 5

FIRST_VISIT = "First visit - no prior experiences"
"""The block of a location without memories."""

NO_MEMORIES = "No memories yet."
"""The block of any other scope without memories."""

_VISITS = "visits"
"""The metadata key for how often a memory's scope was visited."""

_DANGER = "danger"
_CATEGORIES = (_DANGER, "failure", "success", "discovery")
"""The categories shown first; all others follow."""

_NOTHING = "Nothing found."
_UNCERTAIN = "Uncertain - check before you rely on it:"
_SCOPES_NAMED = 3
_CONFLICT_WIDTH = 80
"""Characters of what says otherwise, in a memory's line, if it has no line itself."""
_SHOWN_WIDTH = 24
"""The same, if it has a line further above: enough to find that."""

CountTokens = Callable[[str], int]


class RecallReason(StrEnum):
    """Why a memory is shown or left out."""

    LASTING = "lasting"
    RECENT = "recent"
    NEAR = "near"
    SHARED = "shared"
    PATTERN = "pattern"
    BEYOND_NUMBER = "beyond-number"
    OVER_BUDGET = "over-budget"
    SUPERSEDED = "superseded"


_LEFT_OUT = {RecallReason.BEYOND_NUMBER, RecallReason.OVER_BUDGET, RecallReason.SUPERSEDED}

QuerySimilarity: TypeAlias = tuple[float, str | None]
"""A memory's similarity to a query, and its nearest variant; None if it is the shown text."""


@dataclass(frozen=True)
class RecalledMemory:
    """A memory that was considered, and why it is shown or not.

    `similarity` is to the query, if there was one; `wording` is the nearest variant, None if it is
    the shown text. `scopes` is set if several scopes were asked about; `tokens` is the length of
    its line, if counted. `conflicts` are the live memories that contradict it, the last seen first.
    """

    memory: Memory
    why: RecallReason
    similarity: float | None = None
    scopes: tuple[ScopeName, ...] = ()
    tokens: int | None = None
    wording: str | None = None
    conflicts: tuple[Memory, ...] = ()

    @property
    def shown(self) -> bool:
        return self.why not in _LEFT_OUT


@dataclass(frozen=True)
class PromptBlock:
    """The text for a prompt, and all memories that were considered, the shown ones first.

    `text` is empty if the budget is below `tokens_min`, the length of a block without any memory.
    """

    text: str
    tokens: int
    tokens_min: int
    recalled: tuple[RecalledMemory, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the block for programs, with stable keys."""
        return {
            "block": self.text,
            "tokens": self.tokens,
            "memories": [_as_json(one) for one in self.recalled],
        }


def choose(
    memories: Iterable[Memory],
    *,
    lasting_max: int = LASTING_MAX,
    recent_max: int = RECENT_MAX,
    now: datetime | None = None,
) -> list[RecalledMemory]:
    """Return all memories of a scope in the order of the block, those to show first.

    Show up to `lasting_max` lasting memories (pinned ones, a persistence other than ephemeral, or
    dangers) and up to `recent_max` of the newest others, in both groups active ones before
    tentative ones. Superseded memories are not shown. A time after `now` makes nothing the newest.
    """
    live, retired = _parted(memories)
    lasting = nsmallest(
        lasting_max, filter(_is_lasting, live), key=partial(_lasting_first, now=now)
    )
    others = _without(live, lasting)
    recent = nsmallest(recent_max, others, key=partial(_newest_first, now=now))
    shown = [
        *(RecalledMemory(memory, RecallReason.LASTING) for memory in lasting),
        *(RecalledMemory(memory, RecallReason.RECENT) for memory in recent),
    ]
    return [
        *sorted(shown, key=lambda one: _urgent_first(one.memory, now)),
        *(
            RecalledMemory(memory, RecallReason.BEYOND_NUMBER)
            for memory in _without(others, recent)
        ),
        *retired,
    ]


def nearest(
    memories: Iterable[Memory],
    near: Mapping[MemoryId, QuerySimilarity],
    *,
    number: int,
    several: bool = False,
) -> list[RecalledMemory]:
    """Return the memories, those most similar to a query first; at most `number` are shown.

    Memories that are not in `near` are not shown. `several` adds the scope of each.
    """
    live, retired = _parted(memories)
    found = [memory for memory in live if memory.id in near]
    found.sort(key=lambda one: (-near[one.id][0], one.id))
    shown = {memory.id for memory in found[:number]}

    def order(memory: Memory) -> tuple[bool, bool, float, str]:
        score, _ = near.get(memory.id, (-1.0, None))
        return memory.id not in shown, _is_tentative(memory), -score, memory.id

    def recalled(memory: Memory) -> RecalledMemory:
        why = RecallReason.NEAR if memory.id in shown else RecallReason.BEYOND_NUMBER
        scopes = (memory.scope,) if several else ()
        similarity, wording = near.get(memory.id, (None, None))
        return RecalledMemory(memory, why, similarity, scopes, wording=wording)

    return [*map(recalled, sorted(live, key=order)), *retired]


def shared(memories: Iterable[Memory], *, number: int) -> list[RecalledMemory]:
    """Return what several scopes remember in the same words, the most widespread first.

    Of each group, the memory that ranks first in a block represents all; `number` are shown.
    """
    groups: dict[str, list[Memory]] = {}
    for memory in sorted(_parted(memories)[0], key=_urgent_first):
        groups.setdefault(normalised(memory.text), []).append(memory)
    return together(groups.values(), RecallReason.SHARED, number=number, scopes_min=2)


def together(
    groups: Iterable[Sequence[Memory]], why: RecallReason, *, number: int, scopes_min: int
) -> list[RecalledMemory]:
    """Return the groups that at least `scopes_min` scopes share, the most widespread first.

    The first memory of a group represents all; `number` are shown.
    """
    found: list[RecalledMemory] = []
    for group in groups:
        scopes = tuple(sorted({memory.scope for memory in group}))
        if len(scopes) >= scopes_min:
            found.append(RecalledMemory(group[0], why, scopes=scopes))
    found.sort(key=lambda one: (-len(one.scopes), _urgent_first(one.memory)))
    shown, rest = found[:number], found[number:]
    return [
        *sorted(shown, key=lambda one: _is_tentative(one.memory)),
        *(replace(one, why=RecallReason.BEYOND_NUMBER) for one in rest),
    ]


def block_of_scope(
    scope: ScopeName,
    memories: Sequence[Memory],
    recalled: Sequence[RecalledMemory],
    *,
    count: CountTokens,
    budget: int = BUDGET,
) -> PromptBlock:
    """Return the block of one scope, given all its memories."""
    if not memories:
        nothing = NO_MEMORIES if location_id(scope) is None else FIRST_VISIT
        return _assembled(nothing, (), count=count, budget=budget)
    return _assembled(_heading(scope, memories), recalled, count=count, budget=budget)


def block_of_several(
    prefix: str, recalled: Sequence[RecalledMemory], *, count: CountTokens, budget: int = BUDGET
) -> PromptBlock:
    """Return the block of a scope and all scopes below it."""
    return _assembled(f"Memory of {prefix} and below", recalled, count=count, budget=budget)


def _parted(memories: Iterable[Memory]) -> tuple[list[Memory], list[RecalledMemory]]:
    """Return the live memories, and the others marked as superseded."""
    known = list(memories)
    retired = [RecalledMemory(one, RecallReason.SUPERSEDED) for one in known if not one.live]
    return [one for one in known if one.live], retired


def _without(memories: Iterable[Memory], taken: Iterable[Memory]) -> list[Memory]:
    ids = {memory.id for memory in taken}
    return [memory for memory in memories if memory.id not in ids]


def _is_lasting(memory: Memory) -> bool:
    """Return whether a memory stays worth showing at any age; by default, pinned ones and dangers."""
    if memory.pinned:
        return True
    if memory.persistence is None:
        return _category(memory) == _DANGER
    return memory.persistence is not Persistence.EPHEMERAL


def _is_tentative(memory: Memory) -> bool:
    return memory.status is Standing.TENTATIVE


def _category(memory: Memory) -> str:
    return "" if memory.category is None else memory.category.casefold()


def _urgent_first(memory: Memory, now: datetime | None = None) -> tuple[bool, int, int, float, str]:
    """Return the sort key of the block: active, category rank, times seen, newest."""
    category = _category(memory)
    rank = _CATEGORIES.index(category) if category in _CATEGORIES else len(_CATEGORIES)
    seen_at = believed(memory.last_seen_at, now).timestamp()
    return _is_tentative(memory), rank, -seen(memory), -seen_at, memory.id


def _lasting_first(memory: Memory, now: datetime | None) -> tuple[object, ...]:
    core = memory.pinned or memory.persistence is Persistence.CORE
    return _is_tentative(memory), not core, *_urgent_first(memory, now)


def _newest_first(memory: Memory, now: datetime | None) -> tuple[bool, float, str]:
    seen_at = believed(memory.last_seen_at, now).timestamp()
    return _is_tentative(memory), -seen_at, memory.id


def _heading(scope: ScopeName, memories: Sequence[Memory]) -> str:
    """Return the first line: the name of the place, and its visits and sessions."""
    newest_first = sorted(memories, key=lambda memory: memory.last_seen_at, reverse=True)
    name = next((name for memory in newest_first if (name := _name(memory))), "")
    number = location_id(scope)
    entries = sum(entered(memory.metadata for memory in memories).values())
    told = (whole_number(memory.metadata, _VISITS) or 0 for memory in memories)
    visits = max((entries, *told))
    sessions = len({session for memory in memories for session in memory.sessions})
    if name and number is not None:
        place, session = f"Location Memory for {name} (Location {number})", "episode"
    else:
        place, session = f"Memory of {name} ({scope})" if name else f"Memory of {scope}", "session"
    counts = ", ".join(filter(None, (_plural(visits, "visit"), _plural(sessions, session))))
    return f"{place}: {counts}" if counts else place


def _name(memory: Memory) -> str:
    """Return the place's name from the metadata; empty if it is not a valid name."""
    name = memory.metadata.get(LOCATION_NAME)
    return _one_line(name) if isinstance(name, str) and len(name) <= LABEL_MAX else ""


def _plural(number: int, what: str) -> str:
    if number < 1:
        return ""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _assembled(
    heading: str, recalled: Sequence[RecalledMemory], *, count: CountTokens, budget: int
) -> PromptBlock:
    """Return the block that shows as much as the budget allows, whole memories only.

    Memories are added in order; one that is too long does not exclude a later, shorter one. The
    final text is counted as a whole: some tokenizers give it more tokens than its lines have.
    """
    wanted = [one for one in recalled if one.shown]
    others = [one for one in recalled if not one.shown]
    live = len(wanted) + sum(one.memory.live for one in others)
    if not live and heading not in {FIRST_VISIT, NO_MEMORIES}:
        heading += f"\n{_NOTHING}"
    tokens_min = count(_text(heading, [], live))
    if tokens_min > budget:
        return PromptBlock("", 0, tokens_min, (*map(_left_out, wanted), *others))
    priced = _priced(wanted, count)
    kept = _fitting(priced, budget - count(heading))
    while (tokens := count(text := _text(heading, kept, live))) > budget:
        kept.pop()
    left_out = tuple(_left_out(one) for one in priced if one not in kept)
    shown = _priced(kept, count)
    return PromptBlock(text, tokens, tokens_min, (*shown, *left_out, *others))


def _priced(shown: Sequence[RecalledMemory], count: CountTokens) -> list[RecalledMemory]:
    """Return memories with the lengths of their lines in a block that shows all of them.

    A line whose length is known is counted again only if it may quote what is left out.
    """
    place = _places(shown)
    return [
        replace(one, tokens=count(_line(one, place)))
        if one.tokens is None or one.conflicts
        else one
        for one in shown
    ]


def _fitting(priced: Iterable[RecalledMemory], budget: int) -> list[RecalledMemory]:
    """Return the memories that fit into a budget together, added greedily in order."""
    kept: list[RecalledMemory] = []
    for one in priced:
        tokens = one.tokens or 0
        if tokens <= budget:
            kept.append(one)
            budget -= tokens
    return kept


def _left_out(one: RecalledMemory) -> RecalledMemory:
    return replace(one, why=RecallReason.OVER_BUDGET)


def _text(heading: str, shown: Sequence[RecalledMemory], live: int) -> str:
    """Return the text of a block that shows some of `live` memories."""
    place = _places(shown)
    certain = [_line(one, place) for one in shown if not _is_tentative(one.memory)]
    uncertain = [_line(one, place) for one in shown if _is_tentative(one.memory)]
    lines = [heading, *certain]
    if uncertain:
        lines += [_UNCERTAIN, *uncertain]
    if live > len(shown):
        lines.append(f"({live - len(shown):,} more not shown)")
    return "\n".join(lines)


def _places(shown: Iterable[RecalledMemory]) -> dict[MemoryId, int]:
    """Return the place of each shown memory in the text: tentative ones stand last."""
    ordered = sorted((one.memory for one in shown), key=_is_tentative)
    return {memory.id: at for at, memory in enumerate(ordered)}


def _line(recalled: RecalledMemory, place: Mapping[MemoryId, int]) -> str:
    """Return a memory with all its text on one line, so that no text can imitate another memory."""
    memory = recalled.memory
    category = f"[{memory.category.upper()}] " if memory.category else ""
    title = f"{_one_line(memory.title)}: " if memory.title else ""
    said = [
        _named(recalled.scopes, alike=recalled.why is RecallReason.PATTERN),
        f"seen {times:,}x" if (times := seen(memory)) > 1 else "",
        f"until {memory.valid_until:%Y-%m-%d}" if memory.valid_until else "",
        _contradicted(memory, recalled.conflicts, place),
    ]
    details = ", ".join(filter(None, said))
    line = f"- {category}{title}{_one_line(memory.text)}"
    return f"{line} ({details})" if details else line


def _contradicted(
    memory: Memory, conflicts: Sequence[Memory], place: Mapping[MemoryId, int]
) -> str:
    """Tell when a memory was last seen, and what says otherwise, where something does.

    The lower of two shown memories refers to the other, so that the block has each text once.
    """
    if not conflicts:
        return ""
    at, seen_at = place[memory.id], f"{memory.last_seen_at:%Y-%m-%d}"
    others = [one for one in conflicts if place.get(one.id, -1) < at]
    if not others:
        return seen_at
    above = next((one for one in others if place.get(one.id) == at - 1), None)
    other = _quoted(others[0], place) if above is None else _above(above, memory)
    more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
    return f"{seen_at}; in conflict with {other}{more}"


def _above(above: Memory, memory: Memory) -> str:
    if above.last_seen_at == memory.last_seen_at:
        return "the memory above"
    newer = above.last_seen_at > memory.last_seen_at
    return f"the {'newer' if newer else 'older'} memory above"


def _quoted(other: Memory, shown: Container[MemoryId]) -> str:
    width = _SHOWN_WIDTH if other.id in shown else _CONFLICT_WIDTH
    line = _one_line(other.text)
    cut = line if len(line) <= width else f"{line[: width - 1]}…"
    return f'"{cut}" of {other.last_seen_at:%Y-%m-%d}'


def _named(scopes: Sequence[ScopeName], *, alike: bool) -> str:
    if len(scopes) <= 1:
        return "".join(scopes)
    beyond = ", …" if len(scopes) > _SCOPES_NAMED else ""
    how = "much alike in" if alike else "in"
    return f"{how} {len(scopes):,} scopes: {', '.join(scopes[:_SCOPES_NAMED])}{beyond}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _as_json(one: RecalledMemory) -> dict[str, Any]:
    memory = one.memory
    return {
        "id": memory.id,
        "scope": memory.scope,
        "shown": one.shown,
        "reason": one.why.value,
        "tokens": one.tokens,
        "similarity": one.similarity,
        "scopes": list(one.scopes),
        "status": memory.status.value,
        "category": memory.category,
        "observation_count": memory.observation_count,
        "seen": seen(memory),
        "text": memory.text,
        "wording": one.wording,
        "last_seen_at": _written(memory),
        "conflicts": [
            {"memory_id": other.id, "text": other.text, "last_seen_at": _written(other)}
            for other in one.conflicts
        ],
    }


def _written(memory: Memory) -> str:
    """Return when a memory was last seen, as records have it."""
    return memory.model_dump(mode="json", include={"last_seen_at"})["last_seen_at"]
