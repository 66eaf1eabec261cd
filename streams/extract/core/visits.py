"""How often each session entered each place."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.base import ScopeName
from schemas.turns import State, Turn
from streams.extract.core.noting import place_of

PLACES_MAX = 10_000
SESSIONS_MAX = 64
"""Places, and sessions at each, that are counted; what was left alone longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class _Visits:
    """How often a session entered a place, the turn told last, and whether it led away."""

    count: int
    turn_id: str
    left: bool


class Visits:
    """Counts the visits of sessions to places, turn by turn."""

    def __init__(self) -> None:
        self._known = OrderedDict[ScopeName, dict[str, _Visits]]()

    def fork(self) -> "Visits":
        """Return an independent copy."""
        copy = Visits()
        copy._known = self._known.copy()
        return copy

    def add(self, turn: Turn) -> Mapping[str, int]:
        """Count the next turn; return the visits to its place so far, by session.

        A visit begins with the first turn there, with a turn that leads there, and with the first
        one after a turn that led away. Empty if the turn tells of no place or of no session.
        """
        place = place_of(turn)
        if place is None or turn.session is None or turn.state is None:
            return {}
        sessions = dict(self._known.get(turn.scope, {}))
        known = sessions.pop(turn.session, None)
        moved = _moves(turn.state)
        left = moved and turn.state.location_before == place
        if known is None:
            known = _Visits(1, turn.turn_id, left)
        elif known.turn_id != turn.turn_id:
            enters = known.left or (moved and not left)
            known = _Visits(known.count + enters, turn.turn_id, left)
        sessions[turn.session] = known
        if len(sessions) > SESSIONS_MAX:
            del sessions[next(iter(sessions))]
        self._known[turn.scope] = sessions
        self._known.move_to_end(turn.scope)
        if len(self._known) > PLACES_MAX:
            self._known.popitem(last=False)
        return {session: one.count for session, one in sessions.items()}


def _moves(state: State) -> bool:
    before, after = state.location_before, state.location_after
    return before is not None and after is not None and before.id != after.id
