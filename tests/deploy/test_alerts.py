"""The alerts ask for what is there, lead to a page that helps, and fire when they should."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from streams.main.command_line import app
from streams.store.app.settings import Settings, descriptions
from tests.support.pages import exposed

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
CASES = ROOT / "deploy" / "prometheus" / "alerts_test.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"
GROUPS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in GROUPS for rule in group["rules"]
}
ANSWERS = {
    "MemsieveLag",
    "MemsieveOverlayOld",
    "MemsieveOverlayLarge",
    "MemsieveBrakeOn",
    "MemsieveDeadLetters",
    "MemsieveRemovalRateHigh",
    "MemsieveRemovalRateLow",
    "MemsieveTakeoverSlow",
    "MemsieveIndexApart",
}
"""What every installation has to be told of."""

_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_TEMPLATE = re.compile(r"\{\{.*?\$labels\.(\w+).*?\}\}")


def test_there_is_an_alert_for_all_that_matters() -> None:
    assert set(ALERTS) >= ANSWERS
    assert len(ALERTS) == sum(len(group["rules"]) for group in GROUPS), "a name is there twice"


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_asks_for_metrics_that_are_exposed(name: str) -> None:
    assert exposed.problems(ALERTS[name]["expr"]) == []


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"


@pytest.mark.parametrize("name", ALERTS)
def test_the_labels_of_a_summary_outlive_the_expression(name: str) -> None:
    """`sum by (topic)` leaves the topic alone: another label would be shown as nothing."""
    named = set(_TEMPLATE.findall(ALERTS[name]["annotations"]["summary"]))
    kept = re.findall(r"\bsum(?: by \(([^)]*)\))?\s*\(", ALERTS[name]["expr"])
    if kept and "and on (" not in ALERTS[name]["expr"]:
        assert named <= {label.strip() for label in kept[0].split(",")}
    else:
        samples = [one for one in exposed.samples() if one in ALERTS[name]["expr"]]
        labels = set[str]().union(*(exposed.samples()[one] for one in samples))
        assert named <= labels | {"instance", "job"}


def test_the_runbook_has_a_section_for_each_alert_in_the_order_of_the_rules() -> None:
    sections = dict(_SECTION.findall(RUNBOOK.read_text("utf-8")))
    assert list(sections) == list(ALERTS)
    for name, text in sections.items():
        assert "**Meaning.**" in text, name
        assert re.search(r"\*\*Check(?:\.| and fix)", text), name
        assert re.search(r"\*\*(?:Fix\.|Check and fix)", text), name


def test_what_the_runbook_names_is_there() -> None:
    settings, samples = set(descriptions()), exposed.samples()
    metrics = {one.shown for part in exposed.metrics().values() for one in part}
    groups = {name.partition(".")[0] for name in settings}
    for code in _CODE.findall(RUNBOOK.read_text("utf-8")):
        if code.startswith("memsieve "):
            _require_command(code.split()[1:])
        elif code.startswith("memsieve_"):
            assert code.partition("{")[0] in metrics | samples.keys(), code
        elif (named := re.match(r"[a-z]+\.[a-z_.]+", code)) and code.split(".")[0] in groups:
            assert named[0] in settings | {"brake.removals_max"}, code


def _require_command(words: list[str]) -> None:
    command: Any = get_command(app)
    for word in words:
        if not (children := getattr(command, "commands", {})):
            break
        command = children[word]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options, words


def test_half_of_the_overlay_is_half_of_the_setting() -> None:
    written = re.search(r"> (\d+)$", ALERTS["MemsieveOverlayLarge"]["expr"])
    assert written is not None
    assert int(written[1]) * 2 == Settings().service.overlay_memories_max


def test_each_alert_has_a_case_where_it_fires_and_one_where_it_does_not() -> None:
    cases = yaml.safe_load(CASES.read_text("utf-8"))
    asked = [one for test in cases["tests"] for one in test["alert_rule_test"]]
    assert {one["alertname"] for one in asked if one["exp_alerts"]} == set(ALERTS)
    assert {one["alertname"] for one in asked if not one["exp_alerts"]} == set(ALERTS)


@pytest.mark.process
@pytest.mark.parametrize(("how", "file"), [("check", RULES), ("test", CASES)])
def test_prometheus_itself_takes_the_rules_and_fires_them(how: str, file: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH: Debian's package `prometheus` has it")
    done = subprocess.run(
        [promtool, how, "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
