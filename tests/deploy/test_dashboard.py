"""The dashboard is what its script makes, and shows what is exposed."""

import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.grafana.dashboard import ROWS, written
from tests.support.pages import exposed

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "grafana" / "memsieve.json"
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8"))
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] != "row"]
TARGETS = [(panel, target) for panel in GRAPHS for target in panel["targets"]]


def test_the_file_is_what_the_script_writes() -> None:
    made = "run `python deploy/grafana/dashboard.py > deploy/grafana/memsieve.json`"
    assert FILE.read_bytes() == written().encode(), made


@pytest.mark.parametrize(
    ("panel", "target"), TARGETS, ids=[f"{panel['title']}-{one['refId']}" for panel, one in TARGETS]
)
def test_a_panel_shows_metrics_and_labels_that_are_exposed(
    panel: dict[str, Any], target: dict[str, Any]
) -> None:
    assert exposed.problems(target["expr"]) == []
    named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    grouped = re.findall(r"\bby \(([^)]*)\)", target["expr"])
    kept = {label.strip() for labels in grouped for label in labels.split(",")}
    kept = kept or {"instance", "job"}
    assert named <= kept, panel["title"]


def test_every_question_has_a_row_and_every_row_its_panels_below_it() -> None:
    rows = [panel for panel in PANELS if panel["type"] == "row"]
    assert [row["title"] for row in rows] == list(ROWS)
    assert all(row["title"].endswith("?") for row in rows)
    for row, (question, panels) in zip(rows, ROWS.items(), strict=True):
        below = [one for one in GRAPHS if one["gridPos"]["y"] == row["gridPos"]["y"] + 1]
        assert [one["title"] for one in below] == [panel.title for panel in panels], question


def test_no_panel_covers_another_or_leaves_the_page() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
    for one, other in combinations([panel["gridPos"] for panel in PANELS], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


def test_a_line_is_drawn_where_an_alert_fires() -> None:
    thresholds = {
        float(number)
        for rule in RULES["groups"][0]["rules"]
        for number in re.findall(r"> ([\d.]+)", rule["expr"])
    }
    drawn = {panel.alert_at for panels in ROWS.values() for panel in panels} - {None}
    assert len(drawn) > 3
    # Takeovers are counted beyond a bound of the histogram.
    assert drawn <= thresholds | {10}


@pytest.mark.process
def test_prometheus_itself_can_read_every_expression(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on the PATH: Debian's package `prometheus` has it")
    rules = [
        {"record": f"panel:{number}", "expr": target["expr"].replace("$__rate_interval", "5m")}
        for number, (_, target) in enumerate(TARGETS)
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    done = subprocess.run(
        [promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(TARGETS)} rules found" in done.stdout
