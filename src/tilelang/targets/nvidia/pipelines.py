"""The order of passes for an NVIDIA GPU, and nothing else."""

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
    speculate_loads,
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
from tilelang.targets.gpu.lowerings.exchanged_stores import by_exchanged_stores
from tilelang.targets.gpu.lowerings.warp_votes import skip_by_votes
from tilelang.targets.nvidia.isa.atomic import VECTOR_LANES
from tilelang.targets.nvidia.isa.cp_async import ASYNC_COPIES
from tilelang.targets.nvidia.lowerings.matrix_stores import by_matrix_stores
from tilelang.targets.nvidia.named_barriers import NamedBarriers
from tilelang.targets.nvidia.passes import (
    bound_registers,
    carry_offsets,
    check_registers,
    choose_cache_policy,
    cluster_split_k,
    compute_where_stored,
    expand_pipeline,
    hide_cleared_sums,
    hold_operands,
    insert_proxy_fences,
    lower_pipelines,
    make_warp_uniform,
    merge_consumers,
    multi_buffer,
    overlap_launches,
    pack_casts,
    peel_first_iterations,
    persist_grid,
    plan_pipeline,
    predicate_copies,
    publish_async_barriers,
    reconverge_warps,
    renew_held_operands,
    renew_thread_index,
    reread_thread_index,
    round_loads,
    split_masked_loops,
    stream_loads,
    strength_reduce_remainders,
    unpack_in_pairs,
    widen_packed_loads,
)
from tilelang.targets.nvidia.passes.choose_occupancy import choose_occupancy
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.join_gemms import join_gemms
from tilelang.targets.nvidia.passes.keep_computed_operands import keep_computed_operands
from tilelang.targets.nvidia.passes.specialize_warps import specialize_warps
from tilelang.targets.nvidia.passes.workspace_split_k import workspace_split_k


def passes(lowerings: Lowerings) -> tuple[Pass, ...]:
    """The passes from the staged program to the program of one thread."""
    scheduled = (
        choose_schedule(lowerings),
        choose_cache_policy.PASS,
        persist_grid.PASS,
        rasterize_grid.PASS,
        cluster_split_k.PASS,
        specialize_warps(lowerings),
        split_masked_loops.PASS,
        peel_first_iterations.PASS,
        promote_to_registers.PASS,
        choose_lowerings(lowerings),
        hold_operands.PASS,
        plan_pipeline.PASS,
        expand_pipeline.PASS,
        renew_held_operands.PASS,
        expand_to_loops(lowerings),
        flatten_parallel.PASS,
        compute_where_stored.PASS,
        demote_fragments.PASS,
        infer_layouts(lowerings),
        warn_large_fragments.PASS,
        check_registers.PASS,
        round_loads.PASS,
        lower_pipelines.PASS,
        lower_to_threads(lowerings, by_matrix_stores, by_exchanged_stores, skip_by_votes),
        vectorize_accesses(ASYNC_COPIES),
        vectorize_atomics(lambda machine: VECTOR_LANES),
        pack_casts.PASS,
        unpack_in_pairs.PASS,
        widen_packed_loads.PASS,
        predicate_bounds.predicate_bounds(splitting=False),
        hoist_scalar_loads.PASS,
        speculate_loads.PASS,
        allocate_shared_memory.PASS,
        insert_barriers.PASS,
        insert_group_barriers(NamedBarriers),
        insert_proxy_fences.PASS,
        flatten_shared.flatten_shared(versions_first=True),
    )
    return build_pipeline(
        resolve_warp_size.PASS,
        *FRONT_END,
        detect_thread_groups.PASS,
        multi_buffer.PASS,
        publish_async_barriers.PASS,
        narrow_tile_dtypes.PASS,
        keep_computed_operands(lowerings),
        workspace_split_k(lowerings),
        join_gemms(lowerings),
        choose_occupancy(scheduled),
        *scheduled,
        merge_consumers.PASS,
        *GPU_SIMPLIFICATION,
        predicate_copies.PASS,
        reconverge_warps.PASS,
        make_warp_uniform.PASS,
        strength_reduce_remainders.PASS,
        carry_offsets.PASS,
        renew_thread_index.PASS,
        reread_thread_index.PASS,
        hide_cleared_sums.PASS,
        overlap_launches.PASS,
        stream_loads.PASS,
        bound_registers.PASS,
        establishes=(
            Property.RULES_CHECKED,
            Property.ACCESSES_VECTORIZED,
            Property.ACCESSES_IN_RANGE,
            Property.PROXY_FENCES_INSERTED,
            Property.SHARED_MEMORY_FLAT,
            Property.WARPS_RECONVERGED,
        ),
    )
