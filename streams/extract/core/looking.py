"""A turn with its triggers: what it says, and whether that is worth remembering."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from schemas.turns import Turn
from streams.extract.core.triggers import FiredTrigger, TriggerRules, fired
from streams.extract.core.utterances import Recalled, Utterance, heard, recalled_in
from streams.extract.core.window import Window


@dataclass(frozen=True)
class ExaminedTurn:
    """A turn and the triggers that fired, with everything they were read from.

    `heard` is what it says without echoes, `earlier` are the turns before it, oldest first. `visits`
    counts the visits to its place so far, by session; it is empty if it tells of no place.
    """

    turn: Turn
    fired: tuple[FiredTrigger, ...]
    heard: tuple[Utterance, ...]
    earlier: tuple[Turn, ...]
    recalled: Recalled
    visits: Mapping[str, int] = field(default_factory=dict[str, int])


def look(turn: Turn, place: int, window: Window, rules: TriggerRules) -> ExaminedTurn:
    """Return the triggers of a turn at a position, and add it to the turns before later ones."""
    earlier, visits = window.before(place, turn), window.add(place, turn)
    recalled = recalled_in((*earlier, turn))
    said = heard(turn, recalled)
    return ExaminedTurn(turn, fired(turn, said, rules), said, earlier, recalled, visits)
