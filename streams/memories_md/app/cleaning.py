"""Cleaning of a Memories.md: repairs supersession, and merges duplicates within a location.

Every location is a scope and every live entry an event. They are decided on as in `memsieve run`,
from an empty store and in file order: first only identical wordings, then all. This repeats on the
result until nothing more is found, so cleaning a clean file changes nothing.

An entry that is merged into another stays in the file as retired: no text is lost.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.base import EventId, ModelId, PolicyId
from schemas.codec import Unreadable
from schemas.events import Remember
from streams.consolidate.core.redundancy import Removal, rounded
from streams.memories_md.core.checking import problems
from streams.memories_md.core.entries import (
    Document,
    EntryPosition,
    FileProblem,
    LocatedEntry,
    Location,
    MemoryEntry,
    entries,
    entry_at,
)
from streams.memories_md.core.mapping import event_of
from streams.memories_md.core.supersession import Damage, damages, repaired
from streams.memories_md.core.uniting import ReplacedEntry, Union, unions, united
from streams.model.bands import Bands
from streams.model.merge import contains
from streams.model.policy import Policy
from streams.stage.core.explain import why
from streams.store.app.dry_run import DecidingDependencies, decide_in_memory, for_repeats
from streams.store.app.policies import with_bands

PASSES_MIN = 2
"""How often each entry is decided on at least: among identical wordings, then among all."""
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class CleanedFile:
    """A file before and after cleaning, and why; entries and their lines are those before.

    Entries keep their positions.
    """

    policy: PolicyId
    model: ModelId
    before: Document
    after: Document
    damages: tuple[Damage, ...]
    brought_back: int
    problems: tuple[FileProblem, ...]
    unions: tuple[Union, ...]

    @property
    def changed(self) -> bool:
        return self.after != self.before

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs, with stable keys."""
        before, after = sizes(self.before), sizes(self.after)
        lived, live_on = _by_location(self.before), _by_location(self.after)
        return {
            "policy": self.policy,
            "model": self.model,
            "entries": sum(1 for _ in entries(self.before)),
            "live_before": len(before),
            "brought_back": self.brought_back,
            "removed": sum(len(union.gone) for union in self.unions),
            "live_after": len(after),
            "bytes_before": sum(before),
            "bytes_after": sum(after),
            "reduction_entries": rounded(Removal(len(before), len(after)).removal_rate),
            "reduction_bytes": rounded(Removal(sum(before), sum(after)).removal_rate),
            "locations": [
                {
                    "id": location.id,
                    "name": location.name,
                    "live_before": lived[location.id],
                    "live_after": live_on[location.id],
                    "groups": [_group(one, entry_at(self.after, one.survivor.at)) for one in made],
                }
                for location, made in _united_in(self.unions)
            ],
            "repairs": [
                {
                    "line": one.found.line,
                    "title": one.found.entry.header.title,
                    "kind": one.kind,
                    "why": one.why,
                    "repair": one.repair,
                }
                for one in self.damages
            ],
            "problems": [asdict(problem) for problem in self.problems],
        }


def sizes(document: Document) -> list[int]:
    """Return the bytes of each live entry of a document."""
    return [len(found.entry.written.encode()) for found in entries(document) if found.entry.live]


async def clean(
    document: Document,
    policy: Policy,
    means: DecidingDependencies,
    *,
    world: str,
    done: Callable[[int], None] = lambda _: None,
) -> CleanedFile:
    """Return the result of cleaning a document.

    Location 41 is the scope `world`/41. The policy's brake is off, since a file full of repetitions
    is the use case. `done` receives the number of decisions since its last call: each entry is
    decided on in two passes, and again where its location changed.
    """
    damaged = damages(document)
    mended, refused = repaired(document, damaged)
    lines = {found.at: found for found in entries(document)}
    work = _Work(mended, lines, world)
    known, chosen = means.knowing(), for_repeats(policy)
    of_the_same_words = with_bands(chosen, lambda _: Bands(match=1.0, review=1.0, log=1.0))

    async def decide(asked: Sequence[tuple[LocatedEntry, Remember]], rules: Policy) -> None:
        decided = await decide_in_memory([event for _, event in asked], rules, known, done)
        work.take(unions([found for found, _ in asked], decided))

    await decide(work.open(), of_the_same_words)
    work.reopen()
    while asked := work.open():
        await decide(asked, chosen)
    left = [FileProblem(lines[at].line, message) for at, message in work.left_alone.items()]
    return CleanedFile(
        policy=policy.id,
        model=known.embedder.model,
        before=document,
        after=work.document,
        damages=damaged,
        brought_back=len(sizes(mended)) - len(sizes(document)),
        problems=tuple(
            sorted([*problems(document), *refused, *left], key=lambda problem: problem.line)
        ),
        unions=tuple(work.unions()),
    )


