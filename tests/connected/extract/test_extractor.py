"""The extractor on a real broker: published turns become events, once each and in their order."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from schemas.codec import EVENT, TURN
from schemas.events import Remember
from schemas.turns import Turn
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from tests.builders import later, turn
from tests.connected.services.test_services import log_of
from tests.standin.llm import Asked, LlmServer, Reply, said
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation, over_rest

PARTITIONS = 3
SCOPES = ("acme/ana", "acme/bo", "acme/cy")
DIED = {"died": True}


def fact(number: int) -> str:
    return f"Box {number} of the cellar holds {number * 7} green bottles."


def turns(count: int) -> list[Turn]:
    """Build turns of several scopes, each of which says a fact of its own."""
    return [
        turn(
            ("world", fact(number)),
            turn_id=f"t-{number}",
            scope=SCOPES[number % len(SCOPES)],
            number=number,
            occurred_at=later(number / 60),
            state=DIED,
        )
        for number in range(count)
    ]


def write(path: Path, found: Sequence[Turn]) -> None:
    path.write_bytes(b"".join(TURN.encode(one) + b"\n" for one in found))


def installation(path: Path, kafka: str, prefix: str, **settings: str) -> Installation:
    made = Installation.on(path, kafka, prefix, service__session_seconds="6", **settings)
    made.memsieve("service", "topics", "create", "--partitions", str(PARTITIONS))
    return made


async def events(made: Installation) -> list[Remember]:
    """Return the events of all partitions, those of each in their order."""
    log, found = log_of(made), list[Remember]()
    for partition in range(PARTITIONS):
        for record in await log.read("memory.events", partition, 0, 1_000):
            event = EVENT.decode(record.value or b"")
            assert isinstance(event, Remember)
            assert partition == partition_of(event.scope, PARTITIONS)
            found.append(event)
    await log.close()
    return found


async def are_there(made: Installation, wanted: Callable[[list[Remember]], bool]) -> None:
    async with asyncio.timeout(60):
        while not wanted(await events(made)):  # noqa: ASYNC110 - other processes do it
            await asyncio.sleep(0.1)


def in_order(found: Sequence[Remember]) -> bool:
    by_scope = [[one.turn or 0 for one in found if one.scope == scope] for scope in SCOPES]
    return all(numbers == sorted(numbers) for numbers in by_scope)


def worded(asked: Asked) -> Reply:
    """Word what the turn says, differently each time."""
    now = asked.data["now"]
    answer = {
        "reasoning": "It is new.",
        "should_remember": True,
        "category": "NOTE",
        "memory_title": f"Box {now['turn']}",
        "memory_text": f"{now['said'][0]['text']} {'Indeed. ' * (id(asked) % 7)}",
        "said_by": "world",
    }
    return said(json.dumps(answer))


def decided_once(made: Installation, count: int) -> None:
    """Wait until so many events are decided on; assert that each has one decision, and no other."""
    wait_until(lambda: len(made.json("decisions")) >= count, f"{count} decisions")
    decisions: list[Any] = made.json("decisions")
    assert len(decisions) == count
    assert len({one["decision_id"] for one in decisions}) == count
    assert {one["kind"] for one in decisions} & {"ignore", "reject"} == set()


@pytest.mark.timeout(300)
@pytest.mark.covers("S3.29")
async def test_turns_that_are_published_become_memories(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    made = installation(tmp_path, kafka_bootstrap, topic_prefix)
    write(tmp_path / "turns.jsonl", turns(12))
    quiet: dict[str, Any] = {
        "turn_id": "quiet",
        "occurred_at": "2026-03-01T09:00:00Z",
        "said": [],
        "number": 1,
    }
    idle = {**quiet, "said": [{"by": "world", "text": "Time passes."}]}
    (tmp_path / "more.jsonl").write_text(f"{json.dumps(idle)}\n{json.dumps(quiet)}\n", "utf-8")
    with made.running("serve") as serve, made.running("extractor") as extractor:
        serve.wait_until_ready()
        extractor.wait_until_ready()
        assert "published 12 turns" in made.memsieve("publish", "turns.jsonl", "--turns")
        options = ("--turns", "--scope", "acme/ana")
        assert "1 of 2 rows could not be used" in made.memsieve("publish", "more.jsonl", *options)
        await are_there(made, lambda found: len(found) == 12)
        decided_once(made, 12)
        assert in_order(await events(made))
        assert "0 turns to extract from, 0 events to decide" in made.memsieve("check")
        wait_until(lambda: extractor.metric("memsieve_turns_total") == 13, "the turns are counted")
        assert extractor.metric("memsieve_turns_total", outcome="untriggered") == 1
        assert extractor.metric("memsieve_turn_triggers_total", trigger="death") == 12
        assert extractor.metric("memsieve_turn_events_total") == 12
        assert extractor.stop() == 0
        assert serve.stop() == 0
    [letter] = made.json("dead-letters", "list")
    assert (letter["stage"], letter["field"]) == ("read", "said")


@pytest.mark.timeout(300)
@pytest.mark.covers("S3.32")
async def test_killed_in_mid_batch_nothing_is_lost_and_nothing_decided_twice(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> None:
    gate: list[Asked] = []

    def slowly(asked: Asked) -> Reply:
        gate.append(asked)
        reply = worded(asked)
        return Reply(content=reply.content, wait_seconds=60.0 if len(gate) == 10 else 0.02)

    with LlmServer(slowly) as server:
        made = installation(
            tmp_path,
            kafka_bootstrap,
            topic_prefix,
            **over_rest(qdrant_url, collection_prefix),
            llm__base_url=server.url,
            llm__model="tiny",
            llm__requests_per_minute_tenant="1000",
            llm__requests_per_minute="1000",
        )
        write(tmp_path / "turns.jsonl", turns(30))
        made.memsieve("publish", "turns.jsonl", "--turns")
        with made.running("serve") as serve:
            serve.wait_until_ready()
            with made.running("extractor", "--llm") as first:
                wait_until(lambda: len(gate) >= 10, "it is in the middle of a batch")
                first.kill()
            with made.running("extractor", "--llm") as second:
                await are_there(made, lambda found: len({one.turn for one in found}) == 30)
                decided_once(made, 30)
                assert second.stop() == 0
            found = await events(made)
            assert in_order(found)
            assert sorted(one.turn or 0 for one in found) == list(range(30))
            assert made.json("dead-letters", "list") == []
            assert serve.stop() == 0
    seen = [asked.data["known"] for asked in gate if asked.data["now"]["turn"] >= 27]
    assert all(len(known) >= 8 for known in seen)  # what was taken before the kill, too


@pytest.mark.timeout(300)
@pytest.mark.covers("B125")
async def test_what_fails_becomes_dead_letters_and_comes_back_when_requeued(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    failing = [True]

    def script(asked: Asked) -> Reply:
        lost = failing[0] and asked.data["now"]["turn"] == 1
        return Reply(503) if lost else worded(asked)

    with LlmServer(script) as server:
        made = installation(
            tmp_path,
            kafka_bootstrap,
            topic_prefix,
            llm__base_url=server.url,
            llm__model="tiny",
            llm__attempts_max="1",
            extraction__failures_max="2",
            extraction__llm="true",
        )
        bad = TURN.encode(turns(1)[0]).replace(b'"by":"world"', b'"by":"ghost"')
        log, scope = log_of(made), ScopeName(SCOPES[0])
        place = partition_of(scope, PARTITIONS)
        await log.append([OutgoingRecord("memory.turns", place, scope.encode(), bad)])
        await log.close()
        write(tmp_path / "turns.jsonl", turns(3))
        made.memsieve("publish", "turns.jsonl", "--turns")
        with made.running("serve", "--extract") as service:
            service.wait_until_ready()
            await are_there(made, lambda found: {one.turn for one in found} == {0, 2})
            wait_until(lambda: len(made.json("dead-letters", "list")) == 2, "both are set aside")
            letters = {one["stage"]: one for one in made.json("dead-letters", "list")}
            assert letters["decode"]["field"] == "said.0.by"
            assert "does not answer (http 503)" in letters["extract"]["error"]
            assert service.metric("memsieve_extract_failures_total", reason="http 503") == 2
            assert service.metric("memsieve_turns_total", outcome="set-aside") == 2
            failing.clear()
            failing.append(False)
            printed = made.memsieve("dead-letters", "requeue", "--all-open")
            assert f"requeued  {letters['extract']['id']}" in printed
            assert "would fail again: said.0.by" in printed
            await are_there(made, lambda found: {one.turn for one in found} == {0, 1, 2})
            mended = made.memsieve("dead-letters", "show", letters["decode"]["id"], "--value")
            (tmp_path / "turn.json").write_text(
                mended.replace("ghost", "world").replace("t-0", "t-9"), "utf-8"
            )
            made.memsieve("dead-letters", "requeue", letters["decode"]["id"], "--with", "turn.json")
            decided_once(made, 4)
            assert service.stop() == 0
    assert made.json("dead-letters", "list") == []
