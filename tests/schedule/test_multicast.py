"""The blocks of a cluster load the parts of a tile for each other, and arrive at the barriers of those that load."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.schedule.multicast import (
    ClusterBlocks,
    cluster_blocks,
    multicast_axes,
    position_of,
)
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities

RANK = Var("rank", INT32, index=True)
EXTENTS = st.sampled_from([(2, 1, 1), (1, 2, 1), (2, 2, 1), (4, 1, 1), (3, 2, 1), (1, 2, 2), (2, 2, 2)])


def values(expr, extents):
    """An expression for each block of a cluster, in the order of their numbers."""
    return [int(evaluate(expr, {RANK: rank})) for rank in range(math.prod(extents))]


def places(extents):
    """Where the blocks are, in the order of their numbers."""
    return [place[::-1] for place in itertools.product(*map(range, extents[::-1]))]


@given(EXTENTS, st.sets(st.integers(0, 2), min_size=1))
def test_each_part_is_multicast_once_to_all_blocks_that_share_a_tile(extents, axes):
    cluster, axes = ClusterBlocks(extents, position_of(RANK, extents)), tuple(sorted(axes))
    masks, parts = values(cluster.multicast_mask(axes), extents), values(cluster.part(axes), extents)
    came = {rank: [] for rank in range(math.prod(extents))}
    for sender, mask in enumerate(masks):
        for rank in came:
            if mask >> rank & 1:
                came[rank].append((parts[sender], sender))
    for rank, place in enumerate(places(extents)):
        assert list(range(cluster.parts(axes))) == sorted(part for part, _ in came[rank])
        senders = [places(extents)[sender] for _, sender in came[rank]]
        assert all(place[axis] == other[axis] for other in senders for axis in range(3) if axis not in axes)


@given(EXTENTS, st.lists(st.sets(st.integers(0, 2), min_size=1), min_size=1, max_size=3))
def test_senders_are_those_whose_masks_name_the_block_and_the_first_is_itself(extents, several):
    cluster, several = ClusterBlocks(extents, position_of(RANK, extents)), [tuple(sorted(axes)) for axes in several]
    masks = [values(cluster.multicast_mask(axes), extents) for axes in several]
    told = [values(sender, extents) for sender in cluster.senders(several)]
    assert list(range(math.prod(extents))) == told[0]
    for rank in range(math.prod(extents)):
        writing = {sender for mask in masks for sender, bits in enumerate(mask) if bits >> rank & 1}
        assert sorted(writing) == sorted(numbers[rank] for numbers in told)


def test_a_block_knows_its_place_from_its_indices():
    launch = launch_of(gemm_kernel(512, 512, 64, cluster=(2, 2)))
    bx, by = launch.block_vars
    x, y, z = cluster_blocks(launch, (2, 2, 1), persistent=False).position
    assert [1, 0, 0] == [int(evaluate(e, {bx: 3, by: 2})) for e in (x, y, z)]
    x, y, z = cluster_blocks(launch, (2, 2, 1), persistent=True).position
    assert [1, 1, 0] == [int(evaluate(e, {bx: 7})) for e in (x, y, z)]


def axes_of(func):
    """Per tile, the dimensions along which blocks read it alike."""
    launch = flatten_sequences(launch_of(func))
    load_groups = target_capabilities(func, TABLE, context()).load_groups(launch).found
    return {copy.dst.buffer.name: multicast_axes(launch, load_group, copy) for load_group in load_groups for copy in load_group.copies}


def test_operands_of_a_gemm_are_shared_along_the_other_dimension_of_the_grid():
    assert {"A_s": (0,), "B_s": (1,)} == axes_of(gemm_kernel(512, 512, 256))


def other(steps, first):
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float16")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            place = first(bx, by)
            for k in T.Pipelined(steps(bx, by), num_stages=2):
                T.copy(A[place, k * 64], A_s)
                T.copy(B[0, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * 64, bx * 64])

    return main


def test_names_are_looked_through_and_loops_count():
    assert {"A_s": (0,), "B_s": (0, 1)} == axes_of(other(lambda bx, by: 4, lambda bx, by: by * 64))
    assert {"A_s": (), "B_s": (0,)} == axes_of(other(lambda bx, by: by + 1, lambda bx, by: bx * 64))
