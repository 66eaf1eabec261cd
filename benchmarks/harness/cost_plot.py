"""A log-log plot of cost against store size, as SVG that is legible on light and dark pages."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

_COLOURS = ("#3b82f6", "#f59e0b", "#10b981", "#a855f7")
_INK = "#808a96"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "memsieve",  # makes the file reproducible
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


@dataclass(frozen=True)
class Curve:
    name: str
    x: Sequence[float]
    y: Sequence[float]


class _Decades(Protocol):
    """The part of matplotlib's axes that `typings` leaves out."""

    def set_xscale(self, value: str) -> None: ...

    def set_yscale(self, value: str) -> None: ...


def draw(curves: Sequence[Curve], *, x: str, y: str) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        figure.patch.set_alpha(0.0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0.0)
        for curve, colour in zip(curves, _COLOURS, strict=False):
            axes.plot(curve.x, curve.y, color=colour, marker="o", label=curve.name)
        in_decades = cast("_Decades", axes)
        in_decades.set_xscale("log")
        in_decades.set_yscale("log")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(visible=True, alpha=0.2)
        axes.legend(frameon=False, labelcolor=_INK)
        written = io.StringIO()
        nothing = dict.fromkeys(["Creator", "Date", "Format", "Type"])
        FigureCanvasSVG(figure).print_svg(written, metadata=nothing)
    return written.getvalue()
