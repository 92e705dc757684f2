"""The order of passes for the invented machine, and nothing else."""

from __future__ import annotations

from invented.group_barriers import WaveBarriers
from invented.passes import run_in_order
from tilelang.lowering.lowering import Lowerings
from tilelang.passes.base import Pass
from tilelang.passes.properties import Property, in_order
from tilelang.passes.thread import (
    flatten_shared,
    hoist_comparisons,
    insert_barriers,
    name_scalars,
    narrow_bounds_checks,
    plan_shared_memory,
    predicate_bounds,
    simplify_body,
)
from tilelang.passes.thread.insert_group_barriers import insert_group_barriers
from tilelang.passes.thread.vectorize_accesses import vectorize_accesses
from tilelang.passes.tile import (
    check_program,
    demote_fragments,
    drop_nan,
    drop_optional,
    expand_library,
    find_groups,
    flatten_parallel,
    grow_fragments,
    inline_bindings,
    join_flags,
    keep_in_registers,
    narrow_tiles,
    permute_tensors,
    rasterize_grid,
    warn_of_order,
)
from tilelang.passes.tile.choose_lowerings import choose_lowerings
from tilelang.passes.tile.expand_to_loops import expand_to_loops
from tilelang.passes.tile.infer_layouts import infer_layouts
from tilelang.passes.tile.lower_to_threads import lower_to_threads


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """From what the front end leaves to the program of one thread."""
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
        find_groups.PASS,
        narrow_tiles.PASS,
        rasterize_grid.PASS,
        keep_in_registers.PASS,
        choose_lowerings(lowerings),
        run_in_order.PASS,
        expand_to_loops(lowerings),
        flatten_parallel.PASS,
        demote_fragments.PASS,
        infer_layouts(lowerings),
        lower_to_threads(lowerings),
        vectorize_accesses({}),
        predicate_bounds.predicate_bounds(splitting=False),
        name_scalars.PASS,
        plan_shared_memory.PASS,
        insert_barriers.PASS,
        insert_group_barriers(WaveBarriers),
        flatten_shared.PASS,
        simplify_body.PASS,
        hoist_comparisons.PASS,
        narrow_bounds_checks.PASS,
        # blocks have one tile of the grid, their waves do the same work, and iterations run one after another
        holds=(Property.PERSISTENT_LOOPS, Property.WARPS_SPECIALIZED, Property.ITERATIONS_OVERLAPPED),
        gives=(
            Property.RULES_CHECKED,
            Property.ACCESSES_VECTORIZED,
            Property.ACCESSES_IN_RANGE,
            Property.GROUP_BARRIERS_PLACED,
            Property.SHARED_MEMORY_FLAT,
        ),
    )
