"""A softmax over tiles that a program writes as reductions and loops becomes `T.online_softmax` where none can tell."""

import math

import attention_programs
import numpy as np
import pytest
from harness import run_reference_on_copies

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Alloc, For
from tilelang.ir.visit import walk
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.reduce import Reduce
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.tile import check_program
from tilelang.passes.tile.recognize_online_softmax import PASS
from tilelang.targets.target import Target

M, N, D, STEPS = 16, 8, 16, 4
SCALE = 0.3
FAST = CompileOptions.from_user({"tl.enable_fast_math": True})
HOPPER = Target("cuda", "sm_90a")


# load, gemm, copy of the maxima, search, factors, exponentials, sum, sums, conversion, rescaling, gemm
PLACES = {
    "loads ahead": ([*range(11)], [0, *[1] * 10]),
    "gemm behind": ([0, 1, *range(3, 11), 2], [0] * 10 + [1]),
    "rescaled behind": ([0, 1, *range(4, 11), 2, 3], [0] * 9 + [1, 1]),
    "gemm amid the step": ([0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 4], [0] * 10 + [1]),
    "rescaled behind the next search": ([0, 1, 2, 3, 6, 7, 8, 9, 10, 4, 5], [0] * 9 + [1, 1]),
}


# the maximum for which weights are constant, and the constant
GUARDS = {
    "guarded": (-math.inf, 0.0), "guarded at 0": (0.0, 0.0), "guarded by 1": (-math.inf, 1.0),
    "guarded, of more than the sums": (-math.inf, 0.0),
}  # fmt: skip


