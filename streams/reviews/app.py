"""The review questions of a store or a cluster: reading, answering, and use as labels."""

from typing import get_args

from pydantic import ValidationError

from schemas.base import DecisionId
from schemas.codec import REVIEW, Unreadable
from schemas.events import Answer, Seen
from schemas.outcomes import Review
from schemas.topics import REVIEWS
from streams.clock.system import SystemClock
from streams.model.identity import answer_id, content_key
from streams.model.ports.clock import Clock
from streams.model.ports.failures import Fatal
from streams.model.ports.log import LogRecord, records
from streams.stage.core.reviewing import ReviewQuestions, SettledAnswer, newest, settles
from streams.store.app.reading import StoreReader
from streams.store.app.requests import unpublishable

VERDICTS: tuple[str, ...] = get_args(Answer.model_fields["verdict"].annotation)
"""The possible relations of a newer memory to an older one, as answers name them."""


async def questions(reader: StoreReader) -> ReviewQuestions:
    """Return every question with its state; reads both topics in full."""
    asked = ReviewQuestions([_read(record) async for record in records(reader.log, REVIEWS.name)])
    async for entry in reader.decisions():
        asked.decided(entry.decision)
    return asked


async def labels(reader: StoreReader) -> list[dict[str, str]]:
    """Return the answers in a log as labelled pairs, one per question, oldest first.

    A pair is a row as `evaluate` and `calibrate` read it: what the person said of the texts, a the
    newer and b the older.

    They are read from the decisions, which are kept forever. An answer that came too late is still
    a valid label, since it is about the texts that the person saw.
    """
    answers: dict[str, SettledAnswer] = {}
    async for entry in reader.decisions():
        if (settled := settles(entry.decision)) is not None:
            identity = settled.answer.review_id
            answers[identity] = newest(answers.get(identity), settled)
    given = [settled.answer for settled in answers.values()]
    concerned = {one.memory_id: a.scope for a in given for one in (a.newer, a.older)}
    texts = {
        (identity, content_key(concerned[identity], memory.text)): memory.text
        for (identity, _), memory in (await reader.versions(sorted(concerned))).items()
    }
    found: list[dict[str, str]] = []
    for answer in given:
        newer, older = (
            texts.get((one.memory_id, one.content_key)) for one in (answer.newer, answer.older)
        )
        if newer is not None and older is not None:
            texts_said = {"id": answer.review_id, "a": newer, "b": older, "label": answer.verdict}
            found.append({**texts_said, "kind": "review", "scope": answer.scope})
    return found


def answer_to(
    review: Review,
    verdict: str,
    *,
    author: str,
    note: str = "",
    clock: Clock | None = None,
    reopened_by: DecisionId | None = None,
) -> Answer:
    """Return the event that answers a question.

    `reopened_by` is the undo that took an earlier answer back: the same answer is a new one then.
    Raises InvalidSettings where author or note cannot be published.
    """
    fields = {
        "event_id": answer_id(
            review.id, verdict if reopened_by is None else f"{verdict} {reopened_by}", author
        ),
        "scope": review.scope,
        "review_id": review.id,
        "newer": Seen.of(review.newer),
        "older": Seen.of(review.older),
        "verdict": verdict,
        "author": author,
        "occurred_at": (clock or SystemClock()).now(),
        "note": note,
    }
    try:
        return Answer.model_validate(fields)
    except ValidationError as error:
        raise unpublishable(error) from error


def _read(record: LogRecord) -> Review:
    try:
        return REVIEW.decode(record.value or b"")
    except Unreadable as error:
        raise Fatal(f"{record.place} is not a review: {error}") from error
