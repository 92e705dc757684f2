"""Parallel loops that warps skip where a condition holds for none of their rows."""

from importlib import import_module

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.ir.stmt import CallStmt, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.gpu.isa.warp import ANY
from tilelang.targets.gpu.lowerings.warp_votes import condition_axes
from tilelang.targets.target import Target


def rescale(threads, rows=64, columns=40):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float32"), F: T.Tensor((rows,), "float32"),
             B: T.Tensor((rows, columns), "float32")):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_fragment((rows, columns), "float32")
            f = T.alloc_fragment((rows,), "float32")
            T.copy(A, a)
            T.copy(F, f)
            for i, j in T.Parallel(rows, columns):
                if f[i] != 1.0:
                    a[i, j] *= f[i]
            T.copy(a, B)

    return main


def votes(func):
    lowered = run_passes(
        func, import_module("tilelang.targets.nvidia.backend").BACKEND.passes, PassContext(target=Target("cuda", "sm_80"))
    )
    return [s for s in walk(lowered.body) if isinstance(s, CallStmt) and s.routine is ANY]


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("threads", [32, 80, 128])
@pytest.mark.parametrize("changed", [(), (5,), range(64)])
def test_rows_are_changed_where_the_condition_holds(threads, changed):
    a, f = np.random.default_rng(0).standard_normal((64, 40)).astype("f"), np.ones(64, "f")
    f[list(changed)] = 3
    func = rescale(threads)
    result = run_everywhere(func, a, f, np.zeros_like(a))
    np.testing.assert_array_equal(result[2], a * f[:, None])
    assert 1 == len(votes(func))


def body(statement):
    """A loop over (16, 32) of `statement(a, f, g, i, j)`, as the program has it."""

    @T.prim_func
    def main(G: T.Tensor((16,), "float32"), B: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32) as _:
            a = T.alloc_fragment((16, 32), "float32")
            f = T.alloc_fragment((16,), "float32")
            T.fill(a, 2)
            T.fill(f, 1)
            for i, j in T.Parallel(16, 32):
                statement(a, f, G, i, j)
            T.copy(a, B)

    return main


@T.macro
def by_row(a, f, g, i, j):
    if f[i] > 0:
        a[i, j] = f[i]


@T.macro
def by_element(a, f, g, i, j):
    if a[i, j] > 0:
        a[i, j] = 1


@T.macro
def by_memory(a, f, g, i, j):
    if g[i] > 0:
        a[i, j] = 1


@T.macro
def with_another_side(a, f, g, i, j):
    if f[i] > 0:
        a[i, j] = 1
    else:
        a[i, j] = 2


@T.macro
def two_stores(a, f, g, i, j):
    if f[i] > 0:
        a[i, j] += 1
        a[i, j] *= f[i] + 2


@pytest.mark.parametrize("statement", [by_row, two_stores])
def test_bodies_of_one_store_and_of_more(statement):
    func = body(statement)
    run_everywhere(func, np.zeros(16, "f"), np.zeros((16, 32), "f"))
    assert 1 == len(votes(func))


@pytest.mark.parametrize(
    ("statement", "axes"), [(by_row, (0,)), (by_element, ()), (by_memory, ()), (with_another_side, ())]
)
def test_only_conditions_of_whole_rows_in_registers_count(statement, axes):
    func = body(statement)
    (loop,) = (s for s in walk(func.body) if isinstance(s, ParallelLoop))
    assert axes == condition_axes(loop)
    assert len(axes) == len(votes(func))
