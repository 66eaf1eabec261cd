"""The routes about decisions: publish events, list, explain and undo decisions, answer questions."""

from http import HTTPStatus
from typing import Annotated

from fastapi import FastAPI, Query, Request

from schemas.base import DecisionName, Label
from streams.api.app.desk import Desk
from streams.api.app.problems import responses
from streams.api.app.records import (
    Changes,
    Decisions,
    Explained,
    ListedDecisions,
    ListedQuestions,
    Noted,
    OneScope,
    Published,
    QuestionsTold,
    Results,
    Settling,
    Story,
    Undone,
    decided,
    explained,
    question_told,
)

_ONE = "/v1/decisions/{decision_id}"


def add_routes(app: FastAPI, desk: Desk) -> None:
    _add_events(app, desk)
    _add_decisions(app, desk)
    _add_reviews(app, desk)


def _add_events(app: FastAPI, desk: Desk) -> None:
    @app.post("/v1/events", summary="Publish events", status_code=HTTPStatus.ACCEPTED)
    async def publish(published: Published, request: Request) -> Results:
        """Publish events without waiting for decisions, each with its own status.

        The status is 200 if the event is decided on already, 202 if it will be, or why it is
        refused; a refused one does not affect the others. An event with a known id is ignored.
        """
        publishing = desk.life.deciding.publish
        return await desk.each(request, "events", published.events, publishing)


def _add_decisions(app: FastAPI, desk: Desk) -> None:
    life = desk.life

    @app.get("/v1/decisions", summary="List decisions", responses=responses(501))
    async def decisions(asked: Annotated[ListedDecisions, Query()], request: Request) -> Decisions:
        """List the decisions on a scope, the newest first, page by page."""
        desk.permit(request, "read", asked.scope, "scope")
        part, after = await life.decisions(asked.scope, asked.kind, asked.limit, asked.after)
        known = await life.contradicted(entry.decision for entry in part)
        told = tuple(decided(entry.decision, asked.scope, known) for entry in part)
        return Decisions(decisions=told, after=after)

    @app.get(_ONE, summary="Get a decision", responses=responses(404, 501))
    async def decision(decision_id: DecisionName, request: Request) -> Explained:
        """Return a decision, by its id or its event's: what was compared, and by which rule."""
        decision, scope = await desk.decision(request, "read", decision_id)
        told = decided(decision, scope, await life.contradicted([decision]))
        return explained(told, decision, await life.story(decision))

    @app.get("/v1/explain/{id}", summary="Explain", responses=responses(404, 501))
    async def explain(id: Label, request: Request, scope: OneScope = None) -> Story:  # noqa: A002 - what it is
        """Explain a decision, an event or a memory, line by line."""
        return Story(story=tuple(await desk.story(request, id, scope)))

    @app.post(f"{_ONE}/undo", summary="Undo", responses=responses(404, 409, 501))
    async def undo(
        decision_id: DecisionName, request: Request, noted: Noted | None = None
    ) -> Undone:
        """Undo a decision, and those that depend on it; an undo can be undone too."""
        meant, _ = await desk.decision(request, "write", decision_id)
        note = (noted or Noted()).note
        done = await life.undo(meant.decision_id, desk.author(request), note)
        plan = done.plan
        return Undone(
            decisions=await life.outcomes(done.responses),
            undone=() if plan is None else plan.request.undoes,
            to_be_looked_at=()
            if plan is None
            else tuple(one.decision_id for one in plan.unsettled),
        )


def _add_reviews(app: FastAPI, desk: Desk) -> None:
    life = desk.life

    @app.get("/v1/reviews", summary="List questions", responses=responses(501))
    async def reviews(
        asked: Annotated[ListedQuestions, Query()], request: Request
    ) -> QuestionsTold:
        """List the questions about a scope, or all: pairs of memories that no judge could settle."""
        if asked.scope is not None:
            desk.permit(request, "read", asked.scope, "scope")
        readable = desk.readable(request)
        wanted = readable if asked.scope is None else asked.scope.__eq__
        here = [one for one in await life.questions() if wanted(one.review.scope)]
        shown = [one for one in here if asked.every or one.state == "open"]
        return QuestionsTold(reviews=tuple(map(question_told, shown)))

    @app.post(
        "/v1/reviews/{review_id}/answer",
        summary="Answer a question",
        responses=responses(404, 409, 501),
    )
    async def answer(review_id: Label, settling: Settling, request: Request) -> Changes:
        """Answer a question: one memory stands for both, the newer one stands, or both are kept."""
        question = await desk.question(request, "write", review_id)
        author = desk.author(request)
        told = await life.answer(question, settling.verdict, author, settling.note)
        return Changes(decisions=await life.outcomes(told))
