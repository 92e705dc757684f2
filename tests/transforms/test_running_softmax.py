"""Running sums of a softmax written as loops are rescaled where their factors are not 1, and added to without a tile between."""

import dataclasses
import re

import numpy as np
import pytest
from harness import run_reference_on_copies

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, If, ParallelLoop, Seq, Store
from tilelang.ir.visit import Rewriter, walk
from tilelang.ops.reduce import Reduce, ReduceOp
from tilelang.transforms.running_softmax import with_rare_rescaling

M, N, D, STEPS = 16, 8, 16, 4


class Rescale(Rewriter):
    """Rewrites the serial loop of a kernel."""

    def __init__(self, func):
        self.func = func

    def stmt(self, node):
        if not isinstance(node, For):
            return self.rebuild_stmt(node)
        inside = set(walk(node))
        elsewhere = [s for s in walk(self.func.body) if s not in inside]
        made = [stmt for stmt, _ in with_rare_rescaling(flat_statements(node.body), elsewhere)]
        return dataclasses.replace(node, body=Seq(tuple(made), loc=node.body.loc))


def rewritten(func):
    """The kernel after the rewriting, which computes the same."""
    made = dataclasses.replace(func, body=Rescale(func).visit(func.body))
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((STEPS * N, D)).astype(np.float16)
    queries = rng.standard_normal((M, D)).astype(np.float16)
    scores[N:] *= 0.1  # most rows find their largest score in the first step
    arguments = [queries, scores, np.zeros((M, D), np.float32), np.zeros(M, np.float32)]
    for before, after in zip(*(run_reference_on_copies(f, arguments) for f in (func, made)), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-5)
    return made


def softmax(what=""):
    """A softmax in tiles of keys, with something that decides what may be rewritten."""

    @T.prim_func
    def main(
        Q: T.Tensor((M, D), "float16"), K: T.Tensor((STEPS * N, D), "float16"),
        O: T.Tensor((M, D), "float32"), L: T.Tensor((M,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_s, K_s = T.alloc_shared((M, D), "float16"), T.alloc_shared((N, D), "float16")
            S, P = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float16")
            acc = T.alloc_fragment((M, D), "float32")
            largest, previous, factor, row_sum, total = (T.alloc_fragment((M,), "float32") for _ in range(5))
            T.copy(Q, Q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            found = T.alloc_fragment((M,), "float32") if what == "maximum of the tile" else largest
            for k in T.serial(STEPS):
                T.copy(K[k * N, 0], K_s)
                T.gemm(Q_s, K_s, S, transpose_B=True, clear_accum=True)
                T.copy(largest, previous)
                if what == "no maximum":
                    T.reduce_sum(S, largest, dim=1)
                else:
                    T.reduce_max(S, found, dim=1, clear=what == "maximum of the tile")
                if what == "maximum of the tile":
                    for i in T.Parallel(M):
                        largest[i] = T.max(previous[i], found[i])
                for i in T.Parallel(M):
                    factor[i] = T.exp2(previous[i] - largest[i])
                for i, j in T.Parallel(M, N):
                    S[i, j] = T.exp2(S[i, j] - largest[i])
                T.reduce_sum(S, row_sum, dim=1)
                if what == "scores change":
                    for i, j in T.Parallel(M, N):
                        S[i, j] = S[i, j] * 0.5
                for i in T.Parallel(M):
                    if what == "swapped":
                        total[i] = row_sum[i] + factor[i] * total[i]
                    else:
                        total[i] = total[i] * factor[i] + row_sum[i]
                T.copy(S, P)
                if what == "columns":
                    for i, d in T.Parallel(M, D):
                        acc[i, d] = acc[i, d] * factor[d]
                else:
                    for i, d in T.Parallel(M, D):
                        acc[i, d] = acc[i, d] * factor[i]
                T.gemm(P, K_s, acc)
            T.copy(row_sum if what == "read behind the loop" else total, L)
            T.copy(acc, O)

    return main


def sums_of(func):
    return [s for s in walk(func.body) if isinstance(s, Reduce) and s.op is ReduceOp.SUM]


def branches_of(func):
    return [s for s in walk(func.body) if isinstance(s, ParallelLoop) and isinstance(s.body, If)]


@pytest.mark.parametrize("what", ["", "swapped", "maximum of the tile"])
def test_the_accumulator_is_rescaled_by_rows_whose_factor_is_not_1_and_sums_go_to_the_running_sum(what):
    made = rewritten(softmax(what))
    (branch,) = branches_of(made)
    assert re.fullmatch(r"factor\[(i\w*)\] != 1.0", str(branch.body.condition))
    assert ["acc"] == [s.buffer.name for s in walk(branch) if isinstance(s, Store)]
    assert [] == sums_of(made)
    assert re.search(r"total\[(i\w*)\] = total\[\1\] \+ S\[\1, j\w*\]", to_text(made))


@pytest.mark.parametrize("what", ["scores change", "read behind the loop"])
def test_a_sum_of_rows_that_is_needed_by_itself_keeps_its_tile(what):
    made = rewritten(softmax(what))
    assert ["row_sum"] == [s.dst.buffer.name for s in sums_of(made)]
    assert 1 == len(branches_of(made))


def test_factors_of_columns_are_not_tested():
    assert [] == branches_of(rewritten(softmax("columns")))


def test_loops_without_a_maximum_are_left_alone():
    func = softmax("no maximum")
    assert to_text(func) == to_text(rewritten(func))
