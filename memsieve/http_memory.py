"""Memories behind an HTTP API: the operations of a store, asked of `memsieve service api`."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Self, Unpack

from pydantic import BaseModel

from memsieve.errors import InvalidRequest, checked, valid
from memsieve.fields import AboutText, EventFields
from memsieve.http_transport import Caller, error_of, segment
from memsieve.progress import Progress, counted
from memsieve.results import (
    Decision,
    Forgotten,
    Review,
    SearchResult,
    Verdict,
    Version,
    decision_of,
    in_order,
    result_of,
    told_as,
)
from memsieve.rows import BUDGET, LASTING, LIMIT, RECENT, require_several, row_of
from schemas.events import Ended
from streams.api.app import records
from streams.memory.app.outcomes import Outcome
from streams.memory.app.queueing import BATCH_EVENTS
from streams.memory.app.writing import Correction, Fresh
from streams.recall.app.loading import Given, Grouping
from streams.store.app.conflicts import KeptMemory as MemoryRecord

_MEMORIES = "/v1/memories"


class AsyncHttpMemory(Caller):
    """The same, as `HttpMemory`, for one event loop: every method is awaited. Calls may overlap."""

    async def open(self) -> Self:
        """Do nothing: the first request connects."""
        return self

    async def add(self, text: str, *, scope: str, **fields: Unpack[EventFields]) -> Decision:
        """Add a fact, and return the decision. See `Memory.add`."""
        fresh = valid(Fresh, {**fields, "text": text, "scope": scope})
        return decision_of(await self._post(Outcome, _MEMORIES, _given(fresh)))

    async def add_many(
        self,
        rows: Iterable[str | Mapping[str, object]],
        *,
        scope: str | None = None,
        progress: Progress = False,
    ) -> list[Decision]:
        """Add facts in order. See `Memory.add_many`."""
        made = list[Decision]()
        given = _rows(rows, scope)
        with counted(len(given), progress) as done:
            for start in range(0, len(given), BATCH_EVENTS):
                batch = given[start : start + BATCH_EVENTS]
                told = await self._post(records.Results, f"{_MEMORIES}/batch", {"memories": batch})
                made += [_decided(one, at) for at, one in enumerate(told.results, start)]
                done(len(batch))
        return made

    async def publish(
        self, rows: Iterable[str | Mapping[str, object]], *, scope: str | None = None
    ) -> list[records.Result]:
        """Publish facts without waiting for decisions. See `HttpMemory.publish`."""
        made = list[records.Result]()
        given = _rows(rows, scope)
        for start in range(0, len(given), BATCH_EVENTS):
            batch = given[start : start + BATCH_EVENTS]
            made += (await self._post(records.Results, "/v1/events", {"events": batch})).results
        return made

    async def update(
        self, memory_id: str, text: str, *, scope: str | None = None, **fields: Unpack[AboutText]
    ) -> Decision:
        """Give a memory a new text. See `Memory.update`."""
        body = _given(valid(Correction, {**fields, "text": text}))
        return await self._changed("PATCH", _path(memory_id), body, scope)

    async def search(
        self,
        query: str,
        *,
        scope: str | None = None,
        limit: int = LIMIT,
        deduplicate: bool = True,
    ) -> list[SearchResult]:
        """Return the facts nearest to a query. See `Memory.search`; a scope must be named."""
        fields = {
            "query": query,
            "scope": _scope(scope),
            "limit": limit,
            "deduplicate": deduplicate,
        }
        asked = _given(valid(records.Search, fields))
        found = await self._post(records.Found, f"{_MEMORIES}/search", asked)
        _note_hint(found.hint)
        return [result_of(entry) for entry in found.entries]

    async def recall(
        self,
        query: str | None = None,
        *,
        scope: str | None = None,
        budget: int = BUDGET,
        lasting: int = LASTING,
        recent: int = RECENT,
        across: bool = False,
        patterns: bool = False,
    ) -> str:
        """Return the block of a scope for a prompt. See `Memory.recall`; a scope must be named."""
        fields = {
            "query": query,
            "scope": _scope(scope),
            "budget": budget,
            "lasting": lasting,
            "recent": recent,
            "across": across,
            "patterns": patterns,
        }
        asked = _given(valid(records.Recall, fields))
        block = await self._post(records.Block, f"{_MEMORIES}/recall", asked)
        _note_hint(block.hint)
        return block.block

    async def get(self, memory_id: str, *, scope: str | None = None) -> MemoryRecord:
        """Return a memory as it is now. See `Memory.get`."""
        return await self._ask(MemoryRecord, "GET", _path(memory_id), query=_place(scope))

    async def memories(
        self, scope: str | None = None, *, across: bool = False, retired: bool = False
    ) -> list[MemoryRecord]:
        """Return the memories of a scope, or of all. See `Memory.memories`."""
        fields = {"scope": scope, "across": across, "retired": retired}
        asked = {**_given(valid(records.Listed, fields)), "limit": records.LISTED_MAX}
        found, after = list[MemoryRecord](), None
        while True:
            query = {**asked, "after": after}
            part = await self._ask(records.Memories, "GET", _MEMORIES, query=query)
            found += part.memories
            after = part.after
            if after is None:
                return in_order(found)

    async def explain(self, id: str, *, scope: str | None = None) -> list[str]:  # noqa: A002 - what it is
        """Explain a decision, an event or a memory. See `Memory.explain`."""
        path = f"/v1/explain/{segment(id=id)}"
        told = await self._ask(records.Story, "GET", path, query=_place(scope))
        return list(told.story)

    async def history(self, memory_id: str, *, scope: str | None = None) -> list[Version]:
        """Return the versions of a memory. See `Memory.history`."""
        path = _path(memory_id, "history")
        told = await self._ask(records.Life, "GET", path, query=_place(scope))
        return [told_as(Version, one) for one in told.versions]

    async def undo(
        self, decision_id: str, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Undo a decision. See `Memory.undo`."""
        path = f"/v1/decisions/{segment(decision_id=decision_id)}/undo"
        told = await self._post(records.Undone, path, _note(author, note))
        first, *again = told.decisions
        return decision_of(first, *again)

    async def pin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Pin a memory. See `Memory.pin`."""
        return await self._changed("POST", _path(memory_id, "pin"), _note(author, note), scope)

    async def unpin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Unpin a memory. See `Memory.unpin`."""
        return await self._changed("POST", _path(memory_id, "unpin"), _note(author, note), scope)

    async def retire(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        reason: Ended = "invalid",
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Retire a memory without a successor. See `Memory.retire`."""
        asked = valid(records.Retiring, {**_note(author, note), "reason": reason})
        return await self._changed("POST", _path(memory_id, "retire"), _given(asked), scope)

    async def distinct(
        self,
        memory_id: str,
        other_id: str,
        *,
        scope: str | None = None,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Keep two memories that are in conflict. See `Memory.distinct`."""
        asked = valid(records.Telling, {**_note(author, note), "other_id": other_id})
        return await self._changed("POST", _path(memory_id, "distinct"), _given(asked), scope)

    async def rate(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        helpful: int = 0,
        harmful: int = 0,
        accessed: int = 0,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Record how often a memory helped, misled or was read. See `Memory.rate`."""
        counts = {"helpful": helpful, "harmful": harmful, "accessed": accessed}
        asked = valid(records.Rating, {**_note(author, note), **counts})
        return await self._changed("POST", _path(memory_id, "rate"), _given(asked), scope)

    async def reviews(self, scope: str | None = None, *, every: bool = False) -> list[Review]:
        """Return the open questions, newest first. See `Memory.reviews`."""
        asked = _given(valid(records.ListedQuestions, {"scope": scope, "every": every}))
        told = await self._ask(records.QuestionsTold, "GET", "/v1/reviews", query=asked)
        return [told_as(Review, one) for one in told.reviews]

    async def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Answer a question. See `Memory.answer`."""
        asked = valid(records.Settling, {**_note(author, note), "verdict": verdict})
        path = f"/v1/reviews/{segment(review_id=review_id)}/answer"
        return await self._changed("POST", path, _given(asked))

    async def forget(
        self,
        memory_id: str | None = None,
        *,
        scope: str | None = None,
        tenant: str | None = None,
        later: bool = False,
        author: str | None = None,
        note: str = "",
    ) -> Forgotten:
        """Forget a memory. See `Memory.forget`; a scope or a tenant is forgotten by the command.

        The store's files are always rewritten `later`, by `memsieve store scrub`.
        """
        del later
        if memory_id is None or scope is not None or tenant is not None:
            raise InvalidRequest(
                "give a memory_id: a scope or a tenant is not forgotten over HTTP, but by memsieve "
                "forget",
                "memory_id",
            )
        path = _path(memory_id, "forget")
        told = await self._post(records.Forgotten, path, _note(author, note))
        return told_as(Forgotten, told)

    async def decisions(
        self,
        scope: str,
        *,
        kind: records.Kind | None = None,
        limit: int = records.LISTED,
        after: int | None = None,
    ) -> records.Decisions:
        """List the decisions on a scope. See `HttpMemory.decisions`."""
        fields = {"scope": scope, "kind": kind, "limit": limit, "after": after}
        asked = _given(valid(records.ListedDecisions, fields))
        return await self._ask(records.Decisions, "GET", "/v1/decisions", query=asked)

    async def deduplicate(
        self, *, scope: str, ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> Grouping:
        """Group memories or texts by fact. See `HttpMemory.deduplicate`."""
        asked = valid(Given, {"scope": scope, "ids": tuple(ids), "texts": tuple(texts)})
        return await self._post(Grouping, "/v1/memories:deduplicate", _given(asked))

    async def _changed(
        self,
        method: Literal["POST", "PATCH"],
        path: str,
        body: Mapping[str, object],
        scope: str | None = None,
    ) -> Decision:
        told = await self._ask(records.Changes, method, path, query=_place(scope), body=body)
        return decision_of(told.decisions[-1])


def _rows(
    rows: Iterable[str | Mapping[str, object]], scope: str | None
) -> list[Mapping[str, object]]:
    """Return valid rows as the API takes them. Raises InvalidRequest for the first that is not."""
    require_several(rows)
    given = list[Mapping[str, object]]()
    for at, row in enumerate(rows):
        fields = row_of(row, scope, f"rows[{at}]")
        with checked(f"rows[{at}]."):
            given.append(_given(Fresh.model_validate(fields)))
    return given


def _given(record: BaseModel) -> dict[str, object]:
    return record.model_dump(mode="json", exclude_unset=True)


def _scope(named: str | None) -> str:
    if named is None:
        raise InvalidRequest("scope: is missing; over HTTP, name the one that is meant", "scope")
    return named


def _note_hint(hint: str | None) -> None:
    if hint is not None:
        logging.getLogger("memsieve").info(hint)


def _path(memory_id: str, what: str = "") -> str:
    path = f"{_MEMORIES}/{segment(memory_id=memory_id)}"
    return f"{path}/{what}" if what else path


def _place(scope: str | None) -> Mapping[str, object]:
    """Return the query that names the scope of what the path names, if one is given."""
    return {} if scope is None else {"scope": scope}


def _note(author: str | None, note: str) -> dict[str, object]:
    if author is not None:
        raise InvalidRequest(
            "author: over HTTP it is the token's name; leave it out, or use another token", "author"
        )
    return _given(valid(records.Noted, {"note": note}))


def _decided(result: records.Result, at: int) -> Decision:
    """Return the decision on one of several rows. Raises its error."""
    problem = result.problem
    if problem is not None:
        place = f"memories[{at % BATCH_EVENTS}]"
        names = {
            name: None if said is None else said.replace(place, f"rows[{at}]", 1)
            for name, said in (("detail", problem.detail), ("field", problem.field))
        }
        raise error_of(problem.model_copy(update=names))
    if result.outcome is None:
        raise TypeError("a row has neither a decision nor a problem")
    return decision_of(result.outcome)
