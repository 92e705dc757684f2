"""Loops of a single store to a shared tile are told from all others."""

import pytest

import tilelang.language as T
from tilelang.analysis.parallel_legality import parallel_legality
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import ParallelLoop
from tilelang.ir.visit import walk
from tilelang.targets.gpu.lowerings.single_store import single_store


def loop_of(kind):
    @T.prim_func
    def main(A: T.Tensor((8, 32), "float32")):
        with T.Kernel(1, threads=32):
            S, R = T.alloc_shared((8, 32), "float32"), T.alloc_shared((8, 32), "float32")
            total = T.alloc_shared((1,), "float32")
            for i, j in T.Parallel(8, 32):
                if kind == "named":
                    column = 31 - j
                    S[i, column] = A[i, j]
                if kind == "reads it":
                    S[i, j] = S[i, j] + 1
                if kind == "two":
                    S[i, j] = A[i, j]
                    R[i, j] = A[i, j]
                if kind == "to memory":
                    A[i, j] = S[i, j]
                if kind == "sum":
                    total[0] += A[i, j]
                if kind == "some":
                    if A[i, j] > 0:
                        S[i, j] = A[i, j]

    (loop,) = (s for s in walk(main.body) if isinstance(s, ParallelLoop))
    return loop


def found(kind):
    loop = loop_of(kind)
    return single_store(loop, parallel_legality(loop, Domain(), lambda buffer: False))


def test_names_of_indices_are_replaced_by_their_values():
    stored = found("named")
    assert ["i", "31 - j"] == [to_text(index) for index in stored.indices]
    values = Buffer("values", (as_expr(4),), stored.tile.dtype, Scope.LOCAL)
    assert "values[2] = A[i, j]" in to_text(stored.into(values, const(2, INT32)))


@pytest.mark.parametrize("kind", ["reads it", "two", "to memory", "sum", "some"])
def test_loops_that_do_anything_else_are_left(kind):
    assert found(kind) is None