@dataclass
class _Work:
    """A document in progress, and which of its locations are still to be examined.

    `lines` are the entries of the original file.
    """

    document: Document
    lines: dict[EntryPosition, LocatedEntry]
    world: str
    united: dict[EntryPosition, list[ReplacedEntry]] = field(
        default_factory=dict[EntryPosition, list[ReplacedEntry]]
    )
    left_alone: dict[EntryPosition, str] = field(default_factory=dict[EntryPosition, str])
    _changed: set[int] | None = None

    def reopen(self) -> None:
        """Mark all locations to be examined again."""
        self._changed = None

    def open(self) -> list[tuple[LocatedEntry, Remember]]:
        """Return the live entries, as events, of the locations still to be examined."""
        return [
            (found, event)
            for number, found in enumerate(entries(self.document))
            if found.location is not None
            and (self._changed is None or found.location.id in self._changed)
            and found.at not in self.left_alone
            and (event := self._event(number, found)) is not None
        ]

    def take(self, made: Iterable[Union]) -> None:
        """Apply unions to the document; leave entries alone that cannot be written."""
        self._changed = set()
        for union in made:
            if union.survivor.location is not None:
                self._changed.add(union.survivor.location.id)
            self._unite(union)

    def _unite(self, union: Union) -> None:
        try:
            self.document = united(self.document, union)
        except ValueError as error:
            others = (gone.found.at for gone in union.gone)
            refused = f"repeats others, and is left unchanged: {error}"
            self.left_alone |= dict.fromkeys((union.survivor.at, *others), refused)
            return
        members = self.united.setdefault(union.survivor.at, [])
        for gone in union.gone:
            found, by = self.lines[gone.found.at], self.lines[gone.by.at]
            members += [*self.united.pop(found.at, ()), replace(gone, found=found, by=by)]

    def unions(self) -> Iterator[Union]:
        """Yield what all unions came to, in file order."""
        for at in sorted(self.united):
            gone = sorted(self.united[at], key=lambda one: one.found.line)
            yield Union(self.lines[at], entry_at(self.document, at).text, tuple(gone))

    def _event(self, number: int, found: LocatedEntry) -> Remember | None:
        """Return an entry as an unnamed event; later in the file is later in time."""
        try:
            event = event_of(found, world=self.world, at=_BEGINNING + timedelta(seconds=number))
        except Unreadable as error:
            self.left_alone[found.at] = f"it cannot be compared: {error}"
            return None
        if event is None:
            return None
        own = {"event_id": EventId(f"entry-{number}"), "memory_id": None}
        return event.model_copy(update=own)


def _united_in(made: Iterable[Union]) -> Iterable[tuple[Location, list[Union]]]:
    """Return the locations in which entries were united, and what was united there."""
    found: dict[int, tuple[Location, list[Union]]] = {}
    for union in made:
        if (location := union.survivor.location) is not None:
            found.setdefault(location.id, (location, []))[1].append(union)
    return found.values()


def _by_location(document: Document) -> Counter[int]:
    """Count the live entries of each location."""
    return Counter(
        found.location.id
        for found in entries(document)
        if found.location is not None and found.entry.live
    )


def _group(union: Union, now: MemoryEntry) -> dict[str, Any]:
    before = union.survivor.entry
    return {
        "survivor": {
            "line": union.survivor.line,
            "title": before.header.title,
            "text_before": before.text,
            "text_after": now.text,
            "seen": now.meta.seen,
        },
        "members": [_member(one, now.text) for one in union.gone],
    }


def _member(gone: ReplacedEntry, now: str) -> dict[str, Any]:
    """Return a retired entry; `verbatim`: every sentence of it is word for word in the new text."""
    entry, compared = gone.found.entry, gone.compared
    return {
        "line": gone.found.line,
        "title": entry.header.title,
        "text": entry.text,
        "decided_at": gone.by.line,
        "reason": gone.decision.evidence.reason.value,
        "why": why(gone.decision),
        "similarity": None if compared is None else compared.similarity,
        "judge": None if compared is None else compared.judge,
        "verbatim": contains(now, entry.text),
    }
