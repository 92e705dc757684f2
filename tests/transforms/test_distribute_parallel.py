"""Parallel loops become a loop for each group of statements that share no written memory."""

import dataclasses

import numpy as np
from harness import run_reference_on_copies

import tilelang.language as T
from tilelang.analysis.accesses import accesses
from tilelang.ir.stmt import ParallelLoop, Seq
from tilelang.ir.visit import Rewriter, walk
from tilelang.transforms.distribute_parallel import distributed


class Distribute(Rewriter):
    def stmt(self, node):
        if isinstance(node, ParallelLoop):
            return Seq(tuple(distributed(node)), loc=node.loc)
        return self.rebuild_stmt(node)


def loops_of(func):
    """The loops in place of the first one of a kernel, which compute the same."""
    made = dataclasses.replace(func, body=Distribute().visit(func.body))
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-4, 5, each.buffer.static_shape).astype(np.float32) for each in func.params]
    for before, after in zip(*(run_reference_on_copies(f, arguments) for f in (func, made)), strict=True):
        np.testing.assert_array_equal(before, after)
    return distributed(next(s for s in walk(func.body) if isinstance(s, ParallelLoop)))


def test_statements_on_different_memory_get_loops_of_their_own_and_share_bindings():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                twice = A[i, 0] * 2.0
                B[i, 0] = B[i, 0] + twice
                for j in T.Parallel(8):
                    C[i, j] = C[i, j] * twice

    first, second = loops_of(main)
    assert [{"B"}, {"C"}] == [{a.buffer.name for a in _writes(each)} for each in (first, second)]


def test_statements_that_share_written_memory_stay_together():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                A[i, 0] = A[i, 1]
                B[i, 0] = A[i, 0] + 1.0
                C[i, 0] = 2.0

    first, second = loops_of(main)
    assert [{"A", "B"}, {"C"}] == [{a.buffer.name for a in _writes(each)} for each in (first, second)]


def test_scalars_of_an_iteration_stay_with_their_users():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                total = T.alloc_var("float32", init=0.0)
                for j in T.serial(8):
                    total = total + A[i, j]
                B[i, 0] = total
                B[i, 1] = 3.0

    assert 1 == len(loops_of(main))


def test_a_binding_of_memory_that_the_loop_writes_keeps_the_loop():
    @T.prim_func
    def main(A: T.Tensor((16, 8), "float32"), B: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                old = A[i, 0]
                A[i, 0] = old + 1.0
                B[i, 0] = old

    assert 1 == len(loops_of(main))


def _writes(loop):
    return accesses(loop).writes


def test_statements_on_the_row_of_their_iteration_get_loops_of_their_own():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                A[i] = T.max(A[i], B[i])
                C[i] = B[i] - A[i]
                B[i] = A[i]

    assert [{"A"}, {"C"}, {"B"}] == [{a.buffer.name for a in _writes(each)} for each in loops_of(main)]


def test_statements_on_rows_of_other_iterations_stay_together():
    @T.prim_func
    def main(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                A[15 - i] = B[i]
                C[i] = A[15 - i]

    (only,) = loops_of(main)
    assert {"A", "C"} == {a.buffer.name for a in _writes(only)}
