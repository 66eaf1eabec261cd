"""Respelling: the meaningless differences between two runs of one extractor."""

import re
from collections.abc import Callable
from random import Random

_DIGITS = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10", "twelve": "12",
}  # fmt: skip
_CONTRACTIONS = {
    "can't": "cannot", "doesn't": "does not", "isn't": "is not", "won't": "will not",
    "don't": "do not", "it's": "it is", "there's": "there is", "hasn't": "has not",
    "wasn't": "was not", "aren't": "are not", "didn't": "did not", "I'm": "I am",
}  # fmt: skip
_OPENINGS = ("Note: ", "Noted that ", "Remember: ", "It was noted that ", "FYI: ", "Fact: ")
_FILLERS = r"\b(also|just|currently|now|really|actually|basically)\b "
_COMPOUND = range(3, 7)


def respelled(text: str, chance: Random) -> str:
    """Return a text with one or two changes of spelling that keep its meaning."""
    for _ in range(chance.choice((1, 1, 2))):
        text = chance.choice(_CHANGES)(text, chance)
    return text


def _stop(text: str, _chance: Random) -> str:
    return text.rstrip(".") if text.endswith(".") else f"{text}."


def _case(text: str, _chance: Random) -> str:
    if text.startswith(("I ", "I'")):
        return text
    return text[:1].swapcase() + text[1:]


def _article(text: str, chance: Random) -> str:
    return re.sub(r"\bthe\b ?", chance.choice(("the ", "")), text, count=1)


def _subject(text: str, chance: Random) -> str:
    return re.sub(r"^(The )?[Uu]ser\b", chance.choice(("User", "The user", "the user")), text)


def _contraction(text: str, chance: Random) -> str:
    return _exchanged(text, _CONTRACTIONS, chance)


def _digits(text: str, chance: Random) -> str:
    return _exchanged(text, _DIGITS, chance)


def _exchanged(text: str, spellings: dict[str, str], chance: Random) -> str:
    pairs = [*spellings.items(), *((long, short) for short, long in spellings.items())]
    chance.shuffle(pairs)
    for one, other in pairs:
        changed = re.sub(rf"\b{re.escape(one)}\b", other, text, count=1)
        if changed != text:
            return changed
    return text


def _compound(text: str, chance: Random) -> str:
    words = text.split(" ")
    places = [
        at
        for at in range(len(words) - 1)
        if all(
            one.isalpha() and one.islower() and len(one) in _COMPOUND for one in words[at : at + 2]
        )
    ]
    if not places:
        return text
    at = chance.choice(places)
    words[at : at + 2] = [words[at] + chance.choice(("", "-")) + words[at + 1]]
    return " ".join(words)


def _opening(text: str, chance: Random) -> str:
    first = text[:1] if text.startswith(("I ", "I'")) else text[:1].lower()
    return chance.choice(_OPENINGS) + first + text[1:]


def _filler(text: str, _chance: Random) -> str:
    return re.sub(_FILLERS, "", text, count=1)


def _comma(text: str, _chance: Random) -> str:
    return text.replace(";", ",", 1) if ";" in text else text.replace(",", "", 1)


def _typo(text: str, chance: Random) -> str:
    words = text.split(" ")
    places = [
        at for at, word in enumerate(words) if word.isalpha() and word.islower() and len(word) > 6
    ]
    if not places:
        return text
    at = chance.choice(places)
    letter = chance.randrange(1, len(words[at]) - 2)
    word = words[at]
    words[at] = word[:letter] + word[letter + 1] + word[letter] + word[letter + 2 :]
    return " ".join(words)


_CHANGES: tuple[Callable[[str, Random], str], ...] = (
    _stop, _case, _article, _subject, _contraction, _digits, _compound, _opening, _filler, _comma,
    _typo,
)  # fmt: skip
