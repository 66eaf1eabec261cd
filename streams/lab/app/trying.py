"""Trial of policies on the rows of files: decided on in memory, under each policy; nothing is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import ceil

from schemas.codec import DEAD_LETTER, EVENT, Unreadable
from schemas.events import Event
from schemas.outcomes import DeadLetter
from schemas.topics import EVENTS
from streams.lab.app.calibrating import HIDDEN_RATE_MAX, in_first_half
from streams.lab.app.evaluation import evaluate
from streams.lab.app.labelled import LabelledPair, LabelledRows, pair_of
from streams.lab.core.grading import APART, Truth
from streams.lab.core.measures import Proportion, shown
from streams.lab.core.trial import ComparedPair, Trial, agrees
from streams.model.policy import Policy
from streams.model.ports.clock import Clock
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.sources import Source
from streams.stage.core.mapping import FieldMapping
from streams.stage.flow.ingest import records_of
from streams.store.app.dry_run import DecidingDependencies, DryRunClient

PRESETS = ("careful", "default", "thorough")
"""The policies that are tried where none is named, from the strictest on."""
_BEHIND_FILES = 1_000_000_000
"""No file has as many pairs."""


@dataclass
class TrialInput:
    """Rows of files as events; `refused` gives the place and the reason for each unusable row.

    `more`: the limit was reached, and there are more rows.
    """

    events: list[Event] = field(default_factory=list[Event])
    refused: list[str] = field(default_factory=list[str])
    more: bool = False

    @property
    def rows(self) -> int:
        return len(self.events) + len(self.refused)


def take(
    files: Sequence[tuple[Source, FieldMapping | None]], limit: int, clock: Clock
) -> TrialInput:
    """Read at most `limit` rows of the files, as `memsieve run` reads them."""
    taken = TrialInput()
    for source, mapping in files:
        left = limit - taken.rows
        lines = list(islice(source.lines(None), left + 1))
        taken.more = len(lines) > left
        del lines[left:]
        records = records_of(lines, source=source, mapping=mapping, partitions=1, clock=clock)
        for line, record in zip(lines, records, strict=True):
            read = _read(record)
            if isinstance(read, str):
                taken.refused.append(f"{source.place}:{line.number}: {read}")
            else:
                taken.events.append(read)
        if taken.more:
            break
    return taken


def _read(record: OutgoingRecord) -> Event | str:
    """Return the event that a row publishes, or why it has none."""
    value = record.value or b""
    if record.topic == EVENTS.name:
        try:
            return EVENT.decode(value)
        except Unreadable as error:
            return str(error)
    letter = DEAD_LETTER.decode(value)
    return letter.error if isinstance(letter, DeadLetter) else letter.kind


async def decided(
    events: Sequence[Event],
    policies: Mapping[str, Policy],
    means: DecidingDependencies,
    done: Callable[[int], None] = lambda _: None,
) -> list[Trial]:
    """Decide on events as `memsieve run` does in an empty store, under each policy, by name.

    The policies take turns, batch by batch: so no text is embedded twice, and what a judge thinks
    of a pair is still known when the next policy asks. `done` receives the number of decisions
    since its last call.
    """
    known = means.knowing()
    trials = [
        (Trial(name, policy), DryRunClient(policy, known)) for name, policy in policies.items()
    ]
    for start in range(0, len(events), known.batch_records):
        batch = events[start : start + known.batch_records]
        for trial, client in trials:
            responses = await client.submit(batch, done)
            trial.take([one.own for one in responses if one.own is not None])
    for trial, client in trials:
        stored = (await client.index()).scan()
        trial.memories = sum([one.memory.live async for one in stored])
    return [trial for trial, _ in trials]


async def agreement(
    answers: Sequence[LabelledPair], policy: Policy, means: DecidingDependencies
) -> Proportion:
    """Return how many of a person's answers a policy agrees with, pair by pair."""
    made = await evaluate(LabelledRows(pairs=list(answers)), policy, means)
    agreed = sum(agrees(Truth(row.label), row.ours) for row in made.rows)
    return Proportion(agreed, len(made.rows))


def labelled_pairs(answers: Mapping[ComparedPair, str]) -> list[LabelledPair]:
    """Return answers as labelled pairs, in scopes that no pair of a file has."""
    return [
        pair_of(
            row_of(one, label),
            Truth(label),
            place=f"answer {number}",
            set_="answers",
            number=_BEHIND_FILES + number,
        )
        for number, (one, label) in enumerate(answers.items(), start=1)
    ]


def provable(answers: Sequence[LabelledPair]) -> float | None:
    """Return the least rate of hidden facts that so many answers can show, for `calibrate`.

    None if that is more than `calibrate` takes.
    """
    apart = [one for one in answers if one.truth in APART]
    fitted = sum(in_first_half(one.event.text, one.memory.text) for one in apart)
    least = ceil(100 * shown(fitted)) / 100
    return least if least <= HIDDEN_RATE_MAX else None


def row_of(one: ComparedPair, label: str | None) -> dict[str, str | None]:
    """Return a pair as a labelled row; without a label it is a row to be labelled."""
    return {"a": one.newer, "b": one.older, "label": label, "kind": "try", "scope": one.scope}
