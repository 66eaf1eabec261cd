from matplotlib.axes import Axes

class Patch:
    def set_alpha(self, alpha: float) -> None: ...

class Figure:
    patch: Patch

    def __init__(self, *, figsize: tuple[float, float], layout: str) -> None: ...
    def add_subplot(self) -> Axes: ...