def softmax(what="", *, exponential=T.exp2, logarithm=T.log2):
    """A softmax in tiles of keys, with something that decides whether it is recognized."""

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
            own_maximum = what in ("maximum in a tile of its own", "that maximum alone")
            of_tile = T.alloc_fragment((M,), "float32") if own_maximum else largest
            T.copy(Q, Q_s)
            for _ in T.serial(2 if what in ("again", "again from the results") else 1):
                if what != "again from the results":
                    T.clear(acc)
                T.fill(total, 1 if what == "guarded, of more than the sums" else 0)
                T.fill(largest, -T.infinity("float32"))
                order, stage = PLACES.get(what, (None, None))
                for k in T.Pipelined(STEPS, num_stages=2, order=order, stage=stage):
                    T.copy(K[k * N, 0], K_s)
                    T.gemm(Q_s, K_s, S, transpose_B=True, clear_accum=True)
                    T.copy(largest, previous)
                    if what == "filled maximum":
                        T.fill(largest, -T.infinity("float32"))
                    if own_maximum:
                        T.reduce_max(S, of_tile, dim=1)
                        for i in T.Parallel(M):
                            largest[i] = T.max(previous[i], of_tile[i])
                    else:
                        T.reduce_max(S, largest, dim=1, clear=what == "maximum of the tile")
                    if what == "one loop over rows":
                        for i in T.Parallel(M):
                            largest[i] = T.max(largest[i], previous[i])
                            factor[i] = exponential(previous[i] * SCALE - largest[i] * SCALE)
                    if what in ("filled maximum", "maximum of the tile"):
                        for i in T.Parallel(M):
                            largest[i] = T.max(largest[i], previous[i])
                    if what == "maximum from elsewhere":
                        for i in T.Parallel(M):
                            largest[i] = T.max(largest[i], T.cast(Q_s[i, 0], "float32"))
                    if what == "scaled difference":
                        for i in T.Parallel(M):
                            factor[i] = exponential((previous[i] - largest[i]) * SCALE)
                    elif what == "divided difference":
                        for i in T.Parallel(M):
                            factor[i] = exponential((previous[i] - largest[i]) / (1 / SCALE))
                    elif what in GUARDS:
                        for i in T.Parallel(M):
                            factor[i] = T.if_then_else(
                                largest[i] == -T.infinity("float32"), 1.0, exponential((previous[i] - largest[i]) * SCALE)
                            )
                    elif what == "another scale":
                        for i in T.Parallel(M):
                            factor[i] = exponential(previous[i] * (2 * SCALE) - largest[i] * (2 * SCALE))
                    elif what not in ("one loop over rows", "bound factor"):
                        for i in T.Parallel(M):
                            factor[i] = exponential(previous[i] * SCALE - largest[i] * SCALE)
                    if what == "rescaled early":
                        for i, d in T.Parallel(M, D):
                            acc[i, d] *= factor[i]
                    for i, j in T.Parallel(M, N):
                        if what == "divided difference":
                            S[i, j] = exponential((S[i, j] - largest[i]) / (1 / SCALE))
                        elif what in GUARDS:
                            nothing, instead = GUARDS[what]
                            S[i, j] = T.if_then_else(
                                largest[i] != nothing, exponential((S[i, j] - largest[i]) * SCALE), instead
                            )
                        else:
                            S[i, j] = exponential(S[i, j] * SCALE - largest[i] * SCALE)
                        if what == "converted where it is computed":
                            P[i, j] = S[i, j]
                    if what == "added sums":
                        for i in T.Parallel(M):
                            total[i] *= factor[i]
                        T.reduce_sum(S, total, dim=1, clear=False)
                    elif what == "bound factor":
                        for i in T.Parallel(M):
                            grown = exponential(previous[i] * SCALE - largest[i] * SCALE)
                            total[i] *= grown
                            for d in T.Parallel(D):
                                acc[i, d] *= grown
                        T.reduce_sum(S, total, dim=1, clear=False)
                    elif what == "sums in two loops":
                        T.reduce_sum(S, row_sum, dim=1)
                        for i in T.Parallel(M):
                            total[i] *= factor[i]
                        for i in T.Parallel(M):
                            total[i] += row_sum[i]
                    elif what == "scaled after the sum":
                        T.reduce_sum(S, total, dim=1, clear=False)
                        for i in T.Parallel(M):
                            total[i] *= factor[i]
                    else:
                        T.reduce_sum(S, row_sum, dim=1)
                        for i in T.Parallel(M):
                            total[i] = total[i] * factor[i] + row_sum[i]
                    if what == "changed weights":
                        for i, j in T.Parallel(M, N):
                            S[i, j] = S[i, j] * 0.5
                    if what == "converted in a loop":
                        for i, j in T.Parallel(M, N):
                            P[i, j] = T.cast(S[i, j], "float16")
                    elif what != "converted where it is computed":
                        T.copy(S, P)
                    if what == "stored weights":
                        T.copy(P, K[0:M, 0:N])
                    if what not in ("rescaled early", "bound factor"):
                        for i, d in T.Parallel(M, D):
                            acc[i, d] *= factor[i]
                    T.gemm(P, K_s, acc)
                    if what == "another product":
                        T.gemm(Q_s, Q_s, acc)
                if what in ("sink", "sink of another scale", "two sinks"):
                    for i in T.Parallel(M):
                        scale = 2 * SCALE if what == "sink of another scale" else SCALE
                        total[i] += exponential(0.5 - largest[i] * scale)
                if what == "two sinks":
                    for i in T.Parallel(M):
                        total[i] = exponential(total[i] - largest[i] * SCALE) + total[i]
                if what == "sums relative to the maximum":
                    T.copy(total, L)
                elif what == "maximum alone":
                    T.copy(largest, L)
                elif what == "that maximum alone":
                    T.copy(of_tile, L)
                elif what == "last factor":
                    T.copy(factor, L)
                elif what == "logarithm of another scale":
                    for i in T.Parallel(M):
                        L[i] = T.log2(total[i]) + largest[i]
                else:
                    for i in T.Parallel(M):
                        L[i] = logarithm(total[i]) + largest[i] * SCALE
                if what == "of another row":
                    for i, d in T.Parallel(M, D):
                        acc[i, d] = acc[i, d] / total[0]
                elif what in ("reciprocal", "reciprocal in its place", "reciprocal alone"):
                    inverse = total if what == "reciprocal in its place" else T.alloc_fragment((M,), "float32")
                    for i in T.Parallel(M):
                        inverse[i] = 1 / total[i]
                    for i, d in T.Parallel(M, D):
                        acc[i, d] *= inverse[i]
                    if what == "reciprocal alone":
                        T.copy(inverse, L)
                elif what in ("unless empty", "unless small"):
                    for i, d in T.Parallel(M, D):
                        least = 0 if what == "unless empty" else 0.5
                        acc[i, d] = T.if_then_else(total[i] > least, acc[i, d] / total[i], 0)
                elif what != "undivided":
                    for i, d in T.Parallel(M, D):
                        acc[i, d] /= total[i]
            T.copy(acc, O)

    return main


