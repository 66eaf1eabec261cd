"""`memsieve reviews`: shows, answers and exports the pairs that no judge could settle."""

import asyncio
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from schemas.decisions import OnEvent, Reason
from schemas.events import Answer
from schemas.memories import Memory
from streams.reviews.app import VERDICTS, answer_to, labels, questions
from streams.stage.core.explain import opinions, outcome, why
from streams.stage.core.reviewing import ReviewQuestion, ReviewQuestions
from streams.store.app.client import Response
from streams.store.app.cluster_client import NO_WAITING
from streams.store.app.embedding import chosen_for
from streams.store.app.reading import LogTarget, read
from streams.store.app.requests import author_of, open_client
from streams.store.cli import asking, options
from streams.store.cli.console import more, note, quoted, say, say_json, say_line, tell
from streams.store.cli.replies import decision_json, places, published
from streams.store.core.counts import number

_TEXT_WIDTH = 36


def list_(
    *,
    scope: options.ScopeBelow = None,
    all_: Annotated[bool, typer.Option("--all", help="Include answered and moot ones.")] = False,
    limit: options.Limit = None,
    where: options.ReadOptions,
) -> None:
    """List the questions, the newest first."""
    asked = read(where.to_read(), questions)
    here = [one for one in asked.all() if options.below(one.review.scope, scope)]
    found = [one for one in here if all_ or one.state == "open"]
    shown = found[: options.limit_of(limit, as_json=where.as_json)]
    if where.as_json:
        say_json(question_json(question) for question in shown)
        return
    for question in shown:
        say(_in_a_line(question))
    more(len(found) - len(shown), "question", "questions")
    if not found:
        note("no open questions; --all shows the others" if here else "no questions")


def show(
    identity: Annotated[str, typer.Argument(metavar="ID", help="A question id, or its prefix.")],
    *,
    where: options.ReadOptions,
) -> None:
    """Show a question: both texts side by side, and why it is open."""
    source = where.to_read()
    question = _only(read(source, questions).all(), identity, source.place)
    tell(_told(question), question_json(question), as_json=where.as_json)


def answer(
    identity: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The question's id, or a prefix; none: all in turn."),
    ] = None,
    verdict: Annotated[
        str | None,
        typer.Argument(
            metavar="VERDICT",
            help=f"The newer memory's relation to the older: {', '.join(VERDICTS)}.",
        ),
    ] = None,
    *,
    scope: options.ScopeBelow = None,
    author: options.Author = None,
    note_: options.Note = "",
    policy: options.Policy = None,
    where: options.ReadOptions,
) -> None:
    """Answer a question, or all of them in turn.

    One memory then represents both, the newer one replaces the older, or both are kept. A store
    decides at once, a cluster when its services reach the answer. If one of the two memories has
    changed by then, the answer is too late and changes nothing.
    """
    source = where.source(policy=policy)
    who = author_of(source.settings, author)
    desk = _Desk(source, who, note_, as_json=where.as_json)
    if identity is None:
        options.refuse({"--json": where.as_json}, "answers one question: give ID and a verdict")
        _in_turn(desk, source, scope)
        return
    if verdict not in VERDICTS:
        given = "is missing" if verdict is None else f"is {verdict}"
        raise options.UsageError(f"the verdict {given}: write {', '.join(VERDICTS)}")
    question = _only(read(source, questions).all(), identity, source.place)
    if question.state != "open":
        raise options.UsageError(f"question {question.review.id} is closed: {_state(question)}")
    decision = desk.answer(question, verdict)
    if decision is not None and decision.evidence.reason is Reason.ANSWERED_TOO_LATE:
        raise options.UsageError("the answer came too late: nothing changed")


