"""Texts of every length, made up for tests of the encoder."""

from collections.abc import Iterator
from itertools import islice

_WHO = ("Mara", "the night nurse", "Prof. Okonkwo", "customer 4711", "the user's sister", "Åsa")
_DID = ("prefers", "no longer eats", "has bought", "is allergic to", "lost", "never asked for")
_WHAT = ("oat milk", "a blue bicycle", "the 7:40 train", "penicillin", "three spare keys", "寿司")
_WHY = (
    "",
    " since March 2024",
    " because the old one broke on the way to work",
    ", which the team wrote down after a long talk about what had gone wrong in the last release",
    ". It was said twice: in the morning, and again by mail, with a table of costs (EUR 1,290.50)",
)


def varied_texts(count: int) -> list[str]:
    """Return distinct texts from a few words to some hundred, each with near and far others."""
    return list(islice(_texts(), count))


def _texts() -> Iterator[str]:
    number = 0
    while True:
        who, did, what = (
            words[number // step % len(words)] for words, step in ((_WHO, 1), (_DID, 5), (_WHAT, 7))
        )
        why = _WHY[number % len(_WHY)] * (1 + number % 3 * (number % 11 == 0) * 2)
        yield f"{who} {did} {what}{why}, no. {number}"
        number += 1
