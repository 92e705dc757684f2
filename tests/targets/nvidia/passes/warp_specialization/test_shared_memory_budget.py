"""Shared memory holds as many stages as fit, for which the epilogue may have several parts."""

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

import tilelang.language as T
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import pad_rows_to_swizzle_span
from tilelang.targets.nvidia.passes.warp_specialization.shared_memory_budget import (
    SharedMemoryBudget,
    shared_memory_budget,
)

BYTES = 227 * 1024
MACHINE = context().target.machine


def budget(func, *, shared_bytes=BYTES, machine=None, concurrent_tiles=1, persistent=True, **overrides):
    launch = flatten_sequences(pad_rows_to_swizzle_span(launch_of(func), ()))
    capabilities = target_capabilities(func, TABLE, context())
    return shared_memory_budget(
        launch,
        capabilities.load_groups(launch).found,
        capabilities.epilogue_stores(launch, 256),
        shared_bytes,
        ScheduleOverrides(**overrides),
        machine=machine,
        persistent=persistent,
        concurrent_tiles=concurrent_tiles,
    )


@pytest.mark.parametrize(
    "tile,expected",
    [
        ((128, 128, 64), SharedMemoryBudget(6, 1, 1)),  # in parts there would be no more
        ((128, 256, 64), SharedMemoryBudget(4, 1, 2)),
        ((128, 192, 64), SharedMemoryBudget(5, 1, 3)),  # halves would have rows of 192 bytes
        ((128, 224, 64), SharedMemoryBudget(4, 1, 2)),
        ((64, 128, 64), SharedMemoryBudget(8, 1, 1)),
        ((256, 192, 64), SharedMemoryBudget(3, 1, 3)),
    ],
)
def test_the_epilogue_has_parts_where_these_leave_space_for_another_stage(tile, expected):
    assert expected == budget(gemm_kernel(4096, 4096, 4096, *tile))


def through_tile(how):
    """A gemm whose results pass a tile of the program."""

    @T.prim_func
    def main(A: T.Tensor((4096, 4096), "float16"), C: T.Tensor((4096, 4096), "float16")):
        with T.Kernel(32, 16, threads=256) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((256, 64), "float16")
            C_l = T.alloc_fragment((128, 256), "float32")
            C_s = T.alloc_shared((128, 256), "float16")
            if how == "annotated":
                T.annotate_layout({C_s: T.make_swizzled_layout(C_s)})
            if how in ("idle tiles", "large tiles"):
                others = T.alloc_shared((256, 256 if how == "idle tiles" else 232), "float16")
            if how == "large tiles":
                others[0, 0] = 1
            T.clear(C_l)
            for k in T.Pipelined(64, num_stages=3):
                T.copy(A[bx * 128, k * 64], A_s)
                T.copy(A[by * 256, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C_s)
            if how == "computes between":
                T.clear(C_l)
            T.copy(C_s, C[bx * 128, by * 256])
            if how == "computes between":
                T.copy(C_l, C_s)

    return main


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("at once", SharedMemoryBudget(4, 1, 2)),
        ("idle tiles", SharedMemoryBudget(4, 1, 2)),
        ("large tiles", SharedMemoryBudget(2, 1, 0)),
        ("annotated", SharedMemoryBudget(3, 1, 1)),
        ("computes between", SharedMemoryBudget(3, 1, 0)),
    ],
)
def test_a_tile_of_the_program_is_left_out_where_that_saves_space(how, expected):
    assert expected == budget(through_tile(how))


def test_tiles_that_are_loaded_in_several_places_count_once():
    @T.prim_func
    def main(A: T.Tensor((4096, 4096), "float16"), C: T.Tensor((4096, 4096), "float16")):
        with T.Kernel(32, 16, threads=256) as (bx, by):
            A_s = T.alloc_shared((128, 64), "float16")
            B_s = T.alloc_shared((256, 64), "float16")
            C_l = T.alloc_fragment((128, 256), "float32")
            T.copy(A[bx * 128, 0], A_s)
            T.copy(A[by * 256, 0], B_s)
            T.gemm(A_s, B_s, C_l, transpose_B=True, clear_accum=True)
            for k in T.Pipelined(1, 64, num_stages=3):
                T.copy(A[bx * 128, k * 64], A_s)
                T.copy(A[by * 256, k * 64], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[bx * 128, by * 256])

    assert SharedMemoryBudget(4, 1, 2) == budget(main)


