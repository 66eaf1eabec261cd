"""Makes the Grafana dashboard: `python deploy/grafana/dashboard.py > deploy/grafana/memsieve.json`.

A row for each question, its panels side by side. Import the file in Grafana, or let its provisioning
read this folder; it asks for a Prometheus data source.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT = 24, 8
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_RATE = "[$__rate_interval]"


@dataclass(frozen=True)
class Panel:
    """What one graph shows: expressions in PromQL by their legends.

    `alert_at` draws a line where an alert of deploy/prometheus/alerts.yml fires.
    """

    title: str
    unit: str
    shown: dict[str, str]
    alert_at: float | None = None
    stacked: bool = False


ROWS: dict[str, tuple[Panel, ...]] = {
    "What runs, and is it ready?": (
        Panel(
            "Processes by version and policy",
            "short",
            {
                "{{version}} {{policy}}": "count by (version, policy) (memsieve_build_info)",
            },
            stacked=True,
        ),
        Panel(
            "Processes that are not ready",
            "short",
            {"{{instance}}": "memsieve_ready == bool 0"},
            alert_at=0,
        ),
    ),
    "How many events are decided on, and with what result?": (
        Panel(
            "Decisions by kind",
            "ops",
            {"{{kind}}": f"sum by (kind) (rate(memsieve_decisions_total{_RATE}))"},
            stacked=True,
        ),
        Panel("Changes applied", "ops", {"changes": f"sum(rate(memsieve_changes_total{_RATE}))"}),
    ),
    "Do records wait?": (
        Panel(
            "Waiting records",
            "short",
            {"{{topic}}": "sum by (topic) (memsieve_lag_records)"},
        ),
        Panel(
            "Stalled partitions",
            "short",
            {
                "{{topic}} at {{instance}}": (
                    'sum by (topic, instance) (memsieve_partitions{state="waiting"})'
                )
            },
        ),
        Panel(
            "Waits for Kafka or the index",
            "ops",
            {"{{topic}}": f"sum by (topic) (rate(memsieve_failures_total{_RATE}))"},
        ),
    ),
    "How long does deciding take?": (
        Panel(
            "Time to decide on a batch",
            "s",
            {
                f"{share:.0%}": (
                    f"histogram_quantile({share}, "
                    f"sum by (le) (rate(memsieve_decide_seconds_bucket{_RATE})))"
                )
                for share in (0.5, 0.95, 0.99)
            },
        ),
        Panel(
            "Of that, average time to encode texts",
            "s",
            {
                "encoding": (
                    f"sum(rate(memsieve_embed_seconds_sum{_RATE}))"
                    f" / sum(rate(memsieve_embed_seconds_count{_RATE}))"
                ),
                "all of it": (
                    f"sum(rate(memsieve_decide_seconds_sum{_RATE}))"
                    f" / sum(rate(memsieve_decide_seconds_count{_RATE}))"
                ),
            },
        ),
        Panel(
            "1,000 records",
            "s",
            {
                "{{topic}}": (
                    f"1000 * sum by (topic) (rate(memsieve_batch_seconds_sum{_RATE}))"
                    f" / sum by (topic) (rate(memsieve_batch_records_sum{_RATE}))"
                )
            },
            alert_at=60,
        ),
    ),
    "What cannot be used?": (
        Panel(
            "Events that are dead letters",
            "percentunit",
            {
                "share": (
                    f'sum(rate(memsieve_decisions_total{{kind="reject"}}{_RATE}))'
                    f" / sum(rate(memsieve_decisions_total{_RATE}))"
                )
            },
            alert_at=0.01,
        ),
        Panel(
            "Turns that are dead letters",
            "percentunit",
            {
                "share": (
                    f'sum(rate(memsieve_turns_total{{outcome="set-aside"}}{_RATE}))'
                    f" / sum(rate(memsieve_turns_total{_RATE}))"
                )
            },
            alert_at=0.01,
        ),
        Panel(
            "Ignored records of memory.decisions",
            "ops",
            {"{{reader}}": f"sum by (reader) (rate(memsieve_refused_records_total{_RATE}))"},
        ),
    ),
    "Is too much merged, or too little?": (
        Panel(
            "Newest changes that retire memories (5 to 20 % is usual)",
            "percentunit",
            {"{{instance}}": "memsieve_removal_rate"},
            alert_at=0.2,
        ),
        Panel(
            "Newest changes that are merges",
            "percentunit",
            {"{{instance}}": "memsieve_merge_rate"},
        ),
        Panel(
            "Held back by the brake",
            "short",
            {"{{instance}}": "increase(memsieve_braked_decisions_total[15m])"},
            alert_at=0,
        ),
    ),
    "Does the index follow the log?": (
        Panel(
            "Memories waiting for the writer",
            "short",
            {"{{instance}}": "memsieve_overlay_memories"},
            alert_at=50_000,
        ),
        Panel(
            "Age of the oldest waiting decision",
            "s",
            {"{{instance}}": "memsieve_overlay_seconds"},
            alert_at=60,
        ),
        Panel(
            "Takeovers of partitions",
            "short",
            {"{{instance}}": "increase(memsieve_fences_total[15m])"},
        ),
        Panel(
            "Longest takeovers",
            "s",
            {
                "{{topic}}": (
                    "histogram_quantile(0.95, sum by (topic, le) (memsieve_claim_seconds_bucket))"
                )
            },
            alert_at=10,
        ),
    ),
    "Do the judges answer?": (
        Panel(
            "Verdicts by judge",
            "ops",
            {
                "{{judge}}: {{verdict}}": (
                    f"sum by (judge, verdict) (rate(memsieve_judged_pairs_total{_RATE}))"
                )
            },
            stacked=True,
        ),
        Panel(
            "Decisions without a judge that should have answered",
            "ops",
            {"{{judge}}": f"sum by (judge) (rate(memsieve_unanswered_decisions_total{_RATE}))"},
        ),
        Panel(
            "A language model's answer about a turn",
            "s",
            {
                "95%": (
                    "histogram_quantile(0.95, "
                    f"sum by (le) (rate(memsieve_extract_seconds_bucket{_RATE})))"
                )
            },
        ),
    ),
}
"""The panels by the question that they answer."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana reads it."""
    return {
        "uid": "memsieve",
        "title": "memsieve",
        "tags": ["memsieve"],
        "schemaVersion": 39,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "utc",
        "annotations": {"list": []},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                    "refresh": 1,
                },
                {
                    "name": "log",
                    "label": "Topic of decisions",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": "label_values(memsieve_build_info, log)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": [panel | {"id": number} for number, panel in enumerate(_panels(), 1)],
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Yield rows and panels from the top to the bottom, those of a row equally wide."""
    for number, (question, panels) in enumerate(ROWS.items()):
        top = number * (_HEIGHT + 1)
        yield {
            "type": "row",
            "title": question,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        width = _WIDTH // len(panels)
        for place, panel in enumerate(panels):
            at = {"x": place * width, "y": top + 1, "w": width, "h": _HEIGHT}
            yield {**_graph(panel), "gridPos": at}


def _graph(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    custom: dict[str, Any] = {"fillOpacity": 10, "showPoints": "never"}
    if panel.alert_at is not None:
        steps.append({"color": "red", "value": panel.alert_at})
        custom["thresholdsStyle"] = {"mode": "dashed"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": custom,
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + number),
                "datasource": _SOURCE,
                "expr": _of_the_chosen(expression),
                "legendFormat": legend,
            }
            for number, (legend, expression) in enumerate(panel.shown.items())
        ],
    }


def _of_the_chosen(expression: str) -> str:
    """Return the expression for the installations that are chosen above the panels."""
    with_braces = re.sub(r"\b(memsieve_\w+)\b(?!\{)", r"\1{}", expression)
    chosen = re.sub(r"(memsieve_\w+\{)", r'\1log=~"$log", ', with_braces)
    return chosen.replace(", }", "}")


def written() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(written())
