"""The tools over a store: what each does and answers, in words that a model understands."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from pydantic import ValidationError

from schemas.base import (
    Count,
    DecisionId,
    EventName,
    MemoryId,
    Moment,
    Record,
    ScopeName,
)
from schemas.memories import Memory
from streams.api.app.access import Right
from streams.api.app.records import version_told
from streams.changes.core.history import MemoryVersion
from streams.forget.app.forgetting import ForgetTarget
from streams.mcp.app.arguments import (
    Disputing,
    Explaining,
    Forgetting,
    OfMemory,
    Recalling,
    Remembering,
    Retiring,
    Searching,
    Telling,
    Undoing,
    Updating,
)
from streams.memory.app.lifecycle import Lifecycle, require_block, scope_of
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.outcomes import Outcome
from streams.memory.app.problems import first_problem
from streams.memory.app.writing import Correction
from streams.recall.app import loading, recalling
from streams.recall.app.loading import ShownEntry
from streams.store.app.client import Response
from streams.store.app.conflicts import Conflict, Contradicted
from streams.store.app.failures import UsageError
from streams.store.app.reading import only_in

AUTHOR = "mcp"
"""Who asks for what a tool changes, where the settings name nobody."""

May: TypeAlias = Callable[[Right, ScopeName], bool]
"""Tells whether who calls may do that in a scope."""


class Decided(Record):
    """What was decided, and why.

    `kind` is insert (new), reinforce (known already), merge (joined with what was known), replace
    (took the place of what was known), ignore (this event was decided before), block (must not be
    kept) or, for a change that was asked for, revise. `contradicts` are memories that it
    contradicts, with how sure that is; if it did not replace them, ask which is right.
    """

    decision_id: DecisionId
    kind: str
    why: str
    effect: str
    memory_id: MemoryId | None
    text: str | None
    contradicts: tuple[Contradicted, ...]


class Statement(Record):
    """What a memory says, and when that was last said."""

    memory_id: MemoryId
    text: str
    last_seen_at: Moment


class Fact(Record):
    """One fact that was found: `wordings` are others of it, `memory_ids` all that say it.

    `conflicts` are memories that contradict it, the newest first; none of them is known to be wrong.
    """

    text: str
    score: float
    memory_id: MemoryId
    memory_ids: tuple[MemoryId, ...]
    wordings: tuple[str, ...]
    last_seen_at: Moment
    conflicts: tuple[Statement, ...]


class Found(Record):
    """The facts that are nearest to the query, nearest first.

    `degraded` says who should have told whether near memories are one fact, and did not.
    """

    entries: tuple[Fact, ...]
    degraded: tuple[str, ...]


class Dispute(Record):
    """Two memories that cannot both be true now."""

    newer: Statement
    older: Statement


class Disputes(Record):
    """The conflicts of a scope, the newest first; `total` counts those beyond the limit as well."""

    conflicts: tuple[Dispute, ...]
    total: Count


class Version(Record):
    """What a memory said from then on, and why; `undone_by` is what took that back."""

    version: Count
    text: str
    occurred_at: Moment
    kind: str
    why: str
    by: str | None
    decision_id: DecisionId
    undone_by: DecisionId | None


class Story(Record):
    """Why something was decided, line by line."""

    story: tuple[str, ...]


class Life(Record):
    """The versions of a memory, oldest first."""

    versions: tuple[Version, ...]


class Forgotten(Record):
    """The memories that are gone, and the events that were decided again without them."""

    memory_ids: tuple[MemoryId, ...]
    decided_again: tuple[EventName, ...]


Answer: TypeAlias = Record | str


@dataclass(frozen=True)
class Call:
    """One call: the store, and what who calls may do in it."""

    store: MemoryStore
    author: str
    may: May

    def require(self, right: Right, scope: ScopeName) -> None:
        """Raise UsageError where who calls may not do that in a scope that it names."""
        if not self.may(right, scope):
            raise UsageError(f"scope: you may not {right} this scope")

    async def memory(
        self,
        life: Lifecycle,
        right: Right,
        asked: OfMemory,
        identity: str | None = None,
        *,
        now: bool = False,
    ) -> Memory:
        """Return the memory that is meant, or another of its scope, in the scopes of who calls.

        `now` is as for `Lifecycle.any_memory`.
        """
        within = only_in(asked.scope, partial(self.may, right))
        return await life.memory(identity or asked.memory_id, within, now=now)

    async def change(
        self, asked: OfMemory, change: Callable[[Lifecycle, Memory], Awaitable[Sequence[Response]]]
    ) -> Decided:
        """Have a change of a memory decided on."""

        async def changed(life: Lifecycle) -> Sequence[Response]:
            return await change(life, await self.memory(life, "write", asked, now=True))

        return _decided((await self.store.change(changed))[-1])


@dataclass(frozen=True)
class Tool:
    """A tool as a model sees it, and what it does."""

    name: str
    title: str
    description: str
    takes: type[Record]
    answers: type[Record] | None
    run: Callable[[Call, Any], Awaitable[Answer]]
    changes: bool = False
    destroys: bool = False

    def parameters(self, fixed: ScopeName | None) -> dict[str, Any]:
        """Return the JSON Schema of its arguments; a fixed scope is none of them."""
        schema = self.takes.model_json_schema()
        schema.pop("description")
        if fixed is not None and "scope" in schema["properties"]:
            del schema["properties"]["scope"]
            schema["required"] = [one for one in schema["required"] if one != "scope"]
        return schema

    def result(self) -> dict[str, Any] | None:
        """Return the JSON Schema of its answer; None for one in plain words."""
        return (
            None if self.answers is None else self.answers.model_json_schema(mode="serialization")
        )

    def checked(self, given: Mapping[str, object], fixed: ScopeName | None) -> Record:
        """Return the arguments. Raises UsageError, naming the first that is wrong."""
        if fixed is not None and "scope" in self.takes.model_fields:
            if given.get("scope", fixed) != fixed:
                raise UsageError(f"scope: this server has the one scope {fixed}; leave it out")
            given = {**given, "scope": fixed}
        try:
            return self.takes.model_validate(given)
        except ValidationError as error:
            unknown = f"is not an argument of {self.name}; leave it out"
            field, said = first_problem(error, unknown)
            raise UsageError(f"{field}: {said}" if field else said) from None


async def _remember(call: Call, asked: Remembering) -> Decided:
    call.require("write", asked.scope)
    [told] = await call.store.add([call.store.event(asked.model_dump(exclude_none=True))])
    return _decided(told)


async def _recall(call: Call, asked: Recalling) -> str:
    call.require("read", asked.scope)
    async with call.store.reading() as life:
        block, _ = await life.recall(recalling.RecallRequest.model_validate(asked.model_dump()))
    require_block(block, asked.budget)
    return block.text


async def _search(call: Call, asked: Searching) -> Found:
    call.require("read", asked.scope)
    wanted = loading.SearchRequest.model_validate(asked.model_dump())
    async with call.store.reading() as life:
        found = await life.loading.search(wanted)
    return Found(entries=tuple(map(_fact, found.entries)), degraded=found.degraded)


async def _conflicts(call: Call, asked: Disputing) -> Disputes:
    call.require("read", asked.scope)
    async with call.store.reading() as life:
        memories, _ = await life.listed(asked.scope, retired=False)
    pairs = {
        tuple(sorted((_stated(memory), _statement(conflict)), key=_age))
        for memory in memories
        for conflict in memory.conflicts
    }
    found = [Dispute(newer=newer, older=older) for older, newer in pairs]
    found.sort(key=lambda one: (_age(one.newer), _age(one.older)), reverse=True)
    return Disputes(conflicts=tuple(found[: asked.limit]), total=len(found))


async def _explain(call: Call, asked: Explaining) -> Story:
    within = only_in(asked.scope, partial(call.may, "read"))
    async with call.store.reading() as life:
        return Story(story=tuple(await life.explain(asked.id, within)))


async def _history(call: Call, asked: OfMemory) -> Life:
    async with call.store.reading() as life:
        told = await life.history((await call.memory(life, "read", asked)).id)
    return Life(versions=tuple(map(_version, told.versions)))


async def _update(call: Call, asked: Updating) -> Decided:
    said = asked.model_dump(exclude_none=True, exclude={"memory_id", "scope"})
    correction = Correction.model_validate(said)

    return await call.change(
        asked, lambda life, memory: life.update(memory, correction, lambda: call.author)
    )


async def _retire(call: Call, asked: Retiring) -> Decided:
    return await call.change(
        asked, lambda life, memory: life.retire(memory, call.author, asked.note, asked.reason)
    )


async def _distinct(call: Call, asked: Telling) -> Decided:
    async def kept_both(life: Lifecycle, memory: Memory) -> Sequence[Response]:
        other = await call.memory(life, "write", asked, asked.other_id, now=True)
        return await life.distinct(memory, other, call.author, asked.note)

    return await call.change(asked, kept_both)


async def _forget(call: Call, asked: Forgetting) -> Forgotten:
    async with call.store.reading() as life:
        wanted = ForgetTarget(memory=(await call.memory(life, "write", asked)).id)
    forgot = await call.store.forget(wanted, call.author, asked.note, later=False)
    return Forgotten(memory_ids=forgot.memory_ids, decided_again=forgot.decided_again)


async def _undo(call: Call, asked: Undoing) -> Decided:
    async def undone(life: Lifecycle) -> Sequence[Response]:
        decision = await life.decision(asked.decision_id, partial(call.may, "write"))
        scope = scope_of(decision)
        if scope is None or not call.may("write", scope):
            raise life.unknown("decision", asked.decision_id)
        return (await life.undo(decision.decision_id, call.author, asked.note)).responses

    first, *_ = await call.store.change(undone)
    return _decided(first)


def _decided(told: Outcome) -> Decided:
    made = told.of_this_event()
    named = {"text": made.memory_text, **dict(made)}
    return Decided.model_validate({name: named[name] for name in Decided.model_fields})


def _fact(entry: ShownEntry) -> Fact:
    against = {one.memory_id: one for member in entry.members for one in member.conflicts}
    return Fact(
        text=entry.text,
        score=round(entry.score, 4),
        memory_id=entry.memory_ids[0],
        memory_ids=entry.memory_ids,
        wordings=entry.wordings,
        last_seen_at=entry.last_seen_at,
        conflicts=tuple(_statement(one) for one in against.values()),
    )


def _statement(conflict: Conflict) -> Statement:
    return Statement(**dict(conflict))


def _stated(memory: Memory) -> Statement:
    return Statement(memory_id=memory.id, text=memory.text, last_seen_at=memory.last_seen_at)


def _age(said: Statement) -> tuple[datetime, MemoryId]:
    """Return what orders statements by when they were last seen, also those seen at one time."""
    return said.last_seen_at, said.memory_id


def _version(version: MemoryVersion) -> Version:
    told = dict(version_told(version))
    return Version.model_validate({name: told[name] for name in Version.model_fields})


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "remember",
            "Remember a fact",
            "Store one fact for later. It is compared with the known facts of its scope, and the "
            "answer says what was decided and why: it is new (insert), already known (reinforce), "
            "merged with a known fact (merge), or newer than what it contradicts (replace). Call "
            "it once for each fact that will matter later; repeats do no harm.",
            Remembering,
            Decided,
            _remember,
            changes=True,
        ),
        Tool(
            "recall",
            "Recall for a prompt",
            "Return the memories of a scope as a short block of text for a prompt. Call it when a "
            "conversation or a task begins, or with a query when a subject comes up.",
            Recalling,
            None,
            _recall,
        ),
        Tool(
            "search",
            "Search memories",
            "Find the facts of a scope that are closest to a question, with their ids. Memories "
            "of one fact come as one result. The closest facts are returned even if none is "
            "about the question: check the scores and texts. `conflicts` of a fact are memories "
            "that contradict it: do not rely on either without asking.",
            Searching,
            Found,
            _search,
        ),
        Tool(
            "conflicts",
            "List contradictions",
            "List the pairs of memories of a scope that cannot both be true now: both texts, when "
            "each was last said, and which is the newer. Ask which is right, then `update` or "
            "`retire` what is wrong; if both are right, call `distinct`.",
            Disputing,
            Disputes,
            _conflicts,
        ),
        Tool(
            "explain",
            "Explain a decision or a memory",
            "Show, line by line, why something was decided: what it was compared with, and by "
            "which rule; or how a memory reached its current state.",
            Explaining,
            Story,
            _explain,
        ),
        Tool(
            "history",
            "Show a memory's history",
            "Return every version of a memory, oldest first, with the decision that made it.",
            OfMemory,
            Life,
            _history,
        ),
        Tool(
            "update",
            "Correct a memory",
            "Give a memory a new text, without comparing it with others; its history keeps the old "
            "one. Use it when you know which memory is wrong; if you only learn something new, "
            "`remember` it.",
            Updating,
            Decided,
            _update,
            changes=True,
        ),
        Tool(
            "retire",
            "Retire a memory",
            "End a memory that is not true or needed any more, where nothing takes its place. It "
            "is no longer found; `undo` brings it back.",
            Retiring,
            Decided,
            _retire,
            changes=True,
        ),
        Tool(
            "distinct",
            "Keep two memories",
            "Keep two memories that are in conflict though both are right, such as facts about "
            "two things. They are no longer listed as in conflict, and never merged; `undo` takes "
            "that back.",
            Telling,
            Decided,
            _distinct,
            changes=True,
        ),
        Tool(
            "forget",
            "Forget a memory",
            "Erase a memory and all that it stands for from every file, and keep it from coming "
            "back. This cannot be undone. Use it when somebody asks to be forgotten; to correct a "
            "fact, `update` it, to end it, `retire` it, and to take back a decision, `undo` it.",
            Forgetting,
            Forgotten,
            _forget,
            changes=True,
            destroys=True,
        ),
        Tool(
            "undo",
            "Undo a decision",
            "Undo a decision: its memories are restored, and later decisions that changed the "
            "same memories are made again. An undo can be undone by its own id.",
            Undoing,
            Decided,
            _undo,
            changes=True,
        ),
    )
}
