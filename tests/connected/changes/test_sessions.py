"""Sessions of a cluster's agents: what the services log of them, and how they end."""

from pathlib import Path

import pytest

from schemas.base import ScopeName
from tests.connected.reviews.test_reviews import publish
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

CELLAR = ScopeName("game/5")


KEY, THIEF = "The grating needs a key.", "The thief is in the next room."
LAMP = "The lamp is getting dim."


@pytest.mark.timeout(200)
@pytest.mark.covers("S0.30", "S0.67", "B23", "B114")
async def test_services_end_what_was_for_a_session_alone(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    served = Installation.on(tmp_path, kafka_bootstrap, topic_prefix, logging__decisions="info")
    served.memsieve("service", "topics", "create", "--partitions", "3")
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(
            served,
            CELLAR,
            *(THIEF, KEY, KEY.upper(), LAMP),
            session=["3", "3", "3", "4"],
            persistence=["ephemeral", "permanent", "permanent", "ephemeral"],
        )
        wait_until(lambda: len(served.json("memory", "list")) == 3, "all are kept", seconds=60)
        printed = served.memsieve("memory", "sessions", "end", "3", "--author", "game")
        assert printed.startswith("ended         1   ephemeral")
        assert "\nstay          0   pinned" in printed
        assert {one["text"] for one in served.json("memory", "list")} == {KEY, LAMP}
        assert "duplicate found" in service.events
        assert not any(word in service.said for word in (THIEF, KEY, KEY.upper(), LAMP))
        assert "memsieve_decide_seconds_count" in service.get("/metrics")
        assert service.stop() == 0
    unheard = served.memsieve(
        "memory", "sessions", "end", "4", "--author", "game", "--wait", "1", code=7
    )
    assert unheard.startswith("ended         0   ephemeral")
    assert "\nasked         1   requested; the services have not decided yet" in unheard
    assert "no owner has decided on 1 of 1 requests within 1 s" in unheard
    assert "every reject has its dead letter" in served.memsieve("check", "--full")
