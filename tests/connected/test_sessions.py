"""Sessions of a cluster's agents: what the services log of them, and how they end."""

from pathlib import Path

import pytest

from schemas.base import ScopeName
from tests.connected.test_reviews import publish
from tests.support.services import Installation
from tests.support.waiting import wait_until

CELLAR = ScopeName("game/5")


KEY, THIEF = "The grating needs a key.", "The thief is in the next room."


@pytest.mark.timeout(200)
@pytest.mark.covers("S0.30", "S0.67", "B23", "B114")
async def test_services_end_what_was_for_a_session_alone(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    served = Installation.on(tmp_path, kafka_bootstrap, topic_prefix, logging__decisions="info")
    served.memsieve("topics", "create", "--partitions", "3")
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(
            served,
            CELLAR,
            *(THIEF, KEY, KEY.upper()),
            session=["3", "3", "3"],
            persistence=["ephemeral", "permanent", "permanent"],
        )
        wait_until(lambda: len(served.json("memories")) == 2, "both are kept", seconds=60)
        printed = served.memsieve("sessions", "end", "3", "--author", "game")
        assert printed.startswith("asked         1   to end")
        wait_until(lambda: len(served.json("memories")) == 1, "one has ended", seconds=60)
        assert [one["text"] for one in served.json("memories")] == [KEY]
        assert "duplicate found" in service.events
        assert not any(word in service.said for word in (THIEF, KEY, KEY.upper()))
        assert "memsieve_decide_seconds_count" in service.get("/metrics")
        assert service.stop() == 0
    assert "every reject has its dead letter" in served.memsieve("verify")
