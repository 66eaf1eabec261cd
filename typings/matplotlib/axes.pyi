from collections.abc import Sequence

from matplotlib.figure import Patch

class Axes:
    patch: Patch

    def plot(
        self,
        x: float | Sequence[float],
        y: float | Sequence[float],
        *,
        color: str,
        label: str = ...,
        marker: str = ...,
    ) -> object: ...
    def hist(
        self,
        x: Sequence[float],
        *,
        bins: int,
        range: tuple[float, float],  # noqa: A002
        histtype: str,
        color: str,
        label: str,
    ) -> object: ...
    def set_xlim(self, left: float, right: float) -> object: ...
    def set_ylim(self, bottom: float, top: float) -> object: ...
    def set_xlabel(self, xlabel: str) -> object: ...
    def set_ylabel(self, ylabel: str) -> object: ...
    def grid(self, *, visible: bool, alpha: float) -> None: ...
    def legend(self, *, frameon: bool, labelcolor: str) -> object: ...
