"""The views to explore scopes, memories and their histories, conflicts, decisions."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from pydantic import Field

from schemas.base import DecisionName, MemoryName, Record, Scope, ScopeName, Text
from schemas.decisions import KINDS, Marker, Reason
from streams.api.app.access import Grant
from streams.api.app.desk import Desk
from streams.recall.app.loading import SearchRequest
from streams.stage.core.ledger import touched
from streams.store.app.conflicts import KeptMemory
from streams.web.app.chronicle import CONTRADICTION, Chronicle, ChronicleLine
from streams.web.app.doubts import Doubts, PairFilter
from streams.web.app.forms import Below, session_of
from streams.web.app.pages import page
from streams.web.app.words import compared

_LISTED = 50
_SCOPES = 500
_FOUND = 20


class DecisionFilter(Record):
    """Which decisions: at and below a scope, of one kind, for one reason, behind a place of the list."""

    scope: Below = ""
    kind: Annotated[str, Field(max_length=20)] = ""
    reason: Reason | Literal[""] = ""
    older: Annotated[int, Field(ge=0)] = 0


class MemoryQuery(Record):
    """Which memories of a scope: what is nearest to a query, else in the order of their age."""

    scope: Scope | Literal[""] = ""
    query: Text | Literal[""] = ""
    after: Annotated[str, Field(max_length=2_000)] = ""
    retired: bool = False


@dataclass(frozen=True)
class ScopeSummary:
    """A scope, its live memories, how much was decided on it, and what it heard last."""

    scope: ScopeName
    memories: int
    decisions: int
    last: datetime | None


def add_routes(app: FastAPI, desk: Desk, chronicle: Chronicle, doubts: Doubts) -> None:
    _add_memories(app, desk, chronicle)
    _add_decisions(app, desk, chronicle)
    _add_conflicts(app, doubts)


def _add_memories(app: FastAPI, desk: Desk, chronicle: Chronicle) -> None:
    life = desk.life

    @app.get("/scopes")
    async def scopes(request: Request, below: Below = "") -> Response:
        """List the scopes."""
        told = _scopes(await chronicle.level(), session_of(request).grant, below)
        return page(
            request, "scopes.html", "Scopes", scopes=told[:_SCOPES], below=below, every=len(told)
        )

    @app.get("/memories")
    async def memories(request: Request, sought: Annotated[MemoryQuery, Query()]) -> Response:
        """List a scope's memories, or search it."""
        found, listed, after = None, list[KeptMemory](), None
        if sought.scope:
            desk.permit(request, "read", sought.scope, "scope")
        if sought.scope and sought.query:
            asked = SearchRequest(scope=sought.scope, query=sought.query, limit=_FOUND)
            found = await life.loading.search(asked)
        elif sought.scope:
            start = sought.after or None
            listed, after = await life.listed(sought.scope, _LISTED, start, retired=sought.retired)
        own = _scopes(await chronicle.level(), session_of(request).grant, "")[:_SCOPES]
        return page(
            request,
            "memories.html",
            "Memories",
            sought=sought,
            found=found,
            listed=listed,
            after=after,
            scopes=own,
        )

    @app.get("/memories/{memory_id}")
    async def memory(memory_id: MemoryName, request: Request) -> Response:
        """Tell a memory's life."""
        await desk.memory(request, "read", memory_id)
        told = await life.history(memory_id)
        changes = [
            (version, *compared(version.memory.text, version.before.text if version.before else ""))
            for version in reversed(told.versions)
        ]
        return page(request, "memory.html", "Memory", told=told, changes=changes)


def _add_decisions(app: FastAPI, desk: Desk, chronicle: Chronicle) -> None:
    @app.get("/decisions")
    async def decisions(request: Request, wanted: Annotated[DecisionFilter, Query()]) -> Response:
        """List the decisions, the newest first."""
        known = await chronicle.level()
        fitting = _fitting(known, session_of(request).grant, wanted)
        lines = list(islice(fitting, wanted.older, wanted.older + _LISTED + 1))
        told = [(line, await known.decision(line)) for line in lines]
        return page(
            request,
            "decisions.html",
            "Decisions",
            told=told[:_LISTED],
            wanted=wanted,
            kinds=KINDS,
            reasons=sorted(Reason),
            next=wanted.older + _LISTED if len(lines) > _LISTED else None,
        )

    @app.get("/decisions/{decision_id}")
    async def explain(decision_id: DecisionName, request: Request) -> Response:
        """Tell why something was decided."""
        decision, scope = await desk.decision(request, "read", decision_id)
        near = () if isinstance(decision, Marker) else decision.evidence.neighbours
        index = await desk.life.loading.index()
        held = await index.get([*touched(decision), *(one.memory_id for one in near)])
        return page(
            request,
            "decision.html",
            "Decision",
            decision=decision,
            scope=scope,
            event=None if isinstance(decision, Marker) else decision.event,
            story=await desk.life.story(decision),
            near=[(one, held.get(one.memory_id)) for one in near],
            changed=touched(decision),
        )


def _add_conflicts(app: FastAPI, doubts: Doubts) -> None:
    @app.get("/conflicts")
    async def conflicts(request: Request, below: Below = "") -> Response:
        """List memories that contradict each other, and are both live."""
        open_ = await doubts.open(PairFilter(session_of(request).grant, below, CONTRADICTION))
        told = [
            (one, *compared(one.review.newer.text, one.review.older.text))
            async for one in doubts.asked(open_[:_LISTED])
        ]
        return page(
            request, "conflicts.html", "Conflicts", told=told, below=below, every=len(open_)
        )


def _scopes(known: Chronicle, grant: Grant, below: str) -> list[ScopeSummary]:
    """Return the scopes that a token may read, by name."""
    decided = Counter[ScopeName]()
    last: dict[ScopeName, datetime] = {}
    for line in known.lines:
        decided[line.scope] += 1
        if line.at is not None:
            last[line.scope] = max(line.at, last.get(line.scope, line.at))
    return [
        ScopeSummary(scope, len(known.live.get(scope, ())), decided[scope], last.get(scope))
        for scope in sorted({*known.live, *decided})
        if grant.shows(scope, below)
    ]


def _fitting(known: Chronicle, grant: Grant, wanted: DecisionFilter) -> Iterator[ChronicleLine]:
    """Yield the decisions that are to be shown, the newest first."""
    for line in reversed(known.lines):
        fits = wanted.kind in {"", line.kind} and wanted.reason in {"", line.reason}
        if fits and grant.shows(line.scope, wanted.scope):
            yield line
