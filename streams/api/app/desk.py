"""What every route needs: the operations on memories, and their authorization."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from fastapi import Request
from pydantic import ValidationError

from schemas.base import ScopeName
from schemas.decisions import Decision
from schemas.events import Remember
from schemas.memories import Memory
from streams.api.app.access import Grant, Right
from streams.api.app.problems import Refused
from streams.api.app.records import Result, Results
from streams.memory.app.lifecycle import Lifecycle, require_told, scope_of
from streams.memory.app.outcomes import outcome_of
from streams.memory.app.writing import Fresh, event_of
from streams.model.ports.failures import Poison
from streams.stage.core.reviewing import ReviewQuestion
from streams.store.app.client import Response
from streams.store.app.conflicts import Contradictions
from streams.store.app.failures import DeclinedRequest, DeclineReason
from streams.store.app.reading import only_in
from streams.store.world.metrics import ApiMetrics


@dataclass(frozen=True)
class Desk:
    """Checks the token of a request before anything in a scope is read or changed."""

    life: Lifecycle
    metrics: ApiMetrics

    def author(self, request: Request) -> str:
        """Return the name of the request's token."""
        return _grant(request).name

    def permit(
        self,
        request: Request,
        right: Right,
        scope: ScopeName,
        field: str,
        nobody: DeclinedRequest | None = None,
    ) -> None:
        """Raise Refused if a request lacks the right in a scope.

        `nobody` is raised instead if the token does not cover the scope: what is in it is unknown.
        """
        grant = _grant(request)
        if not grant.covers(scope):
            self.metrics.foreign_scopes.labels(grant.name).inc()
            if nobody is not None:
                raise nobody
        if not grant.allows(right, scope):
            raise Refused.forbidden(grant, right, field)

    def readable(self, request: Request) -> Callable[[ScopeName], bool]:
        """Return what tells whether a request may read a scope."""
        return partial(_grant(request).allows, "read")

    def event(self, request: Request, fresh: Fresh, within: str = "") -> Remember:
        """Return `fresh` as an event. Raises Refused if it is invalid or the request may not add it.

        `within` is its place in the body.
        """
        self.permit(request, "write", fresh.scope, f"{within}.scope" if within else "scope")
        event = event_of(fresh, self.author(request), self.life.clock.now())
        if isinstance(event, Poison):
            raise Refused.poison(event, within)
        return event

    async def each(
        self,
        request: Request,
        place: str,
        given: Sequence[object],
        decide: Callable[[Sequence[Remember]], Awaitable[list[Response]]],
    ) -> Results:
        """Have events decided on; each gets its own status, and a refused one affects no other.

        `place` is the field of the body that has them.
        """
        places = [f"{place}[{at}]" for at in range(len(given))]
        events = [self._checked(request, *one) for one in zip(given, places, strict=True)]
        fit = [event for event in events if isinstance(event, Remember)]
        made = await decide(fit) if fit else []
        told = iter(made)
        known = await self.life.contradicted(one.decision for one in made if one.decision)
        return Results(
            results=tuple(
                _refused(event)
                if isinstance(event, Refused)
                else _result(next(told), known, within)
                for event, within in zip(events, places, strict=True)
            )
        )

    def _checked(self, request: Request, given: object, within: str) -> Remember | Refused:
        try:
            return self.event(request, Fresh.model_validate(given), within)
        except ValidationError as error:
            return Refused.invalid(error, within)
        except Refused as error:
            return error

    async def memory(
        self,
        request: Request,
        right: Right,
        identity: str,
        scope: ScopeName | None = None,
        field: str = "memory_id",
        *,
        forgotten: bool = False,
    ) -> Memory:
        """Return the memory that an id means; one outside the token's scopes is unknown.

        In one scope, if it is named. `field` of the request holds the id. Raises DeclinedRequest if
        it is forgotten, unless `forgotten` ones are wanted, too. To be written otherwise, it is the
        one that stands for an event or a name by now.
        """
        nobody = self.life.unknown("memory", identity, field)
        within = only_in(scope, _grant(request).covers)
        now = right == "write" and not forgotten
        memory = await self.life.any_memory(identity, within, field, now=now)
        self.permit(request, right, memory.scope, field, nobody)
        if scope not in {None, memory.scope}:
            raise nobody
        if not forgotten:
            require_told(memory, field)
        return memory

    async def decision(
        self, request: Request, right: Right, identity: str, within: ScopeName | None = None
    ) -> tuple[Decision, ScopeName]:
        """Return the decision that an id means, and its scope; outside the token's it is unknown.

        `within` is the one scope that it is looked for in, if any.
        """
        decision = await self.life.decision(identity, only_in(within, _grant(request).covers))
        scope, nobody = scope_of(decision), self.life.unknown("decision", identity)
        if scope is None or within not in {None, scope}:
            raise nobody
        self.permit(request, right, scope, "decision_id", nobody)
        return decision, scope

    async def story(self, request: Request, identity: str, scope: ScopeName | None) -> list[str]:
        """Explain what an id means, line by line; what is outside the token's scopes is unknown.

        In one scope, if it is named.
        """
        if not (
            await _is_known(self.decision(request, "read", identity, scope))
            or await _is_known(self.memory(request, "read", identity, scope))
        ):
            raise self.life.unknown("decision, event or memory", identity)
        return await self.life.explain(identity, only_in(scope, _grant(request).covers))

    async def question(self, request: Request, right: Right, identity: str) -> ReviewQuestion:
        """Return a review question; one outside the token's scopes is unknown."""
        nobody = self.life.unknown("question", identity)
        question = await self.life.question(identity)
        self.permit(request, right, question.review.scope, "review_id", nobody)
        return question


def _grant(request: Request) -> Grant:
    grant: Grant = request.state.grant
    return grant


async def _is_known(asked: Awaitable[object]) -> bool:
    """Return whether there is what is asked for. Raises if it may not be told."""
    try:
        await asked
    except DeclinedRequest as error:
        if error.why is not DeclineReason.UNKNOWN:
            raise
        return False
    return True


def _result(told: Response, known: Contradictions, within: str) -> Result:
    if told.refused is not None:
        return _refused(Refused.poison(told.refused, within))
    status = HTTPStatus.ACCEPTED if told.decision is None else HTTPStatus.OK
    return Result(status=status, outcome=outcome_of(told, known))


def _refused(refused: Refused) -> Result:
    return Result(status=refused.status, problem=refused.problem)
