"""Curves and histograms as SVG for a web page, in the page's own text colour."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_INK = "#010203"
"""A placeholder for the page's text colour: readable on light and on dark."""
_COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#a855f7", "#64748b", "#14b8a6")
"""Distinguishable on white and on black."""
_BINS = 40
_STYLE = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's font
    "svg.hashsalt": "memsieve",  # equal figures give equal files
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@dataclass(frozen=True)
class PlottedCurve:
    """A curve by its points, with the operating point of the decisions on it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    point: tuple[float, float] | None = None


def curves(lines: Sequence[PlottedCurve]) -> str:
    """Draw curves of precision over recall."""
    figure, axes = _axes("recall", "precision")
    for line, colour in zip(lines, _COLOURS, strict=False):
        axes.plot(line.x, line.y, color=colour, label=line.name)
        if line.point is not None:
            axes.plot(*line.point, marker="o", color=colour)
    axes.set_xlim(0.0, 1.02)
    axes.set_ylim(0.0, 1.02)
    _legend(axes, shown=bool(lines))
    return _svg(figure)


def histogram(groups: Mapping[str, Sequence[float]]) -> str:
    """Draw the distribution of each group's similarities, from the lowest to 1."""
    figure, axes = _axes("cosine", "rows")
    values = [value for group in groups.values() for value in group]
    low = min(values, default=0.0)
    for (name, group), colour in zip(groups.items(), _COLOURS, strict=False):
        axes.hist(group, bins=_BINS, range=(low, 1.0), histtype="step", color=colour, label=name)
    _legend(axes, shown=bool(groups))
    return _svg(figure)


def _axes(x: str, y: str) -> tuple[Figure, Axes]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        figure.patch.set_alpha(0.0)
        axes = figure.add_subplot()
    axes.patch.set_alpha(0.0)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(visible=True, alpha=0.2)
    return figure, axes


def _legend(axes: Axes, *, shown: bool) -> None:
    if shown:
        axes.legend(frameon=False, labelcolor=_INK)


def _svg(figure: Figure) -> str:
    """Return only the figure: no document type, no metadata, no external references."""
    written = io.StringIO()
    nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
    with mpl.rc_context(_STYLE):
        FigureCanvasSVG(figure).print_svg(written, metadata=nothing)
    svg = written.getvalue()
    return svg[svg.index("<svg") :].replace(_INK, "currentColor")
