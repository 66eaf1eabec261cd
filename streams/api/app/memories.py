"""The routes about memories: add, read, search, correct, pin, retire, rate, forget."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response

from schemas.base import MemoryName, Record
from streams.api.app.desk import Desk
from streams.api.app.problems import Described, Refused, responses
from streams.api.app.records import (
    AncestorTold,
    Batch,
    Block,
    Changes,
    Forgotten,
    Found,
    Life,
    Listed,
    Memories,
    Noted,
    OneScope,
    Rating,
    Recall,
    Results,
    Retiring,
    Search,
    Telling,
    version_told,
)
from streams.forget.app.forgetting import ForgetTarget
from streams.memory.app.lifecycle import require_block
from streams.memory.app.outcomes import Outcome
from streams.memory.app.writing import Correction, Fresh
from streams.recall.app.loading import Given, Grouping, UnknownMemory
from streams.store.app import client
from streams.store.app.conflicts import KeptMemory

_ONE = "/v1/memories/{memory_id}"


def add_routes(app: FastAPI, desk: Desk) -> None:
    _add_adding(app, desk)
    _add_reading(app, desk)
    _add_one(app, desk)
    _add_changing(app, desk)


def _add_adding(app: FastAPI, desk: Desk) -> None:
    life = desk.life

    @app.post("/v1/memories", summary="Add one", responses=_accepted(Outcome) | responses(409))
    async def add(fresh: Fresh, request: Request, response: Response) -> Outcome:
        """Add a memory; the answer has the decision, its reason and the resulting memory."""
        told = await life.deciding.decide([desk.event(request, fresh)])
        changes = await _all(desk, told, response)
        return changes.decisions[0]

    @app.post("/v1/memories/batch", summary="Add many")
    async def add_many(given: Batch, request: Request) -> Results:
        """Add many memories, each with its own status; a refused one does not affect the others."""
        return await desk.each(request, "memories", given.memories, life.deciding.decide)


def _add_reading(app: FastAPI, desk: Desk) -> None:
    life = desk.life

    @app.get("/v1/memories", summary="List memories")
    async def memories(asked: Annotated[Listed, Query()], request: Request) -> Memories:
        """List the memories of a scope, or of all that the token may read, page by page."""
        if asked.scope is not None:
            desk.permit(request, "read", asked.scope, "scope")
        readable, has = desk.readable(request), asked.has
        part, after = await life.listed(
            asked.only,
            asked.limit,
            asked.after,
            retired=asked.retired,
            within=lambda scope: has(scope) and readable(scope),
        )
        hint = None
        if asked.scope is not None and not part and asked.after is None:
            hint = await life.hint(asked.scope, has, readable)
        return Memories(memories=tuple(part), after=after, hint=hint)

    @app.post("/v1/memories/search", summary="Search a scope")
    async def search(asked: Search, request: Request) -> Found:
        """Return the memories nearest to the query; memories of one fact come as one entry."""
        desk.permit(request, "read", asked.scope, "scope")
        found, hint = await life.loading.search(asked), None
        if not found.entries:
            hint = await life.hint(asked.scope, asked.scope.__eq__, desk.readable(request))
        return Found(**dict(found), hint=hint)

    @app.post("/v1/memories/recall", summary="Recall a block for a prompt")
    async def recall(asked: Recall, request: Request) -> Block:
        """Return the memories that an agent needs, as a block for its prompt."""
        desk.permit(request, "read", asked.scope, "scope")
        block, hint = await life.recall(asked, desk.readable(request))
        require_block(block, asked.budget)
        return Block.model_validate({**block.as_json(), "hint": hint})

    @app.post(
        "/v1/memories:deduplicate",
        summary="Merge memories of one fact",
        responses=responses(404),
    )
    async def deduplicate(given: Given, request: Request) -> Grouping:
        """Group memories of the scope, or any texts, by fact. Nothing is changed or stored."""
        desk.permit(request, "read", given.scope, "scope")
        try:
            return await life.loading.deduplicate(given)
        except UnknownMemory as error:
            raise Refused(HTTPStatus.NOT_FOUND, str(error), field="ids") from error


def _add_one(app: FastAPI, desk: Desk) -> None:
    life = desk.life
    errors = _accepted(Changes) | responses(404, 409, 410)

    @app.get(_ONE, summary="Get one", responses=responses(404, 410))
    async def get(memory_id: MemoryName, request: Request, scope: OneScope = None) -> KeptMemory:
        """Return a memory, even if it was retired: it then says by what, when and why.

        `conflicts` are the live memories that contradict it.
        """
        return await life.kept(await desk.memory(request, "read", memory_id, scope))

    @app.get(f"{_ONE}/history", summary="Show its history", responses=responses(404, 410, 501))
    async def history(memory_id: MemoryName, request: Request, scope: OneScope = None) -> Life:
        """Show every version of a memory, with its author, reason and sources."""
        memory = await desk.memory(request, "read", memory_id, scope)
        told = await life.history(memory.id)
        return Life(
            memory=told.memory,
            versions=tuple(map(version_told, told.versions)),
            ancestors=tuple(AncestorTold(steps=a.steps, memory=a.memory) for a in told.ancestors),
            successors=tuple(told.successors),
        )

    @app.patch(_ONE, summary="Update", responses=errors)
    async def update(
        memory_id: MemoryName,
        correction: Correction,
        request: Request,
        response: Response,
        scope: OneScope = None,
    ) -> Changes:
        """Give a memory a new text; its history keeps the old one.

        A memory that was added with a name, or here, keeps its id. Any other is retired, and a new
        one replaces it. To reverse the change, undo the first of the decisions.
        """
        memory = await desk.memory(request, "write", memory_id, scope)
        told = await life.update(memory, correction, lambda: desk.author(request))
        changes = await _all(desk, told, response)
        if len(changes.decisions) == 1:
            return changes
        first, second = changes.decisions  # the second made the change that the first was refused
        return Changes(decisions=(first.model_copy(update={"refused": ()}), second))


def _add_changing(app: FastAPI, desk: Desk) -> None:
    life = desk.life
    errors = _accepted(Changes) | responses(404, 409, 410)

    @app.post(f"{_ONE}/pin", summary="Pin", responses=errors)
    async def pin(
        memory_id: MemoryName,
        request: Request,
        response: Response,
        noted: Noted | None = None,
        scope: OneScope = None,
    ) -> Changes:
        """Pin a memory: it is not merged, replaced or retired."""
        memory = await desk.memory(request, "write", memory_id, scope)
        note = (noted or Noted()).note
        return await _all(
            desk, await life.pin(memory, desk.author(request), note, pinned=True), response
        )

    @app.post(f"{_ONE}/unpin", summary="Unpin", responses=errors)
    async def unpin(
        memory_id: MemoryName,
        request: Request,
        response: Response,
        noted: Noted | None = None,
        scope: OneScope = None,
    ) -> Changes:
        """Unpin a memory: it may be merged, replaced and retired again."""
        memory = await desk.memory(request, "write", memory_id, scope)
        note = (noted or Noted()).note
        return await _all(
            desk, await life.pin(memory, desk.author(request), note, pinned=False), response
        )

    @app.post(f"{_ONE}/retire", summary="Retire", responses=errors)
    async def retire(
        memory_id: MemoryName,
        request: Request,
        response: Response,
        why: Retiring | None = None,
        scope: OneScope = None,
    ) -> Changes:
        """Retire a memory without a successor. Nothing is deleted: an undo restores it."""
        memory = await desk.memory(request, "write", memory_id, scope)
        asked = why or Retiring()
        told = await life.retire(memory, desk.author(request), asked.note, asked.reason)
        return await _all(desk, told, response)

    @app.post(f"{_ONE}/distinct", summary="Keep two", responses=errors)
    async def distinct(
        memory_id: MemoryName,
        telling: Telling,
        request: Request,
        response: Response,
        scope: OneScope = None,
    ) -> Changes:
        """Keep two memories that are in conflict: both are right, and are never merged."""
        memory = await desk.memory(request, "write", memory_id, scope)
        other = await desk.memory(request, "write", telling.other_id, scope, "other_id")
        told = await life.distinct(memory, other, desk.author(request), telling.note)
        return await _all(desk, told, response)

    @app.post(f"{_ONE}/rate", summary="Rate", responses=errors)
    async def rate(
        memory_id: MemoryName,
        rating: Rating,
        request: Request,
        response: Response,
        scope: OneScope = None,
    ) -> Changes:
        """Record how often a memory helped, misled or was read since the last call."""
        memory = await desk.memory(request, "write", memory_id, scope)
        told = await life.rate(memory, desk.author(request), rating.note, rating.counts)
        return await _all(desk, told, response)

    @app.post(f"{_ONE}/forget", summary="Forget", responses=responses(404, 409, 501))
    async def forget(
        memory_id: MemoryName, request: Request, noted: Noted | None = None, scope: OneScope = None
    ) -> Forgotten:
        """Forget a memory and all that it stands for. This cannot be undone."""
        memory = await desk.memory(request, "write", memory_id, scope, forgotten=True)
        note = (noted or Noted()).note
        done = await life.forget(ForgetTarget(memory=memory.id), desk.author(request), note)
        return Forgotten(
            decisions=await life.outcomes(done.responses),
            memory_ids=done.memory_ids,
            decided_again=done.decided_again,
            records=done.records,
        )


def _accepted(model: type[Record]) -> Described:
    """Describe the answer when a cluster has not decided yet."""
    return {HTTPStatus.ACCEPTED: {"model": model, "description": "Not decided yet"}}


async def _all(desk: Desk, told: Sequence[client.Response], response: Response) -> Changes:
    """Return the outcomes of events, with status 202 if one is not decided yet."""
    if any(one.refused is None and one.decision is None for one in told):
        response.status_code = HTTPStatus.ACCEPTED
    return Changes(decisions=await desk.life.outcomes(told))
