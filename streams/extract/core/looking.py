"""A turn with its triggers: what it says, and whether that is worth remembering."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schemas.turns import Turn
from streams.extract.core.triggers import FiredTrigger, TriggerRules, fired
from streams.extract.core.utterances import Recalled, Utterance, heard, recalled_in


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


def look(
    turn: Turn, earlier: Sequence[Turn], rules: TriggerRules, visits: Mapping[str, int]
) -> ExaminedTurn:
    """Return the triggers of a turn; `earlier` are the turns before it in its scope and session."""
    recalled = recalled_in((*earlier, turn))
    said = heard(turn, recalled)
    return ExaminedTurn(turn, fired(turn, said, rules), said, tuple(earlier), recalled, visits)
