"""Every metric that memsieve exposes: its samples, its labels, and what an expression may name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from prometheus_client import CollectorRegistry

from schemas.decisions import KINDS
from schemas.topics import TOPICS
from streams.store.world.metrics import ApiMetrics, ConsolidationMetrics, Metrics

TOLD_BY: Mapping[str, tuple[str, ...]] = {
    "Services": ("deduplicator", "writer", "serve", "extractor"),
    "API": ("api", "web"),
    "Consolidation": ("consolidator",),
}
"""The services that expose the metrics of each part of the table."""

_SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}
_OF_EVERY_SAMPLE = {"instance", "job", "log"}
"""What Prometheus adds to every sample, and what the process does."""
_VALUES: Mapping[str, frozenset[str]] = {
    "kind": frozenset(KINDS),
    "topic": frozenset(topic.name for topic in TOPICS),
    "state": frozenset({"ready", "waiting"}),
    "outcome": frozenset({"untriggered", "nothing", "events", "known", "set-aside"}),
    "ended": frozenset({"too-many"}),
}

_WORDS = {"and", "or", "unless", "bool", "offset", "group_left", "group_right"}
_SELECTOR = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)?\s*\{(?P<matchers>[^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
_GROUPED = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_NAME = re.compile(r"[a-zA-Z_:][\w:]*\s*\(?")


@dataclass(frozen=True)
class Metric:
    """One metric, as the table has it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    what: str

    @property
    def shown(self) -> str:
        """The name as people look for it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    def samples(self) -> Iterator[tuple[str, set[str]]]:
        """Yield the samples that it consists of, each with its labels."""
        for suffix in _SUFFIXES[self.kind]:
            own = {"le"} if suffix == "_bucket" else set[str]()
            yield self.name + suffix, {*self.labels, *own}


def metrics() -> dict[str, list[Metric]]:
    """Return every metric, by the part of the table that it belongs to."""
    made = {"Services": Metrics(), "API": ApiMetrics(), "Consolidation": ConsolidationMetrics()}
    return {part: list(_metrics(one, one.registry)) for part, one in made.items()}


def samples() -> dict[str, set[str]]:
    """Return the labels of every sample that there is, by its name."""
    return {
        name: labels
        for part in metrics().values()
        for metric in part
        for name, labels in metric.samples()
    }


def problems(expression: str) -> list[str]:
    """Return what an expression in PromQL names that no service exposes.

    Reads as much of the language as is used here: every word that is no function, keyword or label
    must be a sample, with the labels and the values that are asked of it.
    """
    known = samples()
    found: list[str] = []
    for selector in _SELECTOR.finditer(expression):
        allowed = known.get(selector["name"] or "", set[str]()) | _OF_EVERY_SAMPLE
        for label, value in _MATCHER.findall(selector["matchers"]):
            if label not in allowed:
                found.append(f"{selector['name']} has no label {label}")
            allowed_values = _VALUES.get(label)
            found += [
                f"{label} is never {one}"
                for one in value.split("|")
                if allowed_values is not None and one not in allowed_values
            ]
    bare = _SELECTOR.sub(lambda selector: f" {selector['name']} ", expression)
    asked = {word for words in _GROUPED.findall(bare) for word in re.findall(r"\w+", words)}
    bare = _RANGE.sub(" ", _GROUPED.sub(" ", bare))
    named = {
        word
        for word in (match[0] for match in _NAME.finditer(bare))
        if not word.endswith("(") and word.strip() not in {*_WORDS, "by", "without", "on"}
    }
    named = {word.strip() for word in named}
    if not named:
        found.append("no metric is named")
    found += sorted(f"{name} is exposed by nobody" for name in named - known.keys())
    there = set[str]().union(*(known.get(name, set[str]()) for name in named)) | _OF_EVERY_SAMPLE
    found += sorted(f"nothing here has a label {label}" for label in asked - there)
    return found


def _metrics(owner: object, registry: CollectorRegistry) -> Iterator[Metric]:
    labels: dict[str, tuple[str, ...]] = {}
    collectors: dict[str, Any] = vars(owner)
    for collector in collectors.values():
        # The client tells a metric's labels to nobody.
        kept = cast("dict[str, Any]", getattr(collector, "__dict__", {}))
        if "_labelnames" in kept:
            labels[kept["_name"]] = kept["_labelnames"]
    for family in registry.collect():
        yield Metric(family.name, family.type, labels[family.name], family.documentation)
