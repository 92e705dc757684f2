"""Which launches are warp-specialized, with which schedule; the reasons against it; overrides by pass_configs."""

import dataclasses

import numpy as np
import pytest
from examples_of import load
from specialized import TABLE, context, gemm_kernel, launch_of, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError, ResourceError
from tilelang.layout.xor_swizzle import swizzled
from tilelang.passes.base import PassContext, with_launches
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.schedule import Schedule, schedule_of
from tilelang.targets.target import Target

PASSES = (inline_bindings.PASS, choose_schedule(TABLE))


def chosen(func, **pass_configs):
    return launch_of(warp_specialize(func, passes=PASSES, **pass_configs)).plan.schedule


def reason(func, **pass_configs):
    plan = launch_of(warp_specialize(func, passes=PASSES, **pass_configs)).plan
    assert plan.schedule is None
    return " ".join(note.text for note in plan.notes)


def alone(schedule):
    """A schedule without those of loops, and how many gemms it leaves in flight."""
    return dataclasses.replace(schedule, loops=()), schedule.mma_in_flight


STAYING = {"persistent": True, "panel": (16, "row")}


@pytest.mark.parametrize(
    "sizes,tile,expected,in_flight",
    [
        # one tile for each multiprocessor at most: blocks do one; more: they stay
        ((1024, 1024, 1024), (64, 128, 64), Schedule(1, 8, epilogue_parts=1), 1),
        ((2048, 2048, 2048), (128, 256, 64), Schedule(2, 4, epilogue_parts=2), 0),
        ((4096, 4096, 4096), (128, 256, 64), Schedule(2, 4, epilogue_parts=2, **STAYING), 0),
        # a gemm in flight where those of the other warpgroup are over before the next is issued
        ((1024, 1024, 1024), (128, 128, 32), Schedule(2, 8, epilogue_parts=1), 1),
        ((1024, 1024, 1024), (128, 128, 64), Schedule(2, 6, epilogue_parts=1), 0),
        ((1024, 1024, 1024), (128, 64, 64), Schedule(2, 8, epilogue_parts=1), 1),
        ((1024, 1024, 1024), (192, 96, 64), Schedule(3, 5, epilogue_parts=1), 0),
        # but not where it holds a stage of so few that loads would be late
        ((1024, 1024, 512), (64, 256, 128), Schedule(1, 2, epilogue_parts=1), 0),
        # the epilogue of a tile under the main loop of the next, where one warpgroup holds a tile
        ((4096, 4096, 4096), (64, 256, 64), Schedule(2, 5, epilogue_parts=4, ping_pong=True, **STAYING), 1),
        ((8192, 8192, 1024), (128, 128, 64), Schedule(2, 6, epilogue_parts=2, ping_pong=True, **STAYING), 1),
        ((8192, 8192, 8192), (128, 128, 32), Schedule(2, 8, epilogue_parts=1, ping_pong=True, **STAYING), 1),
        (
            (4096, 4096, 4096),
            (128, 192, 64),
            Schedule(2, 4, 1, 128, (240, 24), epilogue_parts=3, ping_pong=True, **STAYING),
            1,
        ),
        # not for so few tiles that the last epilogue, of one warpgroup, takes longer than those of three together
        ((2048, 2048, 2048), (192, 128, 64), Schedule(3, 5, epilogue_parts=2, **STAYING), 0),
        # nor where so few stages are left that it waits for tiles
        ((8192, 8192, 1024), (128, 128, 128), Schedule(2, 3, epilogue_parts=1, **STAYING), 0),
        ((8192, 8192, 1024), (128, 160, 64), Schedule(2, 4, epilogue_parts=1, **STAYING), 0),
        # nor where threads would store results that go through shared memory otherwise
        ((3072, 3072, 3072), (256, 96, 64), Schedule(2, 4, epilogue_parts=1, **STAYING), 0),
        # many sums take registers from the producer
        ((4096, 4096, 4096), (256, 192, 64), Schedule(2, 3, 1, 128, (240, 24), epilogue_parts=3, **STAYING), 0),
        # no more versions than are of use
        ((256, 256, 128), (128, 128, 64), Schedule(2, 2, epilogue_parts=1), 0),
    ],
)
def test_the_schedule_follows_from_the_shape(sizes, tile, expected, in_flight):
    assert (expected, in_flight) == alone(chosen(gemm_kernel(*sizes, *tile)))


