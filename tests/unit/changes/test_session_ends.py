"""What ends with a session, and the requests for that."""

from typing import Any

import pytest

from schemas.events import MEMBERS_MAX
from streams.changes.app.retiring import session_over
from streams.stage.core.sessions import ending_with
from tests.builders import START, identity, memory


@pytest.mark.covers("S0.30")
@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({}, True),
        ({"persistence": "permanent"}, False),
        ({"persistence": None}, False),
        ({"sessions": ("1", "2")}, False),
        ({"sessions": ("2",)}, False),
        ({"sessions": ()}, False),
        ({"status": "tentative"}, True),
    ],
)
def test_what_ends_with_a_session(fields: dict[str, Any], *, ends: bool) -> None:
    known: dict[str, Any] = {"persistence": "ephemeral", "sessions": ("1",), **fields}
    found = memory(**known)
    assert (ending_with("1", [found]) == [found]) is ends


def test_each_scope_is_asked_for_itself_and_no_request_is_too_large() -> None:
    many = [_ephemeral(number, "game/5") for number in range(MEMBERS_MAX + 1)]
    every = [*many, _ephemeral(999, "game/4")]
    requests = session_over("1", every, author="ana", now=START)
    assert [(one.scope, len(one.memories)) for one in requests] == [
        ("game/4", 1),
        ("game/5", MEMBERS_MAX),
        ("game/5", 1),
    ]
    assert {one.reason for one in requests} == {"ended"}
    assert len({one.event_id for one in requests}) == 3


def _ephemeral(number: int, scope: str) -> Any:
    return memory(id=identity(number), scope=scope, persistence="ephemeral", sessions=("1",))
