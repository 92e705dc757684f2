"""The order of passes for a CPU, and nothing else."""

from __future__ import annotations

from tilelang.lowering.lowering import Lowerings
from tilelang.passes.base import Pass
from tilelang.passes.properties import Property, in_order
from tilelang.passes.thread import (
    check_subscripts,
    fuse_loops,
    predicate_bounds,
    simplify_body,
    vectorize_loops,
)
from tilelang.passes.tile import (
    check_program,
    drop_nan,
    drop_optional,
    expand_library,
    forward_copies,
    grow_fragments,
    inline_bindings,
    join_flags,
    permute_tensors,
    warn_of_order,
)
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.lower_tile_ops import lower_tile_ops
from tilelang.targets.cpu.passes import batch_halves, stream_stores


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """From what the front end leaves to one block's scalar program."""
    return in_order(
        drop_optional.PASS,
        grow_fragments.PASS,
        check_program.PASS,
        drop_nan.PASS,
        join_flags.PASS,
        warn_of_order.PASS,
        expand_library.PASS,
        inline_bindings.PASS,
        permute_tensors.PASS,
        forward_copies.PASS,
        choose_lowerings(lowerings),
        lower_tile_ops(lowerings),
        check_subscripts.PASS,
        fuse_loops.PASS,
        vectorize_loops.PASS,
        predicate_bounds.PASS,
        simplify_body.PASS,
        stream_stores.PASS,
        batch_halves.PASS,
        # one thread runs a block
        holds=(Property.WARPS_SPECIALIZED, Property.REGISTER_TILES_FOUND),
        gives=(Property.RULES_CHECKED, Property.SUBSCRIPTS_CHECKED, Property.ACCESSES_IN_RANGE),
    )