def test_a_note_tells_what_each_partition_of_the_tiles_takes():
    plan = launch_of(warp_specialize(gemm_kernel(8192, 8192, 1024), passes=PASSES)).plan
    text = "by estimate a block takes 274432 cycles if 2 warpgroups share each tile, and 262912 if two are in ping-pong"
    assert text in [note.text for note in plan.notes]


def test_no_note_on_partitions_is_left_of_blocks_that_would_stay_only_in_clusters():
    @T.prim_func
    def batches(A: T.Tensor((124, 128, 1024), "float16"), C: T.Tensor((124, 128, 128), "float16")):
        with T.Kernel(1, 1, 124, threads=128) as (_, _, bz):
            A_s, B_s = (T.alloc_shared((128, 64), "float16") for _ in range(2))
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(16, num_stages=3):
                T.copy(A[bz, 0, k * 64], A_s)
                T.copy(A[bz, 0, 960 - k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[bz, 0, 0])

    plan = launch_of(warp_specialize(batches, passes=PASSES, cluster=(1, 1, 4))).plan
    assert not plan.schedule.persistent  # 124 blocks run at once, but not in clusters of 4
    assert not any("by estimate" in note.text for note in plan.notes)


def test_loops_that_load_elements_themselves_need_registers():
    @T.prim_func
    def main(A: T.Tensor((4096, 1024), "float16"), bias: T.Tensor((4096,), "float32"), C: T.Tensor((4096, 4096), "float16")):
        with T.Kernel(32, 32, threads=256) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(16, num_stages=4):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(A[bx * 128, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            for i, j in T.Parallel(128, 128):
                C_l[i, j] += bias[bx * 128 + j]
            T.copy(C_l, C[by * 128, bx * 128])

    assert (240, 24) == chosen(main).registers


def test_fragments_that_threads_cannot_hold_take_their_part_of_shared_memory():
    def stored(column):
        @T.prim_func
        def main(A: T.Tensor((4096, 1024), "float16"), C: T.Tensor((4096, 4096), "float32")):
            with T.Kernel(32, 32, threads=256) as (bx, by):
                A_s = T.alloc_shared((128, 64), "float16")
                B_s = T.alloc_shared((128, 64), "float16")
                C_l = T.alloc_fragment((128, 128), "float32")
                T.clear(C_l)
                for k in T.Pipelined(16, num_stages=4):
                    T.copy(A[by * 128, k * 64], A_s)
                    T.copy(A[bx * 128, k * 64], B_s)
                    T.gemm(A_s, B_s, C_l, transpose_B=True)
                for half in T.serial(2):
                    for i, j in T.Parallel(128, 64):
                        C[by * 128 + i, bx * 128 + half * 64 + j] = C_l[i, column(half, bx, j)]

        return main

    def stages(column):
        return chosen(stored(column), staged=False).stages

    assert 7 == stages(lambda half, block, j: j)
    assert 7 == stages(lambda half, block, j: half * 64 + j)  # the loop is unrolled
    assert 7 == stages(lambda half, block, j: block % 2 * 64 + j)  # the loop runs over all columns
    assert 5 == stages(lambda half, block, j: 63 - j)  # 64 KiB are those of the sums


def test_symbolic_grids_get_persistent_blocks():
    M = T.dynamic("M")
    schedule = chosen(gemm_kernel(M, 4096, 4096))
    assert schedule.persistent
    assert (16, "row") == schedule.panel


def scores():
    """Products of a number of tiles that data says, from a place that it says, with arithmetic behind each."""

    @T.prim_func
    def main(A: T.Tensor((4096, 64), "float16"), B: T.Tensor((4096, 64), "float16"), ends: T.Tensor((64,), "int32"),
             C: T.Tensor((4096, 128), "float32")):  # fmt: skip
        with T.Kernel(512, threads=256) as bx:
            A_s = T.alloc_shared((256, 64), "float16")
            B_s = T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((256, 128), "float32")
            C_rows = T.reshape(C_l, (256, 2, 64))
            first = T.alloc_var("int32", init=4096)
            for i in T.serial(4):
                first = T.min(first, ends[bx + i])
            T.copy(B[bx * 8, 0], B_s)
            for k in T.Pipelined(first, num_stages=2):
                T.copy(A[first + k * 256, 0], A_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True, clear_accum=True)
                for i, h, j in T.Parallel(256, 2, 64):
                    C_rows[i, h, j] = T.max(C_rows[i, h, j], 0)
            T.copy(C_l, C[bx * 8, 0])

    return main


def test_other_names_of_a_tile_take_no_registers():
    schedule = chosen(scores())
    assert 2 == schedule.consumers
    assert schedule.persistent


def test_scalars_that_the_producer_recomputes_are_noted():
    notes = launch_of(warp_specialize(scores(), passes=PASSES)).plan.notes
    assert "the producer computes 'first' for itself" in [note.text for note in notes]


def test_panels_of_the_user_are_kept():
    assert (4, "row") == chosen(gemm_kernel(4096, 4096, 4096, swizzle=4)).panel


def test_overrides_are_kept():
    func = gemm_kernel(4096, 4096, 4096)
    plain = chosen(func)
    assert not chosen(func, persistent=False).persistent
    assert 1 == chosen(func, consumers=1).consumers
    assert 2 == chosen(func, stages=2).stages
    assert plain.epilogue_parts
    assert not chosen(func, staged=False).epilogue_parts
    assert chosen(gemm_kernel(256, 256, 256), persistent=True).persistent
    assert chosen(func, ping_pong=True).ping_pong
    assert not chosen(gemm_kernel(8192, 8192, 1024), ping_pong=False).ping_pong
    assert chosen(gemm_kernel(8192, 8192, 1024, 128, 128, 128), ping_pong=True).ping_pong
    assert not chosen(gemm_kernel(8192, 8192, 1024), consumers=2).ping_pong
    assert not chosen(gemm_kernel(8192, 8192, 1024, 128, 192), stages=5).ping_pong
    for asked in (0, 1):
        assert asked == chosen(func, in_flight=asked).mma_in_flight
        assert asked == chosen(func, in_flight=asked, ping_pong=True).mma_in_flight
    with pytest.raises(OptionError, match=r"'tl.stages' is 'many', expected an integer from 1 to 64"):
        chosen(func, stages="many")


def test_blocks_split_the_reduction_of_a_tile_where_that_is_set_or_pays():
    func = gemm_kernel(64, 8192, 8192, 64, 128)
    expected = Schedule(1, 8, epilogue_parts=1, split_k=2), 1
    assert expected == alone(chosen(func, split=2)) == alone(chosen(func))
    assert 1 == chosen(func, split=1).split_k
    for taken in ({"persistent": True}, {"cluster": (2, 1)}):
        assert 1 == chosen(func, **taken).split_k
    assert (Schedule(2, 5, epilogue_parts=1, split_k=4), 0) == alone(chosen(gemm_kernel(512, 512, 8192), split=4))
    # what a block owns of the sums takes no registers beside them
    assert chosen(gemm_kernel(512, 512, 8192, 128, 256), split=2).registers is None
    # and no more stages than the iterations of a block
    assert 2 == chosen(gemm_kernel(64, 64, 256, 64, 64), split=2).stages


def test_fewer_stages_than_were_asked_for_are_noted():
    plan = launch_of(warp_specialize(gemm_kernel(256, 256, 256, stages=7), passes=PASSES)).plan
    assert "T.Pipelined: 4 of 7 stages fit or are of use" in [note.text for note in plan.notes]


def test_results_before_a_release_are_stored_by_threads_with_a_note():
    @T.prim_func
    def counted(
        A: T.Tensor((256, 256), "float16"),
        B: T.Tensor((256, 256), "float16"),
        C: T.Tensor((256, 256), "float16"),
        n: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[by * 128, k * 64], A_s)
                T.copy(B[k * 64, bx * 128], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * 128, bx * 128])
            T.atomic_add(n[0], 1, memory_order="release")

    plan = launch_of(warp_specialize(counted, passes=PASSES)).plan
    other = launch_of(warp_specialize(gemm_kernel(256, 256, 256), passes=PASSES)).plan
    assert not plan.schedule.epilogue_parts and other.schedule.epilogue_parts
    (note,) = [note for note in plan.notes if "flags signal them" in note.text]
    assert note.loc.line > 0 and note.text.startswith("results are stored by threads")


@pytest.mark.parametrize("key", ["disable_warp_specialized", "disable_tma_lower"])
def test_it_can_be_switched_off(key):
    assert "not specialized: switched off by pass_configs" == reason(gemm_kernel(256, 256, 256), **{key: True})


def test_loops_without_stages_are_left_alone_without_a_word():
    assert "" == reason(gemm_kernel(256, 256, 256, stages=0))


def test_one_stage_means_as_many_as_are_of_use():
    one, two = (launch_of(warp_specialize(gemm_kernel(256, 256, 256, stages=n), passes=PASSES)) for n in (1, 2))
    assert schedule_of(one) == schedule_of(two)


@pytest.mark.parametrize(("blocks", "expected"), [(1, 1), (2, 2), (3, 2)])
def test_a_multiprocessor_has_room_for_as_many_blocks_as_the_user_says(blocks, expected):
    func = gemm_kernel(2048, 2048, 512, 64, 64)
    hints = dataclasses.replace(launch_of(func).hints, min_blocks_per_sm=blocks)
    func = with_launches(func, lambda launch: dataclasses.replace(launch, hints=hints))
    assert expected == schedule_of(launch_of(warp_specialize(func, passes=PASSES))).blocks_per_sm


def test_loads_that_the_user_places_are_those_of_a_producer():
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2, order=[0, 1, 2], stage=[0, 0, 1]):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C)

    assert chosen(main).stages > 2


