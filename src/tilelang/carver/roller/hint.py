"""`Hint`: one configuration that a template recommends."""

from __future__ import annotations

from dataclasses import field

from tilelang.carver.roller.rasterization import NoRasterization, Rasterization
from tilelang.records import record


@record(frozen=False)
class Hint:
    """A way to cut a computation into tiles.

    Attributes:
        block: The extents of a block's tile, per output axis.
        warp: The extents of a warp's part of it, for products by matrix instructions.
        thread: Threads per output axis, for other computations.
        rstep: How much of each summed axis a block takes at once.
        pipeline_stage: Versions of the operands' tiles; 1 for no pipeline.
        rasterization_plan: The order of blocks.
        use_tc: Whether matrix instructions compute it.
        vectorize: Elements per access, per input.
    """

    block: list[int]
    warp: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    rstep: list[int] = field(default_factory=list)
    pipeline_stage: int = 1
    rasterization_plan: Rasterization = field(default_factory=NoRasterization)
    use_tc: bool = False
    vectorize: dict[str, int] = field(default_factory=dict)
