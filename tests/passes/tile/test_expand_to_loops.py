"""Operators that become loops mean the same as loops."""

import copy as cp

import numpy as np
import pytest

import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc, ParallelLoop, Print, TileOp
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.passes.tile.expand_to_loops import all_but_gemms_expanded, expand_to_loops
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.nvidia.backend import LOWERINGS


def expand(func):
    return all_but_gemms_expanded(func, LOWERINGS)


def statements(func, kind):
    return [s for s in walk(func.body) if isinstance(s, kind)]


def assert_same_meaning(func, *arguments):
    expanded = expand(func)
    assert [] == [s for s in statements(expanded, TileOp) if s.name not in ("T.cumsum", "T.cummax")]
    expected, actual = [cp.deepcopy(arguments) for _ in range(2)]
    run_reference(func, expected)
    run_reference(expanded, actual)
    for want, got in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(want, got)


def ints(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).integers(-8, 8, shape).astype(dtype)


def test_copies_fills_and_transposes_become_parallel_loops():
    @T.prim_func
    def f(A: T.Tensor((20, 12), T.float32), B: T.Tensor((12, 20), T.float32)):
        with T.Kernel(1) as _:
            s = T.alloc_shared((20, 12), T.float32)
            t = T.alloc_fragment((12, 20), T.float32)
            T.copy(A, s)
            T.transpose(s, t)
            T.fill(t[0:3, :], 7)
            T.copy(t, B)

    assert_same_meaning(f, ints(20, 12), ints(12, 20))


def test_a_copy_within_one_buffer_goes_through_registers():
    @T.prim_func
    def f(A: T.Tensor((16,), T.float32)):
        with T.Kernel(1) as _:
            s = T.alloc_shared((16,), T.float32)
            T.copy(A, s)
            T.copy(s[0:12], s[4:16])
            T.copy(s, A)

    assert_same_meaning(f, ints(16))
    (made,) = [s for s in statements(expand(f), Alloc) if s.buffer.scope is Scope.FRAGMENT]
    assert "s_copy" == made.buffer.name


def test_a_copy_with_an_instruction_of_its_own_stays():
    @T.prim_func
    def f(A: T.Tensor((16,), T.float32)):
        with T.Kernel(1) as _:
            s = T.alloc_shared((16,), T.float32)
            T.copy(A, s)

    (op,) = statements(f, Copy)
    for choice, left in (("copy.loop", 0), ("copy.cp_async", 1)):
        object.__setattr__(op, "choice", choice)
        object.__setattr__(op, "plan", ACCEPTED)
        assert left == len(statements(expand_to_loops(LOWERINGS).run(f, PassContext()), Copy))


def test_before_lowerings_are_chosen_only_gemms_stay():
    @T.prim_func
    def f(A: T.Tensor((16, 16), T.float16)):
        with T.Kernel(1, threads=32) as _:
            s = T.alloc_shared((16, 16), T.float16)
            c = T.alloc_fragment((16, 16), T.float32)
            T.copy(A, s)
            T.clear(c)
            T.gemm(s, s, c)
            T.cumsum(s, dim=0)

    assert ["T.gemm", "T.cumsum"] == [s.name for s in statements(expand(f), TileOp)]


def test_wishes_for_a_copy_reach_its_loop():
    @T.prim_func
    def f(A: T.Tensor((16,), T.float32)):
        with T.Kernel(1) as _:
            s = T.alloc_shared((16,), T.float32)
            T.copy(A, s, coalesced_width=2, eviction_policy="evict_first", disable_tma=True)

    (op,) = statements(f, Copy)
    assert ("evict_first", False) == (op.eviction, op.allow_bulk)
    (loop,) = statements(expand(f), ParallelLoop)
    assert 2 == loop.coalesced_width


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("scope", ["fragment", "shared"])
@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_reductions_become_updates(dim, scope, clear, dtype):
    out = tuple(e for d, e in enumerate((3, 5, 4)) if d != dim)

    @T.prim_func
    def f(A: T.Tensor((3, 5, 4), dtype), B: T.Tensor(out, dtype), C: T.Tensor(out, dtype)):
        with T.Kernel(1) as _:
            b = T.alloc_fragment(out, dtype) if scope == "fragment" else T.alloc_shared(out, dtype)
            T.copy(B, b)
            T.reduce_sum(A, b, dim=dim, clear=clear)
            T.copy(b, B)
            T.reduce_absmax(A, b, dim=dim, clear=clear)
            T.copy(b, C)

    numpy = {"float32": np.float32, "float16": np.float16, "int8": np.int8}[dtype]
    assert_same_meaning(f, ints(3, 5, 4, dtype=numpy), ints(*out, dtype=numpy), ints(*out, dtype=numpy))


