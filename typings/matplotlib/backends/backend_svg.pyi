from collections.abc import Mapping
from io import StringIO

from matplotlib.figure import Figure

class FigureCanvasSVG:
    def __init__(self, figure: Figure) -> None: ...
    def print_svg(self, filename: StringIO, *, metadata: Mapping[str, None]) -> None: ...