def export(
    *,
    out: Annotated[
        Path | None, options.output("--out", "Write the pairs here. [standard output]")
    ] = None,
    scope: options.ScopeBelow = None,
    where: options.LogOptions,
) -> None:
    """Write the answers as labelled pairs, for policy evaluate."""
    given = read(where.source(), labels)
    rows = [row for row in given if options.below(row["scope"], scope)]
    if out is None:
        for row in rows:
            say_line(row)
    else:
        lines = (f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        options.write("--out", out, "".join(lines))
    note(number(len(rows), "answered question"))


class _Desk:
    """Where answers go: a store decides on them at once, a cluster is not waited for."""

    def __init__(self, source: LogTarget, author: str, note_: str, *, as_json: bool) -> None:
        self._source = source
        self._author = author
        self._note = note_
        self._as_json = as_json
        self._chosen = cache(partial(chosen_for, source, note))

    def answer(self, question: ReviewQuestion, verdict: str) -> OnEvent | None:
        """Answer a question and tell what came of it; None where that is decided later."""
        review = question.review
        event = answer_to(
            review, verdict, author=self._author, note=self._note, reopened_by=question.reopened_by
        )
        [response] = asyncio.run(self._submit(event))
        decision = None if response.own is None else response.on_event
        lines = [f"answered  {review.id}  {verdict}", *places([response])]
        decided = [] if decision is None else [decision]
        lines += [f"{one.kind}: {outcome(one)}, because {why(one)}" for one in decided]
        record = {
            "review_id": review.id,
            "verdict": verdict,
            "decisions": [decision_json(one) for one in decided],
            **published([response]),
        }
        tell(lines, record, as_json=self._as_json)
        return decision

    async def _submit(self, event: Answer) -> list[Response]:
        """Submit an answer; between two answers others may write a store."""
        async with open_client(self._source, note, NO_WAITING, chosen=self._chosen) as client:
            return await client.submit([event])


def _in_turn(desk: _Desk, source: LogTarget, scope: str | None) -> None:
    """Ask a person about one open question after the other."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise options.UsageError("there is no terminal to ask on: give ID and a verdict")
    asked = read(source, questions)
    done: set[str] = set()
    while question := _next(asked, scope, done):
        done.add(question.review.id)
        for line in _told(question):
            say(line)
        key = asking.key()
        if key == asking.QUIT:
            return
        if key != asking.SKIP and (decision := desk.answer(question, asking.KEYS[key])) is not None:
            asked.decided(decision)
        say()
    note("no more open questions")


def _next(asked: ReviewQuestions, scope: str | None, done: set[str]) -> ReviewQuestion | None:
    """Return the newest open question that was not put yet; answers make others moot."""
    still = (
        one
        for one in asked.all()
        if one.state == "open"
        and one.review.id not in done
        and options.below(one.review.scope, scope)
    )
    return next(still, None)


def question_json(question: ReviewQuestion) -> dict[str, Any]:
    """Return all that is known of a question."""
    settled = question.settled
    given = None if settled is None else settled.answer.model_dump(mode="json")
    decided = None if settled is None else settled.decision_id
    content = question.review.model_dump(mode="json")
    return {**content, "state": question.state, "answer": given, "answer_decision_id": decided}


def _in_a_line(question: ReviewQuestion) -> str:
    review = question.review
    state = "" if question.state == "open" else f"  {_state(question)}"
    newer, older = (quoted(memory.text, _TEXT_WIDTH) for memory in (review.newer, review.older))
    near = f"{review.compared.similarity:.3f} {review.compared.band.value}"
    return f"{review.id}  {near:<12}  {review.scope}  {newer} / {older}{state}"


def _told(question: ReviewQuestion) -> Iterator[str]:
    """Yield what a person is told, line by line."""
    review = question.review
    yield f"question   {review.id}"
    yield f"scope      {review.scope}"
    yield f"asked      {review.asked_at:%Y-%m-%d %H:%M:%S} UTC, by decision {review.decision_id}"
    yield f"state      {_state(question)}"
    yield ""
    yield from asking.beside(_column("newer", review.newer), _column("older", review.older))
    yield ""
    yield f"similarity {review.compared.similarity:.3f}  {review.compared.band.value}"
    yield from (f"           {line}" for line in opinions(review.compared))


def _state(question: ReviewQuestion) -> str:
    settled = question.settled
    if settled is None:
        moot = "moot: one of the two is gone or has changed"
        return moot if question.state == "moot" else question.state
    said = settled.answer
    late = "" if settled.in_time else ", too late"
    why_ = f": {quoted(said.note)}" if said.note else ""
    return f"answered {said.verdict} by {said.author}, {said.occurred_at:%Y-%m-%d}{late}{why_}"


def _column(title: str, memory: Memory) -> list[str]:
    """Return what is told of a memory, each line narrow enough to stand beside another."""
    lines = [title, "", *textwrap.wrap(" ".join(memory.text.split()), asking.WIDTH), ""]
    facts = [memory.id, f"version {memory.version}, seen {memory.observation_count}x"]
    facts.append(f"{memory.created_at:%Y-%m-%d} to {memory.last_seen_at:%Y-%m-%d}")
    if memory.sources:
        facts.append(f"said by {', '.join(memory.sources)}")
    facts += [f"merged from {identity}" for identity in memory.merged_from]
    return lines + [line for fact in facts for line in textwrap.wrap(fact, asking.WIDTH)]


def _only(every: Sequence[ReviewQuestion], identity: str, place: str) -> ReviewQuestion:
    by_id = {question.review.id: question for question in every}
    return options.only(by_id, identity, what="question", place=place)
