"""Questions and the brake in a cluster: what people see, and what they can do about it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from schemas.codec import EVENT
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.identity import named_memory_id
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from tests.builders import event, later
from tests.commands.reviews.test_reviews import BEES, GOATS, HIVES, POLICY, SHEEP
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

PARTITIONS = 3
ANA, BO = ScopeName("acme/ana"), ScopeName("acme/bo")


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation in which nobody judges: what is similar is put to a person."""
    (tmp_path / "asking.toml").write_text(POLICY, encoding="utf-8")
    installation = Installation.on(
        tmp_path, kafka_bootstrap, topic_prefix, policy="asking.toml", reviews__author="cleo"
    )
    installation.memsieve("service", "topics", "create", "--partitions", str(PARTITIONS))
    return installation


async def publish(
    installation: Installation,
    scope: ScopeName,
    *texts: str,
    first: int = 0,
    **fields: Sequence[object],
) -> None:
    """Publish events as a producer of the scope would; `fields` has a value for each.

    They are numbered from `first` on.
    """
    variables = installation.variables
    log = KafkaLog(
        Connection(variables["MEMSIEVE_KAFKA__BOOTSTRAP"], variables["MEMSIEVE_KAFKA__PREFIX"])
    )
    partition = partition_of(scope, PARTITIONS)
    await log.append(
        [
            OutgoingRecord(
                "memory.events",
                partition,
                scope.encode(),
                EVENT.encode(
                    event(
                        text,
                        scope=scope,
                        event_id=f"e{first + n}",
                        occurred_at=later(first + n),
                        **{name: values[n] for name, values in fields.items()},
                    )
                ),
            )
            for n, text in enumerate(texts)
        ]
    )
    await log.close()


def questions(installation: Installation, *options: str) -> list[Any]:
    return installation.json("reviews", "list", *options)


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B40")
async def test_questions_are_answered_while_the_service_decides(served: Installation) -> None:
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(served, ANA, BEES, HIVES)
        await publish(served, BO, GOATS, SHEEP)
        wait_until(lambda: len(questions(served)) == 2, "two questions are asked", seconds=60)

        [ana] = questions(served, "--scope", ANA)
        assert "state      open" in served.memsieve("reviews", "show", ana["id"][:8])
        printed = served.memsieve("reviews", "answer", ana["id"], "refines")
        place = f"memory.events/{partition_of(ANA, PARTITIONS)}/2"
        assert f"answered  {ana['id']}  refines\npublished as {place}; " in printed
        wait_until(lambda: len(questions(served)) == 1, "the answer is decided on", seconds=60)
        [bo] = questions(served)
        served.memsieve("reviews", "answer", bo["id"], "distinct", "--author", "dora")
        wait_until(lambda: questions(served) == [], "both are answered", seconds=60)
        refused = served.memsieve("reviews", "answer", ana["id"], "same", code=2)
        assert "is closed: answered refines by cleo" in refused

        wait_until(lambda: len(served.json("memory", "list")) == 3, "the answer is applied")
        assert {one["text"] for one in served.json("memory", "list")} == {HIVES, GOATS, SHEEP}
        assert "2 answered questions" in served.memsieve("reviews", "export")
        assert service.stop() == 0
    assert "every reject has its dead letter" in served.memsieve("check", "--full")


BRAKED = (
    POLICY
    + """
supersede = { named_max = 1 }
brake = { decisions_min = 1, removals_max = 0 }
"""
)


@pytest.mark.timeout(200)
@pytest.mark.covers("B115", "S2.30")
async def test_the_brake_is_on_for_whoever_watches_the_service(
    served: Installation, tmp_path: Path
) -> None:
    (tmp_path / "asking.toml").write_text(BRAKED, encoding="utf-8")
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(
            served,
            ANA,
            *(GOATS, BEES, SHEEP),
            memory_id=["0", "1", "2"],
            supersedes=[(), (named_memory_id(ANA, "0"),), (named_memory_id(ANA, "1"),)],
        )
        wait_until(lambda: len(served.json("decisions")) == 3, "all is decided", seconds=60)
        assert service.metric("memsieve_braked_decisions_total") == 1
        assert service.metric("memsieve_removal_rate") == 2 / 3
        assert service.metric("memsieve_merge_rate") == 0
        wait_until(
            lambda: any("the brake is on for scope acme/ana" in line for line in service.events),
            "the service warns",
        )
        assert not any(text in service.said for text in (GOATS, BEES, SHEEP))
        assert service.stop() == 0
