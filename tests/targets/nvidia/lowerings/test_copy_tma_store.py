"""Each warpgroup stores the part of a tile that its own warps wrote, where boxes can be divided so."""

import pytest
from answers import reason
from thread_kernels import buffer, index

from tilelang.ir.buffer import Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import CallStmt, If
from tilelang.ir.visit import walk
from tilelang.layout.boxes import boxed
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT
from tilelang.targets.nvidia.lowerings.copy_tma_store import TmaStore
from tilelang.targets.target import Target


def stored(shape, dtype, threads):
    """The extents of what one thread stores, and of how many threads one issues it."""
    tile = buffer("S", shape, dtype, Scope.SHARED)
    copy = Copy(whole(tile), whole(buffer("C", shape, dtype)), is_async=True)
    layouts = {tile: boxed(shape, tile.dtype.bits, 128)}
    context = LoweringContext(
        Target("cuda", "sm_90a"), CompileOptions(), threads, thread=index("t"), shared_layouts=layouts
    )
    assert "" == reason(TmaStore(), copy, context)
    build = Builder(copy.loc)
    TmaStore().lower(copy, TmaStore().accepts(copy, context), context, build)
    made = build.finish()
    (branch,) = [s for s in walk(made) if isinstance(s, If)]
    calls = [s for s in walk(branch) if isinstance(s, CallStmt)]
    assert TMA_STORE_COMMIT == calls[-1].routine
    return [tuple(map(int_const, s.reads[0].extent)) for s in calls[:-1]], "128" in str(branch.condition)


@pytest.mark.parametrize(
    ("shape", "dtype", "threads", "extent", "shared"),
    [
        ((128, 64), "float16", 256, (64, 64), True),  # rows, as wgmma gives them to warpgroups
        ((64, 128), "float32", 256, (64, 64), True),  # too few rows: columns
        ((64, 64), "float16", 256, (32, 64), True),  # one box: rows again
        ((64, 64), "float16", 128, (64, 64), False),
    ],
)
def test_warpgroups_divide_a_tile_as_they_hold_it(shape, dtype, threads, extent, shared):
    boxes, each = stored(shape, dtype, threads)
    assert {extent} == set(boxes)
    assert shared == each
