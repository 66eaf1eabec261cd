"""The turns before a turn: its context, what was recalled into its prompt, and its visits."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import TypeAlias

from schemas.base import ScopeName
from schemas.turns import Turn
from streams.extract.core.visits import Visits

REACH = 1_000
"""How many positions back turns are kept: as many are read again after a restart."""

_Key: TypeAlias = tuple[ScopeName, str | None]


class Window:
    """Turns by scope and session, in order of position: lines of a file, or offsets.

    It depends only on the last REACH positions, so whoever reads those rebuilds the same window;
    but visits are counted from the first turn that it was given.
    """

    def __init__(self, turns_max: int) -> None:
        """`turns_max` is how many earlier turns are returned for a turn."""
        self._turns_max = turns_max
        self._turns: OrderedDict[_Key, tuple[tuple[int, Turn], ...]] = OrderedDict()
        self._visits = Visits()

    def fork(self) -> "Window":
        """Return an independent copy."""
        copy = Window(self._turns_max)
        copy._turns = self._turns.copy()
        copy._visits = self._visits.fork()
        return copy

    def before(self, place: int, turn: Turn) -> tuple[Turn, ...]:
        """Return the turns before one at a position, oldest first.

        Turns that happened later are left out, and so is a redelivered turn itself.
        """
        return tuple(
            one
            for at, one in self._turns.get(_key(turn), ())
            if at >= place - REACH
            and one.occurred_at <= turn.occurred_at
            and one.turn_id != turn.turn_id
        )

    def add(self, place: int, turn: Turn) -> Mapping[str, int]:
        """Add a turn at a position after all others; one that arrives late precedes no turn.

        Return the visits to its place so far, by session.
        """
        key = _key(turn)
        others = tuple(o for o in self._turns.get(key, ()) if o[1].turn_id != turn.turn_id)
        if self._turns_max and not (others and others[-1][1].occurred_at > turn.occurred_at):
            self._turns[key] = (*others, (place, turn))[-self._turns_max :]
            self._turns.move_to_end(key)
        self._forget(place - REACH)
        return self._visits.add(turn)

    def _forget(self, before: int) -> None:
        while self._turns:
            key, turns = next(iter(self._turns.items()))
            if turns[-1][0] >= before:
                return
            del self._turns[key]


def _key(turn: Turn) -> _Key:
    return turn.scope, turn.session
