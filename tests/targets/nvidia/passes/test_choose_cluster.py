"""Clusters stand where they are asked for and possible; what is not is refused."""

import pytest
from specialized import TABLE, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes.choose_cluster import divides_grid
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule


def chosen(func, **pass_configs):
    launch = launch_of(warp_specialize(func, passes=(inline_bindings.PASS, choose_schedule(TABLE)), **pass_configs))
    schedule = launch.plan.schedule
    assert schedule.cluster == launch.hints.cluster
    return schedule, [note.text for note in launch.plan.notes[1:]]


def multicast(func, **pass_configs):
    schedule, _ = chosen(func, **pass_configs)
    return schedule.cluster, {tile.name: axes for tile, axes in schedule.multicast}


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (4016, 4016, 4016), (5008, 5008, 5008), (2048, 2048, 2048)])
def test_blocks_with_aligned_rows_form_no_clusters_by_default(sizes):
    assert ((1, 1, 1), {}) == multicast(gemm_kernel(*sizes, bn=256))


@pytest.mark.parametrize(
    "sizes,tile,expected",
    [
        ((5000, 5000, 5000), (128, 224), ((1, 2, 1), {"B_s": (1,)})),
        ((4008, 4008, 4008), (128, 256), ((1, 2, 1), {"B_s": (1,)})),
        ((4008, 4008, 4008), (256, 128), ((2, 1, 1), {"A_s": (0,)})),
        ((5000, 4096, 5000), (128, 256), ((1, 2, 1), {"B_s": (1,)})),  # rows of A are the uneven ones
        ((5000, 5000, 5000), (192, 176), ((1, 1, 1), {})),  # 27 x 29 tiles are no pairs
        ((64, 5000, 5000), (64, 128), ((1, 1, 1), {})),  # one row of tiles shares little
    ],
)
def test_blocks_with_misaligned_rows_multicast_the_larger_tile(sizes, tile, expected):
    assert expected == multicast(gemm_kernel(*sizes, *tile))
    assert ((1, 1, 1), {}) == multicast(gemm_kernel(*sizes, *tile), cluster=1)


@pytest.mark.parametrize(
    "cluster,tiles",
    [
        ((2, 1), {"A_s": (0,)}),
        ((1, 2), {"B_s": (1,)}),
        ((2, 2), {"A_s": (0,), "B_s": (1,)}),
        ((4, 1), {"A_s": (0,)}),
    ],
)
def test_neighbors_along_a_dimension_share_the_tile_that_does_not_depend_on_it(cluster, tiles):
    for func, overrides in ((gemm_kernel(1024, 1024, 256, cluster=cluster), {}), (gemm_kernel(1024, 1024, 256), {"cluster": cluster})):
        for persistent in (False, True):
            assert ((*cluster, 1), tiles) == multicast(func, persistent=persistent, **overrides)


def test_pass_configs_beat_the_kernel():
    schedule, notes = chosen(gemm_kernel(1024, 1024, 256, cluster=2), cluster=1)
    assert ((1, 1, 1), (), []) == (schedule.cluster, schedule.multicast, notes)
    assert ((1, 2, 1), {"B_s": (1,)}) == multicast(gemm_kernel(1024, 1024, 256, cluster=2), cluster=(1, 2))


def test_the_clusters_of_the_kernel_stay_where_an_override_multicasts_nothing():
    func = gemm_kernel(1024, 128 * 6, 256, bn=64, cluster=(1, 2))
    schedule, notes = chosen(func, cluster=(3, 1))
    assert ((1, 2, 1), ["B_s"]) == (schedule.cluster, [tile.name for tile, _ in schedule.multicast])
    assert "tl.cluster: left out, since no tile can be loaded by multicast" in notes
    func = gemm_kernel(T.dynamic("M"), 128 * 6, 256, bn=64, cluster=(1, 2))
    assert (1, 2, 1) == chosen(func, cluster=(3, 1))[0].cluster
    assert not chosen(func, cluster=(3, 1))[0].persistent


