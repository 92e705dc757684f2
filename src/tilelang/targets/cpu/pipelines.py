"""The order of passes for a CPU."""

from __future__ import annotations

from tilelang.lowering.lowering import Lowerings
from tilelang.passes.base import Pass
from tilelang.passes.properties import Property, build_pipeline
from tilelang.passes.thread import (
    check_subscripts,
    fuse_loops,
    predicate_bounds,
    simplify_body,
    vectorize_loops,
)
from tilelang.passes.tile import (
    apply_tensor_layouts,
    check_program,
    drop_empty_loops,
    drop_optional_calls,
    expand_library,
    forward_copies,
    grow_fragments,
    inline_bindings,
    reduce_flags,
    use_minnum_maxnum,
    warn_serialized_loops,
)
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.lower_tile_ops import lower_tile_ops
from tilelang.targets.cpu.passes import batch_halves, stream_stores


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """The passes from the front end to the scalar program of one block."""
    return build_pipeline(
        drop_optional_calls.PASS,
        grow_fragments.PASS,
        check_program.PASS,
        use_minnum_maxnum.PASS,
        reduce_flags.PASS,
        warn_serialized_loops.PASS,
        expand_library.PASS,
        inline_bindings.PASS,
        drop_empty_loops.PASS,
        apply_tensor_layouts.PASS,
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
        # a block is run by one thread
        assumes=(Property.WARPS_SPECIALIZED, Property.TILES_PROMOTED),
        establishes=(Property.RULES_CHECKED, Property.SUBSCRIPTS_CHECKED, Property.ACCESSES_IN_RANGE),
    )
