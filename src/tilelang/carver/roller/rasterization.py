"""The orders in which the blocks of a grid are walked, as configurations name them."""

from __future__ import annotations

from tilelang.api import public


@public
class Rasterization:
    """One order."""

    panel_width: int | None = None

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{'' if self.panel_width is None else f' {self.panel_width}'}>"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.panel_width == getattr(other, "panel_width", None)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.panel_width))


class NoRasterization(Rasterization):
    """As they come: the first index of the grid first."""


@public
class Rasterization2DRow(Rasterization):
    """In panels of `panel_width` rows of blocks: `T.use_swizzle(panel_width, order="row")`."""

    def __init__(self, panel_width: int = 4) -> None:
        self.panel_width = panel_width


@public
class Rasterization2DColumn(Rasterization):
    """In panels of `panel_width` columns of blocks: `T.use_swizzle(panel_width, order="column")`."""

    def __init__(self, panel_width: int = 4) -> None:
        self.panel_width = panel_width
