"""The questions of a store or a cluster: read, answered, and taken as labels."""

import getpass
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import get_args

from pydantic import ValidationError

from schemas.codec import EVENT, REVIEW, Unreadable
from schemas.decisions import Change, Ignore, Marker
from schemas.events import Answer, Seen
from schemas.memories import Memory
from schemas.outcomes import Review
from schemas.topics import DECISIONS, REVIEWS
from streams.adapters.clock import SystemClock
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies, wiring
from streams.apps.processes import embedded
from streams.apps.reading import StoreReader, opened, records
from streams.apps.settings import IndexSettings, InvalidSettings, LogSettings, Settings
from streams.core.identity import answer_id, content_key, decision_id
from streams.core.reviewing import Questions, Settled, newest, settles
from streams.flow.decisions import DECISION_ID_HEADER, read_decision
from streams.flow.take_in import addressed
from streams.ports import Clock, Embedder, Fatal, Log, Outgoing, Record

VERDICTS: tuple[str, ...] = get_args(Answer.model_fields["verdict"].annotation)
"""What a newer memory may be to an older one, in the words of an answer."""


class Reviews:
    """Reads the topic of questions, and what the decisions say became of them."""

    def __init__(self, log: Log, reader: StoreReader) -> None:
        self._log = log
        self._reader = reader

    @property
    def place(self) -> str:
        """Where the log is."""
        return self._reader.place

    async def questions(self) -> Questions:
        """Return every question, with all that was decided so far; reads both topics whole."""
        questions = Questions([_read(record) async for record in records(self._log, REVIEWS.name)])
        async for entry in self._reader.decisions():
            questions.decided(entry.decision)
        return questions

    async def labels(self) -> list["Label"]:
        """Return what people have answered, the oldest first."""
        return await labels(self._reader)


@asynccontextmanager
async def reviewing(settings: Settings, *, embedded: bool) -> AsyncGenerator[Reviews]:
    """Open the embedded store, or the cluster's log. Raises NoStore where there is no store."""
    place = settings.store if embedded else settings.kafka.bootstrap
    async with opened(settings, embedded=embedded) as log:
        yield Reviews(log, StoreReader(log, f"{place}", lambda _: None))


@dataclass(frozen=True)
class Label:
    """A person's verdict on two texts: what the newer is to the older."""

    review_id: str
    scope: str
    newer: str
    older: str
    verdict: str

    @property
    def row(self) -> dict[str, str]:
        """The labelled pair, as `evaluate` and `calibrate` read it."""
        return {
            "id": self.review_id,
            "a": self.newer,
            "b": self.older,
            "label": self.verdict,
            "kind": "review",
            "scope": self.scope,
        }


async def labels(reader: StoreReader) -> list[Label]:
    """Return what people have answered in a log, each question once, the oldest first.

    Read from the decisions, which are kept forever; an answer that came too late is a label as
    good as any: it is on the texts that the person saw.
    """
    answers: dict[str, Settled] = {}
    async for entry in reader.decisions():
        if (settled := settles(entry.decision)) is not None:
            identity = settled.answer.review_id
            answers[identity] = newest(answers.get(identity), settled)
    given = [settled.answer for settled in answers.values()]
    concerned = {one.memory_id: a.scope for a in given for one in (a.newer, a.older)}
    texts = {
        (identity, content_key(concerned[identity], text)): text
        for (identity, _), text in (await reader.texts(sorted(concerned))).items()
    }
    found: list[Label] = []
    for answer in given:
        newer, older = (
            texts.get((one.memory_id, one.content_key)) for one in (answer.newer, answer.older)
        )
        if newer is not None and older is not None:
            found.append(Label(answer.review_id, answer.scope, newer, older, answer.verdict))
    return found


def answer_to(
    review: Review, verdict: str, *, author: str, note: str = "", clock: Clock | None = None
) -> Answer:
    """Return the event that answers a question.

    Raises InvalidSettings where author or note cannot be published.
    """
    fields = {
        "event_id": answer_id(review.id, verdict, author),
        "scope": review.scope,
        "review_id": review.id,
        "newer": _seen(review.newer),
        "older": _seen(review.older),
        "verdict": verdict,
        "author": author,
        "occurred_at": (clock or SystemClock()).now(),
        "note": note,
    }
    try:
        return Answer.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise InvalidSettings(f"--{problem['loc'][0]}: {problem['msg']}") from error


def author_of(settings: Settings, given: str | None) -> str:
    """Return who answers: as given, else by the settings, else by the login."""
    named = given if given is not None else settings.reviews.author or _login()
    if not named.strip():
        raise InvalidSettings("--author is empty: say who answers")
    return named.strip()


class Decider:
    """Lets an embedded store decide on answers, one at a time."""

    def __init__(self, settings: Settings, report: Callable[[str], None]) -> None:
        self._settings = settings
        self._report = report
        self._embedder: Embedder | None = None

    async def decide(self, answer: Answer) -> Change | Ignore:
        """Take an answer in, decide on it and apply that; what waits before it is finished first.

        Raises NoStore where another process writes the store.
        """
        settings = self._settings
        policy = policies.load(settings.policy)
        policies.require_model(policy, settings.embedder.model)
        made = StoreDirectory(settings.store).require()
        as_made = {
            "index": IndexSettings(kind=made.index),
            "log": LogSettings(partitions=made.partitions),
        }
        self._embedder = self._embedder or wiring.embedder(settings.embedder, self._report)
        async with embedded(
            settings.model_copy(update=as_made), policy, self._embedder, self._report
        ) as pipeline:
            await pipeline.recover()
            await pipeline.take([record_of(answer, made.partitions)])
        return await self._decision_on(answer)

    async def _decision_on(self, answer: Answer) -> Change | Ignore:
        identity = decision_id(answer.scope, answer.event_id)
        async with opened(self._settings, embedded=True) as log:
            found = await log.find(DECISIONS.name, DECISION_ID_HEADER, [identity])
        decision = read_decision(found[-1]) if found else None
        if decision is None or isinstance(decision, Marker):
            raise Fatal(f"answer {answer.event_id} was not decided on: memsieve dead-letters list")
        return decision


async def publish(settings: Settings, answer: Answer) -> str:
    """Publish an answer to the cluster; return where it lies."""
    partitions = await wiring.partitions(settings.kafka)
    record = record_of(answer, partitions)
    log = wiring.kafka_log(settings)
    try:
        [offset] = await log.append([record])
    finally:
        await log.close()
    return f"{record.topic}/{record.partition}/{offset}"


def record_of(answer: Answer, partitions: int) -> Outgoing:
    """Return the record that asks for an answer to be applied: keyed by its scope."""
    return addressed(answer.scope, EVENT.encode(answer), partitions)


def _seen(memory: Memory) -> Seen:
    return Seen(memory_id=memory.id, content_key=memory.content_key)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InvalidSettings("nobody is logged in: say who answers with --author") from error


def _read(record: Record) -> Review:
    try:
        return REVIEW.decode(record.value or b"")
    except Unreadable as error:
        raise Fatal(f"{record.place} is no review: {error}") from error