def test_other_targets_are_left_alone():
    func = gemm_kernel(256, 256, 256)
    for target in (Target("cuda", "sm_80"), Target("cuda", "sm_100a")):
        assert choose_schedule(TABLE).run(func, PassContext(target=target)) is func


def test_what_tma_cannot_load_is_noted_with_its_line():
    func = gemm_kernel(256, 256, 200, bk=40)  # rows of 80 bytes, whose rows cannot be swizzled alike
    assert launch_of(warp_specialize(func, passes=PASSES)).plan.schedule is not None
    odd = gemm_kernel(256, 254, 256)  # rows of B are no multiple of 16 bytes
    text = reason(odd)
    assert "T.copy to 'B_s': a stride of the tensor is not proven to be a multiple of 16 bytes" in text
    assert "line" in text


@pytest.mark.parametrize(
    "layout,fits",
    [
        (lambda tile: T.make_swizzled_layout(tile), True),
        (lambda tile: swizzled(tile.shape, 16, 128), False),  # within whole rows, which are two boxes long
        (lambda tile: T.Layout(tile.shape, lambda i, j: (j, i)), False),
    ],
)
def test_tiles_with_annotated_layouts_are_loaded_if_tma_supports_them(layout, fits):
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16"), C: T.Tensor((256, 256), "float16")):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_s = T.alloc_shared((128, 32), "float16")
            B_s = T.alloc_shared((32, 128), "float16")
            C_f = T.alloc_fragment((128, 128), "float32")
            T.annotate_layout({A_s: T.make_swizzled_layout(A_s), B_s: layout(B_s)})
            T.clear(C_f)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[by * 128, k * 32], A_s)
                T.copy(B[k * 32, bx * 128], B_s)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C[by * 128, bx * 128])

    if fits:
        assert chosen(main) is not None
    else:
        assert "'B_s'" in reason(main)


