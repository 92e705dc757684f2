"""The order of passes, and nothing else."""

from __future__ import annotations

from tilelang.passes.base import Pass
from tilelang.passes.thread import guard_bounds, simplify_body, stream_stores, vectorize_loops
from tilelang.passes.tile import check_program, forward_copies, inline_bindings
from tilelang.passes.tile.lower_tile_ops import Lowerings, lower_tile_ops


def cpu(lowerings: Lowerings) -> tuple[Pass, ...]:
    """From what the front end leaves to one block's scalar program."""
    return (
        check_program.PASS,
        inline_bindings.PASS,
        forward_copies.PASS,
        lower_tile_ops(lowerings),
        vectorize_loops.PASS,
        guard_bounds.PASS,
        simplify_body.PASS,
        stream_stores.PASS,
    )
