"""The HTML report of an evaluation: one self-contained file. It needs the extra `lab`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape

from schemas.decisions import Change, Ignore, Insert, kind_of, kinds_of
from streams.lab.app.evaluated import EvaluatedRow, Evaluation, Way, measured, scores
from streams.lab.core.measures import PrecisionRecall, Proportion, curve
from streams.lab.world import PlottedCurve, curves, histogram

_WORST_MAX = 50
_POINTS_MAX = 400
_KINDS = kinds_of(Change | Ignore)
_INSERT = kind_of(Insert)
_ERRORS = ("lost", "hidden", "kept twice")
"""By their gravity."""
_RATES = {
    "found_rate": "Found: one fact, one memory",
    "hidden_rate": "Hidden: of two facts one is a wording of the other",
    "kept_twice_rate": "Kept twice: one fact, two memories",
    "lost_rate": "Lost: a text that no memory has",
    "superseded_rate": "Contradicted facts superseded by rule",
    "displaced_rate": "Other facts retired by that rule",
    "guard_veto_rate": "Duplicates that guards object to",
    "review_rate": "A person is asked",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8886; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; overflow-x: auto; }
figcaption, .dim { opacity: .7; }
svg { max-width: 100%; height: auto; }
"""


def page(made: Evaluation) -> str:
    """Return the report as HTML."""
    parts = [
        _head(made),
        _intervals(made.rows, made.threshold),
        _figure(_precision_recall(made.rows, made.threshold), "Precision and recall of one fact."),
        _figure(_similarities(made.rows), "How similar the rows of each label are."),
        _groups("Set", made.by("set")),
        _groups("Kind", made.by("kind")),
        _confusion(made.rows),
        _worst(made.rows),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>memsieve policy evaluate: {escape(made.policy)}</title><style>{_STYLE}</style></head>"
        f"<body>\n{chr(10).join(parts)}\n</body></html>\n"
    )


def _head(made: Evaluation) -> str:
    rejected = f", {made.rejected:,} rejected" if made.rejected else ""
    return (
        f"<h1>{escape(made.policy)}</h1><p>{escape(made.model)}: {made.read:,} rows read, "
        f"{len(made.rows):,} measured, {made.skipped:,} without a label{rejected}.</p>"
    )


def _intervals(rows: Sequence[EvaluatedRow], threshold: float) -> str:
    ours, cosine = measured(rows, "ours"), measured(rows, "cosine")
    body = [
        [title, _told(ours.rates[name]), _told(cosine.rates[name])]
        for name, title in _RATES.items()
    ]
    body.append([f"AUC, {ours.auc_rows:,} scored rows", _number(ours.auc), _number(cosine.auc)])
    body += [
        [f"B³ {name}", *(_number(getattr(one.b3, name, None)) for one in (ours, cosine))]
        for name in ("precision", "recall", "f1")
    ]
    heads = ["", "decided so", f"cosine ≥ {threshold}"]
    return f"<h2>Measures</h2><p class=dim>With 95 % intervals (Wilson).</p>{_table(heads, body)}"


def _precision_recall(rows: Sequence[EvaluatedRow], threshold: float) -> str:
    judged = [row for row in rows if row.one is not None and row.score is not None]
    joined = [row for row in judged if row.decision != _INSERT]
    near = [row for row in judged if (row.similarity or 0.0) >= threshold]
    lines = [
        _line(rows, "ours", "judge, guards in force", _place(judged, joined)),
        _line(rows, "cosine", "cosine", _place(judged, near)),
    ]
    return curves([line for line in lines if line is not None])


def _line(
    rows: Sequence[EvaluatedRow], way: Way, name: str, point: tuple[float, float] | None
) -> PlottedCurve | None:
    points = _thinned(curve(*scores(rows, way)))
    if not points:
        return None
    return PlottedCurve(name, [p.recall for p in points], [p.precision for p in points], point)


