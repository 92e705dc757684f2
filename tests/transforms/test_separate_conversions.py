"""Conversions of what a parallel loop computes for a gemm become copies behind the loop."""

import dataclasses

import numpy as np
import pytest
from harness import run_reference_on_copies

import tilelang.language as T
from tilelang.ir.stmt import Alloc, ParallelLoop, Seq
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.copy import Copy
from tilelang.transforms.separate_conversions import with_separate_conversions

SHAPE = (16, 8)


def kernel(how):
    @T.prim_func
    def main(A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), C: T.Tensor(SHAPE, "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_fragment(SHAPE, "float32")
            P = T.alloc_fragment(SHAPE, "float32" if how == "same dtype" else "float16")
            T.copy(A, S)
            T.clear(P)
            for i, j in T.Parallel(*SHAPE):
                if how == "copy":
                    P[i, j] = S[i, j]
                elif how == "other element":
                    P[15 - i, j] = S[i, j] * 3.0
                elif how == "in a branch":
                    if S[i, j] > 0:
                        P[i, j] = S[i, j] * 3.0
                elif how == "read again":
                    P[i, j] = S[i, j] * 3.0
                    S[i, j] = P[i, j]
                elif how == "alone" or how == "same dtype":
                    P[i, j] = S[i, j] * 3.0
                elif how == "both":
                    S[i, j] = S[i, j] * 3.0
                    P[i, j] = S[i, j]
                else:
                    P[i, j] = S[i, j]
                    S[i, j] = S[i, j] * 3.0
            T.copy(S, B)
            T.copy(P, C)

    return main


class Separate(Rewriter):
    def __init__(self, operands):
        self.operands, self.added = operands, []

    def stmt(self, node):
        if not isinstance(node, ParallelLoop):
            return self.rebuild_stmt(node)
        made = with_separate_conversions(node, self.operands, self.added)
        return Seq((*map(Alloc, self.added), *made), loc=node.loc)


def separated(func):
    """The statements in place of the loop, which compute the same, and the fragments added for them."""
    operands = [s.buffer for s in walk(func.body) if isinstance(s, Alloc) and s.buffer.name == "P"]
    separate = Separate(operands)
    made = dataclasses.replace(func, body=separate.visit(func.body))
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-4, 5, SHAPE).astype(np.float32) for _ in func.params]
    for before, after in zip(*(run_reference_on_copies(f, arguments) for f in (func, made)), strict=True):
        np.testing.assert_array_equal(before, after)
    loop = next(s for s in walk(func.body) if isinstance(s, ParallelLoop))
    return with_separate_conversions(loop, operands, []), separate.added


def test_a_value_that_a_fragment_holds_is_converted_from_there():
    (loop, copy), added = separated(kernel("both"))
    assert isinstance(loop, ParallelLoop) and isinstance(copy, Copy)
    assert ("S", "P", []) == (copy.src.buffer.name, copy.dst.buffer.name, added)


@pytest.mark.parametrize("how", ["alone", "overwritten"])
def test_a_value_that_no_fragment_holds_gets_one(how):
    (_, copy), (wide,) = separated(kernel(how))
    assert (wide.dtype, wide.shape) == ("float32", copy.dst.buffer.shape)
    assert "P" == copy.dst.buffer.name


@pytest.mark.parametrize("how", ["copy", "other element", "in a branch", "read again", "same dtype"])
def test_other_loops_stay_as_they_are(how):
    (loop,), added = separated(kernel(how))
    assert isinstance(loop, ParallelLoop)
    assert [] == added


def test_what_no_gemm_reads_stays_in_the_loop():
    func = kernel("both")
    loop = next(s for s in walk(func.body) if isinstance(s, ParallelLoop))
    assert [loop] == with_separate_conversions(loop, (), [])
