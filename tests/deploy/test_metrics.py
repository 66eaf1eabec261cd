"""The table of metrics and what the processes expose are the same set."""

import re
from pathlib import Path

import pytest

from tests.support.pages import exposed
from tests.support.servers.kafka import free_port
from tests.support.servers.services import Installation

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reference" / "metrics.md"
_TOKENS = """
[[tokens]]
name = "nobody"
sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
scopes = ["nowhere"]
rights = ["read"]
"""


_ASKING = {"api", "web"}
"""Commands that ask whoever comes for a token."""


def table() -> dict[str, dict[str, str]]:
    """Return the page as it is read: the type of each metric by its name, part by part."""
    parts = TABLE.read_text("utf-8").split("\n## ")[1:]
    return {
        part.partition("\n")[0]: dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", part, re.MULTILINE))
        for part in parts
    }


@pytest.mark.process
@pytest.mark.parametrize(
    ("part", "command"),
    [(part, command) for part, commands in exposed.TOLD_BY.items() for command in commands],
)
def test_a_process_exposes_the_metrics_of_the_table_and_no_others(
    part: str, command: str, tmp_path: Path
) -> None:
    """No broker answers: what is exposed does not depend on it."""
    nobody = f"127.0.0.1:{free_port()}"
    settings = {"index__kind": "exact" if command in {"serve", *_ASKING} else "qdrant"}
    (tmp_path / "tokens.toml").write_text(_TOKENS, encoding="utf-8")
    more = ("--store", "store", "--tokens", "tokens.toml", "--port", "0")
    installation = Installation.on(tmp_path, nobody, "", **settings)
    with installation.running(command, *(more if command in _ASKING else ())) as process:
        assert _exposed(process.get("/metrics")) == table()[part]


def _exposed(text: str) -> dict[str, str]:
    """Return the type of each metric, by its name."""
    return dict(re.findall(r"^# TYPE (memsieve_\w+) (\w+)$", text, re.MULTILINE))


def test_metrics_are_made_in_one_module() -> None:
    """Else one could be exposed that the table does not know."""
    kinds = "counter|gauge|histogram|summary|info|enum"  # or a name for one with its registry
    made = re.compile(rf"\b(?:{kinds})\(\s*\"memsieve", re.IGNORECASE)
    importing = re.compile(r"^\s*(?:from|import) prometheus_client\b.*$", re.MULTILINE)
    modules = {path: path.read_text("utf-8") for path in (ROOT / "streams").rglob("*.py")}
    makers = {str(path.relative_to(ROOT)) for path, text in modules.items() if made.search(text)}
    assert makers == {"streams/store/world/metrics.py"}
    importers = {path.name for path, text in modules.items() if importing.search(text)}
    assert importers == {"metrics.py", "health.py"}


def test_every_metric_of_the_table_tells_what_it_answers() -> None:
    for part in exposed.metrics().values():
        for metric in part:
            assert metric.what.endswith("."), f"{metric.name}: describe it in a sentence"
            assert metric.shown.startswith("memsieve_"), f"{metric.name}: prefix it with memsieve_"


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("sum by (topic) (memsieve_lag_records) > 10", []),
        ('rate(memsieve_decisions_total{kind=~"merge|replace"}[5m]) offset 5m', []),
        ("histogram_quantile(0.9, sum by (le) (rate(memsieve_claim_seconds_bucket[5m])))", []),
        ("memsieve_lag", ["memsieve_lag is exposed by nobody"]),
        ("rate(memsieve_decisions[5m])", ["memsieve_decisions is exposed by nobody"]),
        ("memsieve_claim_seconds > 1", ["memsieve_claim_seconds is exposed by nobody"]),
        ('memsieve_changes_total{kind="merge"}', ["memsieve_changes_total has no label kind"]),
        ('memsieve_decisions_total{kind="merged"}', ["kind is never merged"]),
        ("sum by (topics) (memsieve_lag_records)", ["nothing here has a label topics"]),
        ("vector(1)", ["no metric is named"]),
    ],
)
def test_an_expression_may_name_only_what_is_exposed(expression: str, wrong: list[str]) -> None:
    assert exposed.problems(expression) == wrong
