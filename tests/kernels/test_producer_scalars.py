"""Loads at addresses that the program computes: the producer recomputes them and gets the same values."""

import numpy as np
from specialized import TARGET, launch_of, lowered

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.sim.run import simulate


def check(made, arrays, want, *, lazy=True, seed=1):
    """Runs a program in roles with copies that land as late, or as early, as they may."""
    got = np.full_like(want, np.nan)
    simulate(made, [*arrays, got], target=TARGET, lazy=lazy, seed=seed)
    np.testing.assert_array_equal(want, got)


def smallest_and_largest():
    """Rows from the first to the last one that any of two queries of a block wants, as a local array says."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 32), "float16"),
        K: T.Tensor((100, 32), "float16"),
        first: T.Tensor((4,), "int32"),
        last: T.Tensor((4,), "int32"),
        C: T.Tensor((128, 32), "float32"),
    ):
        with T.Kernel(2, threads=128) as bx:
            A_s = T.alloc_shared((64, 32), "float16")
            K_s = T.alloc_shared((32, 32), "float16")
            C_l = T.alloc_fragment((64, 32), "float32")
            ends = T.alloc_local((2,), "int32")
            low = T.alloc_var("int32", init=1000)
            for i in T.serial(2):
                low = T.min(low, first[bx * 2 + i])
                ends[i] = T.min(last[bx * 2 + i], 100)
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(T.max(ends[0], ends[1]) - low, 32), num_stages=2):
                T.copy(K[low + k * 32, 0], K_s)
                T.gemm(A_s, K_s, C_l, transpose_B=True)
            T.copy(C_l, C[bx * 64, 0])

    return main


def test_ranges_that_a_block_finds_out():
    made = lowered(smallest_and_largest(), persistent=False)
    assert 2 == to_text(made).count("low = T.alloc_var"), "each role has a scalar of its own"
    check_ranges(made, [5, 3, 60, 70], [40, 20, 90, 200], lazy=True)
    check_ranges(made, [0, 9, 50, 50], [128, 9, 10, 50], lazy=False)


def check_ranges(made, first, last, *, lazy):
    rng = np.random.default_rng(0)
    a, k = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((128, 32), (100, 32)))
    want = np.zeros((128, 32), np.float32)
    rows = np.zeros((400, 32), np.float32)
    rows[:100] = k
    for block in range(2):
        low, high = min(first[block * 2 :][:2]), max(min(n, 100) for n in last[block * 2 :][:2])
        for begin in range(low, high, 32):
            want[block * 64 :][:64] += a[block * 64 :][:64].astype(np.float32) @ rows[begin : begin + 32].T
    check(made, [a, k, np.array(first, np.int32), np.array(last, np.int32)], want, lazy=lazy)


def linked_pages():
    """Each page says which one comes next; a negative one ends the list, and pages of weight 0 are left out."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"),
        pages: T.Tensor((4, 32, 32), "float16"),
        begin: T.Tensor((2,), "int32"),
        following: T.Tensor((4,), "int32"),
        weight: T.Tensor((4,), "int32"),
        C: T.Tensor((128, 32), "float32"),
    ):
        with T.Kernel(2, threads=128) as bx:
            A_s = T.alloc_shared((64, 32), "float16")
            K_s = T.alloc_shared((32, 32), "float16")
            C_l = T.alloc_fragment((64, 32), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            page = T.alloc_var("int32", init=begin[bx])
            count = T.alloc_var("int32", init=0)
            while page >= 0:
                count = count + 1
                page = following[page]
            page = begin[bx]
            for _ in T.Pipelined(count, num_stages=2):
                if weight[page] != 0:
                    T.copy(pages[page, 0, 0], K_s)
                    T.gemm(A_s, K_s, C_l, transpose_B=True)
                page = following[page]
            T.copy(C_l, C[bx * 64, 0])

    return main


def test_lists_that_both_roles_follow():
    rng = np.random.default_rng(1)
    a, pages = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 32), (4, 32, 32)))
    begin, following, weight = [3, 1], [2, 0, -1, 1], [1, 1, 0, 1]
    want = np.zeros((128, 32), np.float32)
    for block, page in enumerate(begin):
        while page >= 0:
            want[block * 64 :][:64] += a.astype(np.float32) @ pages[page].T * weight[page]
            page = following[page]
    arrays = [a, pages, *(np.array(each, np.int32) for each in (begin, following, weight))]
    check(lowered(linked_pages(), persistent=False), arrays, want)


def grouped():
    """Rows of groups one behind another; each block looks for the group of its rows, and leaves the loop when found."""

    @T.prim_func
    def main(
        A: T.Tensor((160, 64), "float16"),
        W: T.Tensor((3, 64, 32), "float16"),
        sizes: T.Tensor((3,), "int32"),
        C: T.Tensor((160, 32), "float32"),
    ):
        with T.Kernel(4, threads=128) as bx:
            A_s = T.alloc_shared((64, 32), "float16")
            W_s = T.alloc_shared((32, 32), "float16")
            C_l = T.alloc_fragment((64, 32), "float32")
            group = T.alloc_var("int32", init=0)
            before = T.alloc_var("int32", init=0)
            tiles = T.alloc_var("int32", init=0)
            for g in T.serial(3):
                group = g
                if tiles + T.ceildiv(sizes[g], 64) > bx:
                    break
                tiles = tiles + T.ceildiv(sizes[g], 64)
                before = before + sizes[g]
            row = before + (bx - tiles) * 64
            T.clear(C_l)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[row, k * 32], A_s)
                T.copy(W[group, k * 32, 0], W_s)
                T.gemm(A_s, W_s, C_l)
            for i, j in T.Parallel(64, 32):
                if (bx - tiles) * 64 + i < sizes[group]:
                    C[row + i, j] = C_l[i, j]

    return main


def test_groups_that_blocks_look_for_tile_after_tile():
    rng = np.random.default_rng(2)
    a, w = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((160, 64), (3, 64, 32)))
    sizes = np.array([40, 90, 30], np.int32)
    groups = np.repeat(np.arange(3), sizes)
    want = np.stack([a[row].astype(np.float32) @ w[group] for row, group in enumerate(groups)])
    check(lowered(grouped(), persistent=True), [a, w, sizes], want)


def test_blocks_whose_scalars_differ_bring_nothing_together():
    launch = launch_of(lowered(grouped(), cluster=2))
    assert () == launch.plan.schedule.multicast
