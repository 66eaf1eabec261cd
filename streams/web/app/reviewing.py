"""The view to answer reviews, one pair after the other, by keyboard."""

from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, get_args

from fastapi import FastAPI, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from schemas.base import Record
from schemas.events import Answer
from streams.api.app.desk import Desk
from streams.api.app.problems import Refused
from streams.stage.core.reviewing import ReviewQuestion
from streams.store.app.failures import DeclinedRequest, DeclineReason
from streams.web.app.chronicle import DoubtfulPair
from streams.web.app.doubts import Doubts, PairFilter
from streams.web.app.forms import Below, OwnForm, session_of
from streams.web.app.pages import address, page
from streams.web.app.sessions import TrailStep
from streams.web.app.words import Run, compared

_VERDICTS = get_args(Answer.model_fields["verdict"].annotation)
_SKIP = "skip"


class Choice(Record):
    """Which pairs are looked at."""

    scope: Below = ""
    reason: Annotated[str, Field(max_length=200)] = ""


Chosen = Annotated[Choice, Query()]


def add_routes(app: FastAPI, desk: Desk, doubts: Doubts) -> None:
    @app.get("/review")
    async def review(request: Request, chosen: Chosen) -> Response:
        """Show the next pair that is in doubt."""
        session = session_of(request)
        open_ = await doubts.open(PairFilter(session.grant, chosen.scope))
        left = [pair for pair in _fitting(open_, chosen) if pair.id not in session.seen]
        question = await anext(doubts.asked(left), None)
        return _shown(request, question, chosen, open_)

    @app.get("/review/{review_id}")
    async def one(review_id: str, request: Request, chosen: Chosen) -> Response:
        """Show one pair, answered or not."""
        question = await _question(desk, doubts, request, review_id)
        open_ = await doubts.open(PairFilter(session_of(request).grant, chosen.scope))
        return _shown(request, question, chosen, open_)

    @app.post("/review/{review_id}")
    async def answer(review_id: str, request: Request, form: OwnForm, chosen: Chosen) -> Response:
        """Settle a pair, or leave it for another time."""
        verdict = form.get("verdict", "")
        question = await _question(desk, doubts, request, review_id)
        if verdict == _SKIP:
            session_of(request).trail.append(TrailStep(review_id, None))
        elif verdict in _VERDICTS:
            await _settle(desk, request, question, verdict)
        else:
            said = f"verdict: write {', '.join((*_VERDICTS, _SKIP))}"
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, said, field="verdict")
        return _on(chosen)

    @app.post("/undo")
    async def undo(request: Request, _: OwnForm, chosen: Chosen) -> Response:
        """Take the last answer of this login back, and show its pair again."""
        session = session_of(request)
        if not session.trail:
            session.notice = "There is nothing to undo."
            return _on(chosen)
        step = session.trail.pop()
        if step.verdict is not None:
            question = await _question(desk, doubts, request, step.review_id)
            try:
                session.notice = await _taken_back(desk, question, desk.author(request))
            except DeclinedRequest as error:
                session.notice = f"Not undone: {error}."
                session.trail.append(step)
        return RedirectResponse(
            address(f"/review/{step.review_id}", **dict(chosen)), HTTPStatus.SEE_OTHER
        )


def _shown(
    request: Request, question: ReviewQuestion | None, chosen: Choice, open_: Sequence[DoubtfulPair]
) -> Response:
    """Return a pair as a page, or that there is none; `open_` are those of the scope."""
    session = session_of(request)
    seen = session.seen
    newer, older = list[Run](), list[Run]()
    may_answer = False
    if question is not None:
        review = question.review
        newer, older = compared(review.newer.text, review.older.text)
        may_answer = question.answerable and session.grant.allows("write", review.scope)
    return page(
        request,
        "review.html",
        "Review",
        question=question,
        newer=newer,
        older=older,
        chosen=chosen,
        left=sum(pair.id not in seen for pair in _fitting(open_, chosen)),
        reasons=Counter(doubt for pair in open_ for doubt in pair.doubts),
        may_answer=may_answer,
        notice=session.noticed(),
    )


def _fitting(open_: Sequence[DoubtfulPair], chosen: Choice) -> Sequence[DoubtfulPair]:
    """Return the pairs that are kept apart by what was chosen."""
    return [pair for pair in open_ if not chosen.reason or chosen.reason in pair.doubts]


async def _question(desk: Desk, doubts: Doubts, request: Request, identity: str) -> ReviewQuestion:
    """Return a pair as a question; one of another scope is as unknown as one that is nowhere."""
    pair = await doubts.pair(identity)
    desk.permit(request, "read", pair.scope, "review_id", desk.life.unknown("question", identity))
    return await doubts.question(pair)


async def _settle(desk: Desk, request: Request, question: ReviewQuestion, verdict: str) -> None:
    """Answer a question in the name of who is logged in, and note what came of it."""
    session, review = session_of(request), question.review
    desk.permit(request, "write", review.scope, "scope")
    try:
        [told] = await desk.life.answer(question, verdict, desk.author(request), "")
    except DeclinedRequest as error:
        session.notice = f"Not answered: {error}."
        return
    waits = told.decision is None
    session.notice = "Requested; the services will decide on it." if waits else ""
    session.trail.append(TrailStep(review.id, verdict))


async def _taken_back(desk: Desk, question: ReviewQuestion, author: str) -> str:
    """Take an answer back; tell what came of that. Raises DeclinedRequest."""
    if question.settled is None:
        if question.reopened_by is not None:
            return "Somebody has already undone that."
        said = "the services have not decided on that answer yet"
        raise DeclinedRequest(DeclineReason.CONFLICT, said)
    if question.answerable:
        return "That answer changed no memory. Another one takes its place."
    await desk.life.undo(question.settled.decision_id, author, "taken back on the page")
    return "Undone: both memories are restored."


def _on(chosen: Choice) -> Response:
    return RedirectResponse(address("/review", **dict(chosen)), HTTPStatus.SEE_OTHER)
