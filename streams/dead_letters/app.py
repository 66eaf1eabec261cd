"""The dead letters of a store or a cluster: read, requeued or dropped."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, closing

from schemas.codec import DEAD_LETTER, EVENT, INPUT, Unreadable
from schemas.decisions import Reject
from schemas.outcomes import DeadLetter, Settled
from schemas.topics import DEAD_LETTERS, EVENTS
from streams.dead_letters.flow import (
    DecodedInput,
    Inputs,
    Letter,
    Letters,
    Settlement,
    input_record,
    settled_records,
)
from streams.model.ports.failures import Fatal, Poison
from streams.model.ports.log import Log, LogRecord, records
from streams.store.app import reading, wiring
from streams.store.app.reading import LogTarget

_TOGETHER = 100
"""Letters settled per append: each holds an event of up to 1 MiB."""


class DeadLetters:
    """Reads the topic, and settles letters if it was opened for writing."""

    def __init__(self, log: Log, target: LogTarget) -> None:
        """Read a log; a store has no consumer of turns, and decides on events in its next run."""
        self._log = log
        self.place = target.place
        self.inputs: Inputs = EVENT if target.embedded else INPUT
        self.decided_by = "the next memsieve run" if target.embedded else None

    async def all(self) -> list[Letter]:
        """Return every letter, settled ones included, in the order of the log."""
        letters = Letters()
        async for record in records(self._log, DEAD_LETTERS.name):
            letters.add(record.partition, _read(record))
        return letters.all()

    async def settle(
        self,
        wanted: Sequence[tuple[Letter, DecodedInput | None]],
        how: Settlement,
        done: Callable[[Letter], None],
    ) -> None:
        """Publish what is given for the letters, then settle them; `done` receives each one.

        Dropped letters stay in the topic. If interrupted, a record may be published while its
        letter is still open; publishing it again has no further effect.
        """
        partitions = await self._log.partitions(EVENTS.name)
        for start in range(0, len(wanted), _TOGETHER):
            some = wanted[start : start + _TOGETHER]
            again = [input_record(letter, what, partitions) for letter, what in some if what]
            settled = [record for letter, _ in some for record in settled_records(letter, how)]
            await self._log.append([*again, *settled])
            for letter, _ in some:
                done(letter)


async def letters(target: LogTarget) -> list[Letter]:
    """Return every letter of a log, settled ones included, in its order."""
    async with opened(target) as found:
        return await found.all()


async def why_set_aside(log: Log, reject: Reject) -> Poison:
    """Return why an event became a dead letter."""
    async for record in records(log, DEAD_LETTERS.name):
        letter = _read(record)
        if isinstance(letter, DeadLetter) and letter.id == reject.dead_letter_id:
            return Poison(letter.error, letter.field)
    return Poison(f"was set aside as dead letter {reject.dead_letter_id}")


@asynccontextmanager
async def opened(target: LogTarget, *, writable: bool = False) -> AsyncGenerator[DeadLetters]:
    """Open a log for reading, or for settling its letters.

    Raises NoStore if there is no store, or, for writing, if another process writes it.
    """
    async with _writable(target) if writable else reading.opened(target) as log:
        yield DeadLetters(log, target)


@asynccontextmanager
async def _writable(target: LogTarget) -> AsyncGenerator[Log]:
    directory = target.directory
    if directory is None:
        await wiring.partitions(target.settings.kafka)
        async with reading.opened(target) as log:
            yield log
        return
    with (
        directory.written_by_us(directory.require()),
        closing(wiring.log(directory, read_only=False)) as log,
    ):
        yield log


def _read(record: LogRecord) -> DeadLetter | Settled:
    try:
        return DEAD_LETTER.decode(record.value or b"")
    except Unreadable as error:
        raise Fatal(f"{record.place} is not a dead letter: {error}") from error
