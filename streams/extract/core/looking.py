"""A turn with its triggers: what it says, and whether that is worth remembering."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.turns import Turn
from streams.extract.core.hearing import Heard, Recalled, heard, recalled_in
from streams.extract.core.triggers import Fired, Rules, fired


@dataclass(frozen=True)
class Looked:
    """A turn and the triggers that fired, with everything they were read from.

    `heard` is what it says without echoes, `earlier` are the turns before it, oldest first.
    """

    turn: Turn
    fired: tuple[Fired, ...]
    heard: tuple[Heard, ...]
    earlier: tuple[Turn, ...]
    recalled: Recalled


def look(turn: Turn, earlier: Sequence[Turn], rules: Rules) -> Looked:
    """Return the triggers of a turn; `earlier` are the turns before it in its scope and session."""
    recalled = recalled_in((*earlier, turn))
    said = heard(turn, recalled)
    return Looked(turn, fired(turn, said, rules), said, tuple(earlier), recalled)
