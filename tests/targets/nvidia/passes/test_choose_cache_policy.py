"""The L2 cache is told what a launch reads once and what all its blocks read; nothing where neither is certain."""

import pytest
from dequantized_gemm import dequantized
from specialized import TABLE, context, gemm_kernel, launch_of, warp_specialize

import tilelang.language as T
from tilelang.ir.specialization import Specialization
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.passes import choose_cache_policy
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.target import Target
from tilelang.transforms.specialize_symbols import specialize

PASSES = (inline_bindings.PASS, choose_schedule(TABLE), choose_cache_policy.PASS)


def hints(func, **pass_configs):
    """What the cache is told of each tensor that is copied to shared memory."""
    made = launch_of(warp_specialize(func, passes=PASSES, **pass_configs))
    found = [s for s in walk(made.body) if isinstance(s, Copy)]
    return {copy.src.buffer.name: copy.eviction for copy in found if copy.eviction is not None}


SKINNY = {"A": "evict_last", "B": "evict_first"}


@pytest.mark.parametrize(
    "func,expected",
    [
        (gemm_kernel(64, 8192, 8192, 64, 64, 64), SKINNY),
        (gemm_kernel(16, 4096, 4096, 16, 64, 128), SKINNY),
        (gemm_kernel(48, 1000, 1024, 64, 128, 64), SKINNY),  # edges that tiles do not divide
        # too large to keep
        (gemm_kernel(64, 2048, 65536, 64, 64, 64), {"B": "evict_first"}),
        # so large that the cache is of no use
        (gemm_kernel(64, 16384, 8192, 64, 64, 64), SKINNY),
        (gemm_kernel(64, 16384, 16384, 64, 64, 64), {}),
        # a column of tiles reads its weights several times
        (gemm_kernel(128, 8192, 8192, 64, 64, 64), {}),
        (gemm_kernel(4096, 4096, 4096), {}),
        # threads compute the weights
        (dequantized(64, 96), {"A": "evict_first", "W": "evict_first"}),
        # so small that it stays in any case
        (gemm_kernel(8, 8192, 1024, 8, 64, 128), {"B": "evict_first"}),
        # one block alone
        (gemm_kernel(64, 64, 1024, 64, 64, 64), {"A": "evict_first", "B": "evict_first"}),
    ],
)
def test_what_is_read_once_goes_first(func, expected):
    assert expected == hints(func)


@pytest.mark.parametrize(
    "shape,expected",
    [
        ((64, 8192, 8192, 64, 64, 64), {"B_s"}),
        ((64, 16384, 16384, 64, 64, 64), {"B_s"}),  # so large that no policy pays
        ((128, 8192, 8192, 64, 64, 64), set()),
    ],
)
def test_tiles_are_streamed_that_come_from_tensors_read_once(shape, expected):
    launch = launch_of(inline_bindings.PASS.run(gemm_kernel(*shape), context()))
    assert expected == {tile.name for tile in choose_cache_policy.streamed_tiles(launch)}


def test_sizes_that_only_the_host_knows():
    func = gemm_kernel(64, T.dynamic("N"), 4096, 64, 128, 64)
    assert SKINNY == hints(specialize(func, Specialization(multiples=(("N", 16),))))
    assert {} == hints(func), "threads copy rows that may begin anywhere"
    assert {} == hints(gemm_kernel(T.dynamic("M"), 4096, 4096))


def test_it_can_be_switched_off_and_says_what_it_does():
    func = gemm_kernel(64, 8192, 8192, 64, 64, 64)
    assert {} == hints(func, l2_hints=False)
    notes = [note.text for note in launch_of(warp_specialize(func, passes=PASSES)).plan.notes]
    assert ["L2 cache: 'A' is read by all blocks (evict_last)", "L2 cache: 'B' is read once (evict_first)"] == notes[-2:]


def test_copies_by_threads_are_left_alone():
    func = gemm_kernel(64, 8192, 8192, 64, 64, 64)
    assert {} == hints(func, disable_warp_specialized=True)


def test_targets_that_were_not_measured_are_left_alone():
    func = gemm_kernel(64, 8192, 8192, 64, 64, 64)
    made = run_passes(func, PASSES, PassContext(context().options, Target("cuda", "sm_80")))
    assert all(s.eviction is None for s in walk(made.body) if isinstance(s, Copy))


def chunks(step=64, loops=1, again=False, policy=None, scaled=False):
    """One row of blocks; tiles of W begin every `step` columns."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 512), "float16"), W: T.Tensor((512, 4096), "float16"), C: T.Tensor((64, 2048), "float32")
    ):
        with T.Kernel(32, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            W_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.clear(C_l)
            for _ in T.serial(loops):
                for k in T.Pipelined(8, num_stages=2):
                    T.copy(A[0, k * 64], A_s)
                    T.copy(W[k * 64, bx * step], W_s, eviction_policy=policy)
                    T.gemm(A_s, W_s, C_l)
            if again:
                W_again = T.alloc_shared((64, 64), "float16")
                T.copy(W[0, bx * 64], W_again)
                T.gemm(A_s, W_again, C_l)
            if scaled:
                for i, j in T.Parallel(64, 64):
                    C_l[i, j] *= W[0, bx * 64 + j]
            T.copy(C_l, C[0, bx * 64])

    return main


def test_tiles_must_be_read_once_indeed():
    assert SKINNY == {"B" if name == "W" else name: kind for name, kind in hints(chunks()).items()}
    assert {} == hints(chunks(step=32)), "neighbors overlap"
    assert {} == hints(chunks(loops=2)), "a loop reads them again"
    assert {} == hints(chunks(again=True)), "another copy reads them"
    assert {} == hints(chunks(scaled=True)), "others read them"


def test_loops_whose_ends_depend_on_the_block():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), W: T.Tensor((4096, 64), "float16"), C: T.Tensor((8, 64, 64), "float32")):
        with T.Kernel(8, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            W_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(T.min(4000, (bx + 1) * 512) - bx * 512, 64), num_stages=2):
                T.copy(W[bx * 512 + k * 64, 0], W_s)
                T.gemm(A_s, W_s, C_l)
            T.copy(C_l, C[bx, 0, 0])

    assert "evict_first" == hints(main)["W"]


def test_the_word_of_the_user_stands():
    assert {"A": "evict_last", "W": "evict_normal"} == hints(chunks(policy="evict_normal"))
    assert {"A": "evict_last", "W": "evict_last"} == hints(chunks(policy="evict_last"))


def test_tiles_that_nothing_multiplies_are_left_alone():
    @T.prim_func
    def main(A: T.Tensor((4096,), "float32"), C: T.Tensor((4096,), "float32")):
        with T.Kernel(32, threads=128) as bx:
            s = T.alloc_shared((128,), "float32")
            T.copy(A[bx * 128], s)
            T.copy(s, C[bx * 128])

    assert {} == hints(main)
