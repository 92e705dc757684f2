"""The order of passes for an AMD GPU, and nothing else."""

from __future__ import annotations

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
from tilelang.passes.thread.vectorize_atomics import vectorize_atomics
from tilelang.passes.tile import (
    demote_fragments,
    detect_thread_groups,
    flatten_parallel,
    narrow_tile_dtypes,
    promote_to_registers,
    rasterize_grid,
    resolve_warp_size,
    warn_large_fragments,
)
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.expand_to_loops import expand_to_loops
from tilelang.passes.tile.infer_layouts import infer_layouts
from tilelang.passes.tile.lower_to_threads import lower_to_threads
from tilelang.targets.amd.group_barriers import WaveBarriers
from tilelang.targets.amd.isa.atomic_text import vector_lanes
from tilelang.targets.amd.passes import (
    count_direct_loads,
    expand_pipeline,
    pair_products,
    ping_pong,
    plan_pipeline,
    relax_barriers,
    remap_xcds,
    split_sums,
)
from tilelang.targets.amd.passes.divide_depth import divide_depth
from tilelang.targets.amd.passes.transpose_operands import transpose_operands
from tilelang.targets.gpu.lowerings.warp_votes import skip_by_votes


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """The passes from the staged program to the program of one thread."""
    return build_pipeline(
        resolve_warp_size.PASS,
        *FRONT_END,
        detect_thread_groups.PASS,
        narrow_tile_dtypes.PASS,
        rasterize_grid.PASS,
        remap_xcds.PASS,
        promote_to_registers.PASS,
        choose_lowerings(lowerings),
        divide_depth(lowerings),
        plan_pipeline.PASS,
        expand_pipeline.PASS,
        transpose_operands(lowerings),
        expand_to_loops(lowerings),
        flatten_parallel.PASS,
        demote_fragments.PASS,
        infer_layouts(lowerings, by_bytes=True),
        warn_large_fragments.PASS,
        lower_to_threads(lowerings, skip_by_votes),
        vectorize_accesses({}),
        vectorize_atomics(vector_lanes),
        predicate_bounds.predicate_bounds(splitting=False),
        hoist_scalar_loads.PASS,
        allocate_shared_memory.PASS,
        ping_pong.PASS,
        insert_barriers.PASS,
        insert_group_barriers(WaveBarriers),
        count_direct_loads.PASS,
        relax_barriers.PASS,
        split_sums.PASS,
        pair_products.PASS,
        flatten_shared.PASS,
        *GPU_SIMPLIFICATION,
        # there are no persistent loops and no specialized waves
        assumes=(Property.PERSISTENT_LOOPS_INSERTED, Property.WARPS_SPECIALIZED),
        establishes=(
            Property.RULES_CHECKED,
            Property.ACCESSES_VECTORIZED,
            Property.ACCESSES_IN_RANGE,
            Property.GROUP_BARRIERS_INSERTED,
            Property.SHARED_MEMORY_FLAT,
        ),
    )