@pytest.mark.parametrize(
    ("sizes", "cluster", "grid", "fitting"),
    [
        ((1024, 128 * 7, 256), (2, 1, 1), "7 x 8", (1, 1, 1)),
        ((1024, 128 * 6, 256), (4, 2, 1), "6 x 8", (3, 2, 1)),
        ((T.dynamic("M"), 1024, 256), (1, 2, 1), "8 x (M + 128 - 1) // 128", (1, 1, 1)),
        ((1024, 1024, 256), (1, 1, 2), "8 x 8", (1, 1, 1)),
    ],
)
def test_clusters_of_which_a_grid_is_not_known_to_consist_are_refused(sizes, cluster, grid, fitting):
    with pytest.raises(ProgramError) as caught:
        chosen(gemm_kernel(*sizes), cluster=cluster)
    reason = f"the grid of {grid} blocks is not known to consist of whole clusters"
    assert f"pass_configs: 'tl.cluster' cannot be {cluster}: {reason}" == caught.value.message
    assert f"'tl.cluster': {fitting} fits" == caught.value.hint


def test_grids_may_be_known_to_consist_of_clusters_along_one_dimension():
    assert ((2, 1, 1), {"A_s": (0,)}) == multicast(gemm_kernel(T.dynamic("M"), 1024, 256), cluster=2)


def test_blocks_are_persistent_only_if_the_grid_surely_consists_of_whole_clusters():
    unknown, _ = chosen(gemm_kernel(T.dynamic("M"), 1024, 256, cluster=(1, 2)))
    assert not unknown.persistent and (1, 2, 1) == unknown.cluster
    with pytest.raises(ProgramError) as caught:
        chosen(gemm_kernel(T.dynamic("M"), 1024, 256, cluster=(1, 2)), persistent=True)
    reason = "the grid is not known to consist of whole clusters of 1 x 2 x 1 blocks"
    assert f"pass_configs: 'tl.persistent' cannot be True: {reason}" == caught.value.message
    assert "'tl.persistent': False fits" == caught.value.hint
    known, _ = chosen(gemm_kernel(T.dynamic("M"), 1024, 256, cluster=(2, 1)))
    assert known.persistent
    few, _ = chosen(gemm_kernel(128 * 8, 128 * 16, 256, cluster=(4, 1)))  # 128 blocks, but 120 run at once
    assert few.persistent
    assert not chosen(gemm_kernel(128 * 8, 128 * 16, 256, cluster=(2, 1)))[0].persistent


def test_tiles_without_equal_parts_are_not_multicast():
    schedule, notes = chosen(gemm_kernel(256, 768, 256, bn=64, cluster=3))
    assert (3, 1, 1) == schedule.cluster and () == schedule.multicast
    (note,) = notes
    reason = "3 blocks cannot load equal parts of 128 rows and 64 columns"
    assert f"T.copy: 'A_s' is not loaded by multicast: {reason}" == note
    schedule, notes = chosen(gemm_kernel(256, 768, 256, bn=64), cluster=3)
    assert (1, 1, 1) == schedule.cluster
    assert "tl.cluster: left out, since no tile can be loaded by multicast" == notes[-1]


def test_tiles_that_threads_read_are_not_multicast():
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float16")):
        with T.Kernel(4, 4, threads=128, cluster_dims=2) as (bx, by):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 64, k * 64], A_s)
                T.copy(B[k * 64, bx * 64], B_s)
                T.gemm(A_s, B_s, C_l)
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] += A_s[i, j]
            T.copy(C_l, C[by * 64, bx * 64])

    schedule, notes = chosen(main)
    assert () == schedule.multicast
    assert "T.copy: 'A_s' is not loaded by multicast: threads read it, not only wgmma" == notes[0]


def test_a_grid_is_cut_where_all_extents_are_multiples():
    launch = launch_of(gemm_kernel(1024, 512, 64))
    assert divides_grid(launch, (4, 8, 1)) and divides_grid(launch, (1, 1, 1))
    assert not divides_grid(launch, (3, 1, 1)) and not divides_grid(launch, (1, 1, 2))