def _place(
    judged: Sequence[EvaluatedRow], taken: Sequence[EvaluatedRow]
) -> tuple[float, float] | None:
    """Return recall and precision of taking these of the rows in a curve for one fact."""
    of, right = sum(row.one is True for row in judged), sum(row.one is True for row in taken)
    return (right / of, right / len(taken)) if of and taken else None


def _thinned(points: Sequence[PrecisionRecall]) -> list[PrecisionRecall]:
    """Leave out points that would not be visible."""
    step = max(1, len(points) // _POINTS_MAX)
    return [*points[::step], *points[-1:]]


def _similarities(rows: Sequence[EvaluatedRow]) -> str:
    groups: dict[str, list[float]] = {}
    for row in rows:
        if row.similarity is not None:
            groups.setdefault(_truth(row), []).append(row.similarity)
    return histogram(dict(sorted(groups.items())))


def _groups(title: str, groups: dict[str, list[EvaluatedRow]]) -> str:
    if not groups:
        return ""
    body: list[list[str]] = []
    for name, rows in groups.items():
        ours, cosine = measured(rows, "ours").rates, measured(rows, "cosine").rates
        shown = [rates[key] for key in ("found_rate", "hidden_rate") for rates in (ours, cosine)]
        body.append([name, f"{len(rows):,}", *(_told(one) for one in shown)])
    heads = [title, "rows", "found", "by cosine", "hidden", "by cosine"]
    return f"<h2>By {title.lower()}</h2>{_table(heads, body)}"


def _confusion(rows: Sequence[EvaluatedRow]) -> str:
    """Count the decisions for each kind of difference, or for each set if rows have no kind."""
    counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.given.kind or row.given.set, _truth(row)][row.decision] += 1
    body = [
        [kind, truth, *(f"{counts[kind, truth][decision]:,}" for decision in _KINDS)]
        for kind, truth in sorted(counts)
    ]
    return f"<h2>What was decided</h2>{_table(['kind', 'truth', *_KINDS], body)}"


def _truth(row: EvaluatedRow) -> str:
    return {True: "one fact", False: "two facts", None: "one says more"}[row.one]


def _worst(rows: Sequence[EvaluatedRow]) -> str:
    """List the errors by gravity, those that lost a text first, then by similarity."""
    wrong = [row for row in rows if _error(row)]
    wrong.sort(key=lambda row: (_ERRORS.index(_error(row)), -(row.similarity or 0.0)))
    body: list[list[str]] = []
    for row in wrong[:_WORST_MAX]:
        then = "" if row.decision == _INSERT else row.result  # else it is just the event
        said = [row.given.event.text, row.memory, _why(row), then]
        body.append([_error(row), row.label, *said, row.given.place])
    rest = len(wrong) - _WORST_MAX
    more = f"<p class=dim>and {rest:,} more</p>" if rest > 0 else ""
    heads = ["error", "label", "new", "stored", "decided", "then says", "row"]
    return f"<h2>Worst errors first</h2>{_table(heads, body)}{more}"


def _error(row: EvaluatedRow) -> str:
    """Return the gravest error of a decision; "" if there is none."""
    grade = row.ours
    if grade.lost:
        return "lost"
    if grade.hidden:
        return "hidden"
    return "kept twice" if grade.kept_twice else ""


def _why(row: EvaluatedRow) -> str:
    parts = [f"{row.decision}: {row.reason}"]
    if row.similarity is not None:
        parts.append(f"cosine {row.similarity:.3f}")
    if row.score is not None:
        parts.append(f"P(same) {row.score:.2f}")
    if row.compared is not None:
        parts += [f"{finding.guard}: {finding.what}" for finding in row.compared.findings]
    return ", ".join(parts)


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(heads: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    lines = "\n".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in body
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{lines}\n</tbody></table>"


def _told(one: Proportion) -> str:
    rate = one.told(1)
    return "none" if rate is None else f"{rate}, {one.count:,} of {one.of:,}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
