"""The turns before a turn: what it leans on, and what was recalled into its prompt."""

from collections import OrderedDict
from typing import TypeAlias

from schemas.base import ScopeName
from schemas.turns import Turn

REACH = 1_000
"""How many places back a turn is remembered: so many are read anew to know them again."""

_Key: TypeAlias = tuple[ScopeName, str | None]


class Window:
    """Turns by scope and session, in the order of their places: lines of a file, or offsets.

    It follows from the last REACH places alone, so whoever reads those has the same one.
    """

    def __init__(self, turns_max: int) -> None:
        """`turns_max` is how many turns before a turn are told."""
        self._turns_max = turns_max
        self._turns: OrderedDict[_Key, tuple[tuple[int, Turn], ...]] = OrderedDict()

    def fork(self) -> "Window":
        """Return a copy that goes its own way."""
        copy = Window(self._turns_max)
        copy._turns = self._turns.copy()
        return copy

    def before(self, place: int, turn: Turn) -> tuple[Turn, ...]:
        """Return the turns before one at a place, oldest first.

        What happened later is left out where a turn comes late, and so is the turn itself where it
        comes again.
        """
        return tuple(
            one
            for at, one in self._turns.get(_key(turn), ())
            if at >= place - REACH
            and one.occurred_at <= turn.occurred_at
            and one.turn_id != turn.turn_id
        )

    def add(self, place: int, turn: Turn) -> None:
        """Remember a turn at a place behind all others; one that comes late is before none."""
        key = _key(turn)
        others = tuple(o for o in self._turns.get(key, ()) if o[1].turn_id != turn.turn_id)
        if self._turns_max and not (others and others[-1][1].occurred_at > turn.occurred_at):
            self._turns[key] = (*others, (place, turn))[-self._turns_max :]
            self._turns.move_to_end(key)
        self._forget(place - REACH)

    def _forget(self, before: int) -> None:
        while self._turns:
            key, turns = next(iter(self._turns.items()))
            if turns[-1][0] >= before:
                return
            del self._turns[key]


def _key(turn: Turn) -> _Key:
    return turn.scope, turn.session
