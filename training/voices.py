"""Pairs in active and passive voice, and pairs with the time phrase first or last."""

from collections.abc import Iterator
from random import Random

from training.frames import Labelled
from training.values import listed

_DEEDS = (
    "hired", "called", "helped", "invited", "trained", "managed", "visited", "paid", "taught", "met",
    "fired", "thanked", "blamed", "defeated", "beat", "replaced", "followed", "interviewed", "married",
    "recommended", "contacted", "coached", "nominated", "praised", "criticised", "warned", "supported",
)  # fmt: skip
_MADE = (
    "wrote|written|the report", "wrote|written|the song", "fixed|fixed|the leak", "built|built|the shed",
    "approved|approved|the budget", "reviewed|reviewed|the code", "sold|sold|the van",
    "drew|drawn|the map", "broke|broken|the window", "designed|designed|the logo", "sent|sent|the parcel",
    "found|found|the keys", "chose|chosen|the paint", "baked|baked|the cake", "deleted|deleted|the file",
    "took|taken|the photo", "owned|owned|the flat", "signed|signed|the lease", "cleaned|cleaned|the office",
    "painted|painted|the fence", "translated|translated|the letter", "repaired|repaired|the boiler",
)  # fmt: skip
_PARTICIPLES = {"beat": "beaten"}
_WHEN = (
    "last year", "this morning", "yesterday", "two weeks ago", "last night", "next month", "tomorrow",
    "every Friday", "in March", "on Tuesday", "during the holidays", "after lunch", "at noon",
)  # fmt: skip
_DONE = (
    "moved to a new flat", "started a course", "met the landlord", "sold the car", "works from home",
    "has a check-up", "visits the museum", "cooked for the neighbours", "changed the tyres", "quit smoking",
    "calls the clinic", "plays chess", "ordered a desk", "presented the results", "goes to the gym",
)  # fmt: skip


def voices(count: int, chance: Random) -> Iterator[Labelled]:
    """Yield `count` groups of pairs."""
    people = [*listed("person"), "The user", "The manager", "My sister", "The new nurse"]
    for _ in range(count):
        one, other, third = chance.sample(people, 3)
        deed = chance.choice(_DEEDS)
        done = _PARTICIPLES.get(deed, deed)
        when = chance.choice(["", f" {chance.choice(_WHEN)}"])
        active = f"{one} {deed} {_inside(other)}{when}."
        passive = f"{other} was {done} by {_inside(one)}{when}."
        wrong = [
            f"{other} {deed} {_inside(one)}{when}.",
            f"{one} was {done} by {_inside(other)}{when}.",
            f"{third} was {done} by {_inside(one)}{when}.",
        ]
        yield _turned(active, passive, "same", chance)
        yield _turned(chance.choice(wrong), chance.choice([active, passive]), "distinct", chance)
        made, given, thing = chance.choice(_MADE).split("|")
        by = f"{thing.capitalize()} was {given} by {_inside(one)}{when}."
        yield _turned(f"{one} {made} {thing}{when}.", by, "same", chance)
        yield _turned(f"{third} {made} {thing}{when}.", by, "distinct", chance)
        did, time = chance.choice(_DONE), chance.choice(_WHEN)
        first, last = f"{time.capitalize()} {_inside(one)} {did}.", f"{one} {did} {time}."
        yield _turned(first, last, "same", chance)
        yield _turned(f"{time.capitalize()} {_inside(other)} {did}.", last, "distinct", chance)


def _turned(one: str, other: str, label: str, chance: Random) -> Labelled:
    pair = (one, other) if chance.random() < 0.5 else (other, one)
    return Labelled(*pair, label, "voices")


def _inside(person: str) -> str:
    first, *rest = person.split(" ", 1)
    return " ".join([first.lower(), *rest]) if rest else person
