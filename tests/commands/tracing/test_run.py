"""`memsieve run` sends spans, too, where tracing is on."""

import json
from pathlib import Path

import pytest

from tests.commands.conftest import Memsieve
from tests.support.servers.otlp import Collector

EVENTS = Path(__file__).parents[3] / "examples" / "trap-door.jsonl"


def test_run_sends_a_trace_for_each_event(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collector() as collector:
        for name, value in collector.variables.items():
            monkeypatch.setenv(name, value)
        assert memsieve("run", EVENTS, "--store", "traced").code == 0
        monkeypatch.setenv("MEMSIEVE_TRACING__ENABLED", "false")
        assert memsieve("run", EVENTS, "--store", "plain").code == 0
    ids = [json.loads(line)["event_id"] for line in EVENTS.read_text("utf-8").splitlines()]
    for event in ids:
        decide, apply = (
            next(
                one
                for one in collector.spans
                if one.name.startswith(name) and one.attributes["memsieve.event.id"] == event
            )
            for name in ("decide", "apply")
        )
        assert (apply.trace, apply.parent) == (decide.trace, decide.span)
        assert decide.service == "memsieve"
    assert len(collector.spans) == 2 * len(ids)  # the second run sent none
    listed = [memsieve("decisions", "--store", store, "--json") for store in ("traced", "plain")]
    assert listed[0].out == listed[1].out


def test_what_the_sdk_refuses_is_said_in_a_line(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_TRACING__ENABLED", "true")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    refused = memsieve("run", EVENTS, "--store", "traced")
    assert refused.code == 2
    [line] = refused.err.splitlines()
    assert line.startswith("memsieve: tracing: a variable OTEL_… cannot be used: ")