def test_an_empty_dimension_folds_to_the_neutral_element():
    @T.prim_func
    def f(A: T.Tensor((4, 0), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1) as _:
            T.reduce_max(A, B, dim=1)

    assert_same_meaning(f, ints(4, 0), ints(4))


def test_symbolic_extents_fold_into_scalars():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((6, n), T.float16), B: T.Tensor((6,), T.float16), C: T.Tensor((n,), T.float16)):
        with T.Kernel(1) as _:
            T.reduce_sum(A, B, dim=1)
            T.reduce_min(A, C, dim=0)

    assert_same_meaning(f, ints(6, 9, dtype=np.float16), ints(6, dtype=np.float16), ints(9, dtype=np.float16))

    @T.prim_func
    def g(A: T.Tensor((n,), T.float16), B: T.Tensor((1,), T.float16)):
        with T.Kernel(1) as _:
            T.reduce_sum(A, B, dim=0)

    assert_same_meaning(g, ints(9, dtype=np.float16), ints(1, dtype=np.float16))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("out", ["int32", "float32"])
def test_scans_of_registers_go_through_shared_memory(reverse, out):
    @T.prim_func
    def f(A: T.Tensor((5, 7), T.int32), B: T.Tensor((5, 7), out)):
        with T.Kernel(1) as _:
            a = T.alloc_fragment((5, 7), T.int32)
            b = T.alloc_fragment((5, 7), out)
            T.copy(A, a)
            T.cumsum(a, b, dim=1, reverse=reverse)
            T.copy(b, B)

    assert_same_meaning(f, ints(5, 7, dtype=np.int32), ints(5, 7, dtype=np.dtype(out)))
    assert (1 if out == "int32" else 2) == sum(s.buffer.scope is Scope.SHARED for s in statements(expand(f), Alloc))


def test_a_scan_in_place_needs_no_copy():
    @T.prim_func
    def f(A: T.Tensor((5, 7), T.int32)):
        with T.Kernel(1) as _:
            T.cummax(A, dim=0)

    assert_same_meaning(f, ints(5, 7, dtype=np.int32))
    assert [] == statements(expand(f), Alloc)


def test_atomic_tiles_and_patches_become_loops():
    @T.prim_func
    def f(A: T.Tensor((2, 6, 6, 3), T.float32), B: T.Tensor((16, 27), T.float32), C: T.Tensor((16, 27), T.float32)):
        with T.Kernel(1) as _:
            T.c2d_im2col(A, B, 0, 0, 3, 2, 1, 1)
            T.atomic_add(C, B)
            T.atomic_max(C, 1.0)

    assert_same_meaning(f, ints(2, 6, 6, 3), ints(16, 27), ints(16, 27))


def test_tiles_in_registers_are_printed_from_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((4,), T.int32)):
        with T.Kernel(1) as _:
            a = T.alloc_fragment((4,), T.int32)
            T.copy(A, a)
            T.print(a, msg="a is")

    lines = [[], []]
    for func, text in zip((f, expand(f)), lines, strict=True):
        run_reference(func, [np.arange(4, dtype=np.int32)], printer=text.append)
    assert lines[0] == lines[1]
    (shown,) = statements(expand(f), Print)
    assert Scope.SHARED is shown.operand.buffer.scope
