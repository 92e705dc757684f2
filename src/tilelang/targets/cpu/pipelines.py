"""The order of passes for a CPU."""

from __future__ import annotations

from tilelang.lowering.lowering import Lowerings
from tilelang.passes.base import Pass
from tilelang.passes.properties import Property, build_pipeline
from tilelang.passes.sequences import FRONT_END
from tilelang.passes.thread import (
    check_subscripts,
    fuse_loops,
    keep_in_registers,
    predicate_bounds,
    simplify_body,
    vectorize_loops,
)
from tilelang.passes.tile import forward_copies
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.lower_tile_ops import lower_tile_ops
from tilelang.targets.cpu.passes import batch_halves, merge_row_blocks, stream_stores


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """The passes from the front end to the scalar program of one block."""
    return build_pipeline(
        *FRONT_END,
        forward_copies.PASS,
        choose_lowerings(lowerings),
        lower_tile_ops(lowerings),
        check_subscripts.PASS,
        fuse_loops.PASS,
        keep_in_registers.PASS,
        vectorize_loops.PASS,
        predicate_bounds.PASS,
        simplify_body.PASS,
        merge_row_blocks.PASS,
        stream_stores.PASS,
        batch_halves.PASS,
        # a block is run by one thread
        assumes=(Property.WARPS_SPECIALIZED, Property.TILES_PROMOTED),
        establishes=(Property.RULES_CHECKED, Property.SUBSCRIPTS_CHECKED, Property.ACCESSES_IN_RANGE),
    )
