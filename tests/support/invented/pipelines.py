"""The order of passes for the invented machine, and nothing else."""

from __future__ import annotations

from invented.group_barriers import WaveBarriers
from tilelang.lowering.lowering import Lowerings
from tilelang.passes.base import Pass
from tilelang.passes.properties import Property, build_pipeline
from tilelang.passes.sequences import FRONT_END, GPU_SIMPLIFICATION
from tilelang.passes.thread import (
    allocate_shared_memory,
    flatten_shared,
    hoist_scalar_loads,
    insert_barriers,
    predicate_bounds,
)
from tilelang.passes.thread.insert_group_barriers import insert_group_barriers
from tilelang.passes.thread.vectorize_accesses import vectorize_accesses
from tilelang.passes.tile import (
    demote_fragments,
    detect_thread_groups,
    flatten_parallel,
    narrow_tile_dtypes,
    promote_to_registers,
    rasterize_grid,
    resolve_warp_size,
    run_in_order,
)
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.expand_to_loops import expand_to_loops
from tilelang.passes.tile.infer_layouts import infer_layouts
from tilelang.passes.tile.lower_to_threads import lower_to_threads


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """From what the front end leaves to the program of one thread."""
    return build_pipeline(
        resolve_warp_size.PASS,
        *FRONT_END,
        detect_thread_groups.PASS,
        narrow_tile_dtypes.PASS,
        rasterize_grid.PASS,
        promote_to_registers.PASS,
        choose_lowerings(lowerings),
        run_in_order.PASS,
        expand_to_loops(lowerings),
        flatten_parallel.PASS,
        demote_fragments.PASS,
        infer_layouts(lowerings),
        lower_to_threads(lowerings),
        vectorize_accesses({}),
        predicate_bounds.predicate_bounds(splitting=False),
        hoist_scalar_loads.PASS,
        allocate_shared_memory.PASS,
        insert_barriers.PASS,
        insert_group_barriers(WaveBarriers),
        flatten_shared.PASS,
        *GPU_SIMPLIFICATION,
        # blocks have one tile of the grid, and their waves do the same work
        assumes=(Property.PERSISTENT_LOOPS_INSERTED, Property.WARPS_SPECIALIZED),
        establishes=(
            Property.RULES_CHECKED,
            Property.ACCESSES_VECTORIZED,
            Property.ACCESSES_IN_RANGE,
            Property.GROUP_BARRIERS_INSERTED,
            Property.SHARED_MEMORY_FLAT,
        ),
    )
