"""The benchmarks' input: real texts if they are next to the project, else generated ones."""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

STREAMS = Path(__file__).parents[3] / "shared/data/streams"
"""Texts that are not part of this project; benchmarks/README.md names them."""

_SCOPE_EVENTS = 70
_NEAR_EVERY = 50
_THINGS = ("printer", "lift", "badge reader", "coffee machine", "projector")
_FACTS = (
    "Guest {n} likes the window seat of carriage {m}.",
    "The allergy of patient {n} to penicillin was noted in file {m}.",
    "Customer {n} has moved to {m} Harbour Road.",
    "Team {n} meets every Tuesday in room {m}.",
    "The spare key of flat {n} hangs on hook {m}.",
    "Invoice {n} was paid from account {m}.",
    "Bus {n} stops at the old mill at gate {m}.",
    "Parcel {n} waits for its owner on shelf {m}.",
)


@dataclass(frozen=True)
class Event:
    """One row for `memsieve run`; `near` is the text of an earlier row that it nearly repeats."""

    scope: str
    text: str
    event_id: str | None = None
    near: str | None = None

    def row(self) -> dict[str, str]:
        named = {} if self.event_id is None else {"event_id": self.event_id}
        return {"scope": self.scope, "text": self.text, **named}


@dataclass(frozen=True)
class Texts:
    """Distinct short texts, and their origin."""

    name: str
    texts: list[str]

    def about(self) -> dict[str, object]:
        return {"texts": self.name, "count": len(self.texts)}


def short_texts(chosen: Path | None = None, *, limit: int | None = None) -> Texts:
    """Return the texts of a JSON Lines file, by default the locomo observations, else notes.

    If the limit exceeds the number of observations, the turns of the same dialogues follow.
    """
    files = [chosen or STREAMS / "locomo_observations.jsonl"]
    if not files[0].exists():
        return Texts("generated notes", list(islice(notes(), limit or 1_200)))
    found = list(dict.fromkeys(row["text"] for row in rows(files[0])))
    turns = STREAMS / "locomo_turns.jsonl"
    if chosen is None and (limit or 0) > len(found) and turns.exists():
        files.append(turns)
        found = list(dict.fromkeys([*found, *(row["text"] for row in rows(turns))]))
    return Texts(" and ".join(file.name for file in files), found[:limit])


def notes() -> Iterator[str]:
    """Yield an endless sequence of short and longer notes, all different."""
    number = 0
    while True:
        yield (
            f"On day {number} the {_THINGS[number % 5]} in room {number * 37 % 211} was found "
            + "working again after it had been reset " * (number % 4)
            + "by the caretaker."
        )
        number += 1


def facts(count: int, scopes: int) -> list[Event]:
    """Return distinct short facts, distributed over the scopes in turn.

    About every fiftieth repeats an earlier one of its scope with another number and is near it:
    guards and judge have to examine these.
    """
    made: list[Event] = []
    for number in range(count):
        before = number - scopes * (1 + number % 3)
        is_near = before >= 0 and (number * 7 + number // scopes) % _NEAR_EVERY == 0
        like = before if is_near else number
        text = _FACTS[like // scopes % len(_FACTS)].format(n=like, m=number * 7 % 9_973)
        near = made[before].text if is_near else None
        made.append(Event(f"acme/user-{number % scopes}", text, near=near))
    return made


def chitchat(count: int) -> list[Event] | None:
    """Return the first messages of the chat stream, with one scope per user; None if it is absent."""
    file = STREAMS / "chitchat.jsonl.gz"
    if not file.exists():
        return None
    return [Event(f"chat/{row['user']}", row["text"]) for row in islice(rows(file), count)]


def in_scopes(texts: Iterable[str]) -> list[Event]:
    """Return the texts as events, in scopes of 70."""
    return [Event(f"bench/{n // _SCOPE_EVENTS}", text) for n, text in enumerate(texts)]


def rows(file: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a JSON Lines file, gzipped or not."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def write(file: Path, events: Sequence[Event]) -> Path:
    """Write a file that `memsieve run` and `memsieve publish` read."""
    lines = (json.dumps(event.row()) + "\n" for event in events)
    file.write_text("".join(lines), encoding="utf-8")
    return file