def test_one_warpgroup_has_all_the_registers_that_a_thread_can_have():
    @T.prim_func
    def main(A: T.Tensor((512, 256), "float16"), B: T.Tensor((256, 64), "float16"), W: T.Tensor((512,), "float32"),
             C: T.Tensor((512, 64), "float32")):
        with T.Kernel(4, threads=128) as by:
            A_s = T.alloc_shared((128, 32), "float16")
            B_s = T.alloc_shared((32, 64), "float16")
            gemm_loop = [T.alloc_fragment((128, 64), "float32") for _ in range(3)]
            for x in gemm_loop:
                T.clear(x)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[by * 128, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                for x in gemm_loop:
                    T.gemm(A_s, B_s, x)
            for i, j in T.Parallel(128, 64):
                gemm_loop[0][i, j] = gemm_loop[0][i, j] + gemm_loop[1][i, j] * gemm_loop[2][i, j] + W[by * 128 + i]
            T.copy(gemm_loop[0], C[by * 128, 0])

    assert chosen(main, consumers=1).registers is None
    assert (240, 24) == chosen(main, consumers=2).registers


def test_programs_of_single_threads_are_left_alone():
    @T.prim_func
    def waits(A: T.Tensor((256, 256), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((128, 64), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.sync_threads()
                T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    assert "not specialized: the kernel calls T.sync_threads itself" == reason(waits)

    @T.prim_func
    def leaves(A: T.Tensor((512, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((512, 64), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_s, B_s = T.alloc_shared((128, 32), "float16"), T.alloc_shared((32, 64), "float16")
            C_l = T.alloc_fragment((128, 64), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * 128, k * 32], A_s)
                T.copy(B[k * 32, 0], B_s)
                T.gemm(A_s, B_s, C_l, clear_accum=k == 0, wg_wait=1)
            T.copy(C_l, C[bx * 128, 0])

    assert "not specialized: the kernel waits for its gemms itself" == reason(leaves)


def test_tiles_of_which_no_thread_can_hold_its_share_are_refused():
    assert "tiles take 256 registers of a thread" in reason(gemm_kernel(4096, 4096, 4096, 256, 256))


def test_tiles_of_which_shared_memory_holds_one_are_refused():
    assert "shared memory holds one version of" in reason(gemm_kernel(4096, 4096, 4096, 128, 128, 256))


@pytest.mark.parametrize("dim", [64, 128])
def test_stages_that_hide_no_more_loads_leave_space_for_the_results(dim):
    program = load("03_attention/attention_backward.py").attention_backward.get_tir(
        1, 4, 1024, dim, block_M=64, block_N=128, threads=256
    )
    schedule = chosen(program)
    assert (schedule.stages, bool(schedule.epilogue_parts)) == ({64: 7, 128: 2}[dim], True)
    assert 3 == chosen(program, stages=3).stages


def test_overrides_reach_the_pass():
    assert context(stages=3).options.schedule.stages == 3


def test_stages_leave_space_for_tiles_that_conversions_of_layouts_need():
    M, N, K = 64, 192, 512

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((2, 8, N), "float32")):
        with T.Kernel(2, threads=128) as bx:  # blocks that read the same need all stages that fit
            A_s, B_s = T.alloc_shared((M, 64), "float16"), T.alloc_shared((N, 64), "float16")
            sums, largest = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M,), "float32")
            T.clear(sums)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[0, k * 64], A_s)
                T.copy(B[0, k * 64], B_s)
                T.gemm(A_s, B_s, sums, transpose_B=True)
            T.reduce_max(sums, largest, dim=1)
            for i, j in T.Parallel(M, N):
                if i < 8:  # one warp holds these rows, and all of them share the divisions
                    C[bx, i, j] = sums[i, j] / largest[i]

    rng = np.random.default_rng(0)
    a, b = (rng.integers(1, 5, shape).astype(np.float16) for shape in ((M, K), (N, K)))
    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    assert "sums: goes through 49152 bytes of shared memory" in kernel.explain()
    assert "5 stages" in kernel.explain()
    with pytest.raises(ResourceError, match="num_stages=5 fits"):
        tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}, pass_configs={"tl.stages": 6})
    c = np.full((2, 8, N), np.nan, np.float32)
    kernel(a, b, c)
    sums = a.astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_allclose(c, [(sums / sums.max(axis=1, keepdims=True))[:8]] * 2, rtol=1e-6)


def test_a_fragment_may_change_its_layout_in_the_prologue_and_in_the_loop():
    trips, rows = 3, 128

    @T.prim_func
    def main(
        A: T.Tensor((rows, 128), "float16"), B: T.Tensor((128 * trips, 128), "float16"), C: T.Tensor((rows, 128), "float32")
    ):
        with T.Kernel(1, threads=256):
            A_s, B_s = T.alloc_shared((rows, 128), "float16"), T.alloc_shared((128, 128), "float16")
            S, P = T.alloc_fragment((rows, 128), "float32"), T.alloc_fragment((rows, 128), "float16")
            sums = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, A_s)
            T.clear(sums)
            for k in T.Pipelined(trips, num_stages=2):
                T.copy(B[k * 128, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(rows, 128):
                    S[i, j] = T.min(T.max(S[i, j], -1.0), 1.0)
                T.copy(S, P)
                T.gemm(P, B_s, sums, policy=T.GemmWarpPolicy.FullCol)
            T.copy(sums, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((rows, 128), (128 * trips, 128)))
    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")
    c = np.full((rows, 128), np.nan, np.float32)
    kernel(a, b, c)
    a, b = (x.astype(np.float32) for x in (a, b))
    np.testing.assert_array_equal(c, np.clip(a @ b.T, -1, 1) @ b)