@pytest.mark.parametrize(
    "staged,expected",
    [
        (False, SharedMemoryBudget(4, 1, 0)),
        (0, SharedMemoryBudget(4, 1, 0)),
        (1, SharedMemoryBudget(3, 1, 1)),
        (True, SharedMemoryBudget(4, 1, 2)),
        (4, SharedMemoryBudget(4, 1, 4)),
        (3, SharedMemoryBudget(3, 1, 1)),  # 256 columns have no thirds: they leave at once
    ],
)
def test_overrides_are_kept(staged, expected):
    assert expected == budget(gemm_kernel(4096, 4096, 4096, 128, 256, 64), epilogue_parts=staged)


def test_two_tiles_at_once_take_twice_as_much():
    assert SharedMemoryBudget(6, 1, 2) == budget(gemm_kernel(8192, 8192, 1024, 128, 128, 64), concurrent_tiles=2)
    assert SharedMemoryBudget(4, 1, 3) == budget(gemm_kernel(8192, 8192, 1024, 128, 192, 64), concurrent_tiles=2)


def test_no_more_versions_than_a_block_uses():
    assert SharedMemoryBudget(2, 1, 1) == budget(gemm_kernel(256, 256, 128), persistent=False)


@pytest.mark.parametrize(
    ("shape", "stages", "overrides"),
    [
        ((16, 8192, 8192, 16, 64, 128), 6, {}),  # 16 KiB of B each time, which are read once
        ((16, 8192, 8192, 16, 64, 256), 3, {}),
        ((16, 8192, 8192, 16, 64, 128), 9, {"stages": 9}),
        ((64, 8192, 8192, 64, 64, 64), 8, {}),  # half as much: no other limit allows as many as 12
        ((32, 8192, 8192, 16, 64, 128), 8, {}),  # two rows of tiles read B
        ((64, 8192, 8192, 64, 64, 256), 3, {}),  # A takes the rest of shared memory
    ],
)
def test_no_more_stages_than_stream_tensors_that_are_read_once(shape, stages, overrides):
    assert stages == budget(gemm_kernel(*shape), machine=MACHINE, **overrides).stages


@pytest.mark.parametrize(("gemms", "stages"), [(1, 12), (4, 16)])
def test_a_loop_that_waits_for_its_gemms_has_as_many_stages_as_are_of_use(gemms, stages):
    @T.prim_func
    def main(A: T.Tensor((64, 8192), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for k in T.Pipelined(128, num_stages=3):
                T.copy(A[0, k * 64], A_s)
                for _ in [None] * gemms:
                    T.gemm(A_s, A_s, C_l, transpose_B=True)
            T.copy(C_l, C)

    assert stages == budget(main, machine=MACHINE).stages


@pytest.mark.parametrize(
    ("shared_bytes", "expected"),
    [
        (BYTES, SharedMemoryBudget(16, 1, 0, True)),
        (34 * 1024, SharedMemoryBudget(2, 1, 0, True)),  # 16 KiB of sums beside two tiles of 8 KiB
        (24 * 1024, SharedMemoryBudget(2, 1, 0, False)),
    ],
)
def test_additions_of_a_loop_go_through_shared_memory_that_two_stages_leave(shared_bytes, expected):
    @T.prim_func
    def main(A: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[bx * 64, 0], A_s)
                T.gemm(A_s, A_s, C_l, clear_accum=True)
                T.atomic_add(C, C_l)

    assert expected == budget(main, shared_bytes=shared_bytes)


def test_it_is_said_what_does_not_fit():
    assert "shared memory holds no version of 32768 bytes of tiles" == budget(gemm_kernel(256, 256, 256), shared_bytes=32768)
    assert "shared memory holds one version of 32768 bytes of tiles" == budget(gemm_kernel(256, 256, 256), shared_bytes=65536)