def with_new_maximum(what=""):
    """The same with a tile for the new maximum, which is copied to that of the maximum before."""

    @T.prim_func
    def main(
        Q: T.Tensor((M, D), "float16"), K: T.Tensor((STEPS * N, D), "float16"),
        O: T.Tensor((M, D), "float32"), L: T.Tensor((M,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_s, K_s = T.alloc_shared((M, D), "float16"), T.alloc_shared((N, D), "float16")
            S, P = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float16")
            acc = T.alloc_fragment((M, D), "float32")
            largest, m_new, factor, row_sum, total = (T.alloc_fragment((M,), "float32") for _ in range(5))
            T.copy(Q, Q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for k in T.Pipelined(STEPS, num_stages=2):
                T.copy(K[k * N, 0], K_s)
                T.gemm(Q_s, K_s, S, transpose_B=True, clear_accum=True)
                if what == "copied first":
                    T.copy(largest, m_new)
                T.reduce_max(S, m_new, dim=1, clear=what != "copied first")
                if what != "copied first":
                    for i in T.Parallel(M):
                        m_new[i] = T.max(m_new[i], largest[i])
                if what == "too early":
                    T.copy(m_new, largest)
                for i in T.Parallel(M):
                    factor[i] = T.exp2((largest[i] - m_new[i]) * SCALE)
                for i, j in T.Parallel(M, N):
                    S[i, j] = T.exp2((S[i, j] - m_new[i]) * SCALE)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(M):
                    total[i] = total[i] * factor[i] + row_sum[i]
                    if what == "in a loop over rows":
                        largest[i] = m_new[i]
                T.copy(S, P)
                for i, d in T.Parallel(M, D):
                    acc[i, d] *= factor[i]
                T.gemm(P, K_s, acc)
                if what not in ("in a loop over rows", "too early"):
                    T.copy(m_new, largest)
            for i in T.Parallel(M):
                L[i] = T.log2(total[i]) + (m_new if what == "read behind the loop" else largest)[i] * SCALE
            for i, d in T.Parallel(M, D):
                acc[i, d] /= total[i]
            T.copy(acc, O)

    return main


@pytest.mark.parametrize("what", ["", "copied first", "in a loop over rows"])
def test_new_maxima_may_have_a_tile_of_their_own(what):
    func = with_new_maximum(what)
    made, (operator,) = recognized(func)
    assert computes_the_same(func, made)
    assert ["S", "acc", "largest", "total", "P"] == [region.buffer.name for region in operator.writes()]
    assert "m_new" not in {s.buffer.name for s in walk(made.body) if isinstance(s, Alloc)}


@pytest.mark.parametrize("what", ["too early", "read behind the loop"])
def test_new_maxima_that_a_program_uses_otherwise_stay(what):
    func = with_new_maximum(what)
    assert (func, []) == recognized(func)


def recognized(func, options=FAST, target=HOPPER):
    """The function after the pass, and its operators."""
    made = PASS.run(func, PassContext(options, target))
    return made, [s for s in walk(made.body) if isinstance(s, OnlineSoftmax)]


def computes_the_same(func, made, tolerance=1e-4):
    """Whether two functions agree within rounding."""
    rng = np.random.default_rng(0)
    queries, keys = (2 * rng.standard_normal((n, D)).astype(np.float16) for n in (M, STEPS * N))
    arguments = [queries, keys, np.zeros((M, D), np.float32), np.zeros(M, np.float32)]
    found = zip(*(run_reference_on_copies(each, arguments) for each in (func, made)), strict=True)
    return all(np.allclose(before, after, rtol=tolerance, atol=tolerance) for before, after in found)


SPELLINGS = (
    "", "filled maximum", "maximum of the tile", "maximum in a tile of its own", "sink", "scaled difference", "rescaled early", "added sums", "again",
    "one loop over rows", "converted where it is computed", "converted in a loop", "bound factor",
    "divided difference", "guarded", "sums in two loops", "reciprocal", "reciprocal in its place", "unless empty",
)  # fmt: skip


@pytest.mark.parametrize("what", SPELLINGS)
@pytest.mark.parametrize("exponential", ["exp", "exp2"])
def test_any_usual_spelling_is_recognized_and_computes_the_same(what, exponential):
    logarithm = {"exp": T.log, "exp2": T.log2}[exponential]
    func = softmax(what, exponential=getattr(T, exponential), logarithm=logarithm)
    made, (operator,) = recognized(func)
    assert computes_the_same(func, made)
    assert ["S", "acc", "largest", "total", "P"] == [region.buffer.name for region in operator.writes()]


@pytest.mark.parametrize(
    ("what", "order", "stage"),
    [
        ("loads ahead", [*range(14)], [0, *[1] * 13]),
        ("gemm behind", [0, 1, *range(3, 14), 2], [0] * 13 + [1]),
        ("rescaled behind", [0, 1, *range(5, 13), 2, 3, 13, 4], [0] * 10 + [1, 1, 0, 1]),
        ("gemm amid the step", [*range(6), *range(7, 14), 6], [0] * 13 + [1]),
    ],
)
def test_statements_that_the_user_places_keep_their_places(what, order, stage):
    func = softmax(what)
    made = PASS.run(func, PassContext(FAST, HOPPER))
    (loop,) = (s for s in walk(made.body) if isinstance(s, For) and s.pipeline is not None)
    assert (tuple(order), tuple(stage)) == (loop.pipeline.order, loop.pipeline.stage)
    assert computes_the_same(func, made, 2e-3)  # weights are rounded relative to another maximum
    check_program.PASS.run(made, PassContext(FAST, HOPPER))


def test_its_temporary_tiles_and_statements_go():
    made, _ = recognized(softmax())
    assert not any(isinstance(s, Reduce) for s in walk(made.body))
    allocated = {s.buffer.name for s in walk(made.body) if isinstance(s, Alloc)}
    assert {"Q_s", "K_s", "S", "P", "acc", "largest", "total"} == allocated


@pytest.mark.parametrize(
    "what",
    [
        "again from the results", "maximum from elsewhere", "another scale", "scaled after the sum", "changed weights",
        "stored weights", "another product", "sums relative to the maximum", "maximum alone", "that maximum alone", "last factor",
        "logarithm of another scale", "of another row", "undivided", "sink of another scale", "two sinks",
        "rescaled behind the next search", "guarded at 0", "guarded by 1",
        "guarded, of more than the sums", "reciprocal alone", "unless small",
    ],
)  # fmt: skip
def test_a_program_that_can_tell_keeps_its_loops(what):
    func = softmax(what)
    made, operators = recognized(func)
    assert made is func
    assert [] == operators


@pytest.mark.parametrize(
    ("options", "target"), [(CompileOptions(), HOPPER), (FAST, Target("cuda", "sm_80")), (FAST, Target("cpu"))]
)
def test_only_with_fast_mathematics_where_gemms_are_asynchronous(options, target):
    func = softmax()
    assert recognized(func, options, target)[0] is func


def test_explain_says_so_and_the_kernel_computes_attention():
    func = attention_programs.flash(1, 256, 64, 128, 64, threads=256)
    configs = {"tl.enable_fast_math": True}
    kernel = tilelang.compile(func, target="sm_90a", execution_backend="simulator", pass_configs=configs)
    assert "the softmax is computed as by T.online_softmax" in kernel.explain()
    rng = np.random.default_rng(1)
    q, k, v = (2 * rng.standard_normal((1, 256, 64)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, np.nan)
    kernel(q, k, v, out)
    np.testing.assert_allclose(out, attention_programs.attention(q, k, v, False), atol=2e-2)
