"""Loops of attention run without masks where these hide nothing, and compute the same."""

import attention_programs
import numpy as np
import pytest
from specialized import context, launch_of

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Alloc, CallStmt, For, If, ParallelLoop, Seq
from tilelang.ir.visit import sub_statements, walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.isa.opaque_zero import OPAQUE_ZERO

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
ROWS, KEYS, DIM = 64, 32, 64


def attention(length, form, window=None, descending=False, stages=2):
    """Causal attention whose mask is written before or behind the first gemm, or as a branch."""
    scale = 1.4426950408889634 / DIM**0.5

    @T.prim_func
    def main(Q: T.Tensor((length, DIM), "float16"), K: T.Tensor((length, DIM), "float16"),
             V: T.Tensor((length, DIM), "float16"), O: T.Tensor((length, DIM), "float32")):
        with T.Kernel(T.ceildiv(length, ROWS), threads=128) as bx:
            Q_s = T.alloc_shared((ROWS, DIM), "float16")
            K_s = T.alloc_shared((KEYS, DIM), "float16")
            V_s = T.alloc_shared((KEYS, DIM), "float16")
            S = T.alloc_fragment((ROWS, KEYS), "float32")
            P = T.alloc_fragment((ROWS, KEYS), "float16")
            acc = T.alloc_fragment((ROWS, DIM), "float32")
            largest = T.alloc_fragment((ROWS,), "float32")
            previous = T.alloc_fragment((ROWS,), "float32")
            row_sum = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            T.copy(Q[bx * ROWS, 0], Q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(largest, -1e4)
            last = T.min(T.ceildiv(length, KEYS), T.ceildiv((bx + 1) * ROWS, KEYS))
            first = 0 if window is None else T.max(bx * ROWS - window + 1, 0) // KEYS
            for n in T.Pipelined(first, last, num_stages=stages):
                k = first + last - 1 - n if descending else n
                T.copy(K[k * KEYS, 0], K_s)
                T.copy(V[k * KEYS, 0], V_s)
                if form == "before":
                    for i, j in T.Parallel(ROWS, KEYS):
                        seen = bx * ROWS + i >= k * KEYS + j
                        if window is not None:
                            seen = T.all_of(seen, k * KEYS + j > bx * ROWS + i - window)
                        S[i, j] = T.if_then_else(seen, 0.0, -T.infinity("float32"))
                    T.gemm(Q_s, K_s, S, transpose_B=True)
                else:
                    T.clear(S)
                    T.gemm(Q_s, K_s, S, transpose_B=True)
                if form in ("behind", "branch"):
                    for i, j in T.Parallel(ROWS, KEYS):
                        if form == "behind":
                            S[i, j] = T.if_then_else(k * KEYS + j > bx * ROWS + i, -T.infinity("float32"), S[i, j])
                        elif k * KEYS + j > bx * ROWS + i:
                            S[i, j] = -T.infinity("float32")
                T.copy(largest, previous)
                T.reduce_max(S, largest, dim=1, clear=False)
                for i, j in T.Parallel(ROWS, KEYS):
                    S[i, j] = T.exp2((S[i, j] - largest[i]) * scale)
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(ROWS):
                    total[i] = total[i] * T.exp2((previous[i] - largest[i]) * scale) + row_sum[i]
                T.copy(S, P)
                for i, j in T.Parallel(ROWS, DIM):
                    acc[i, j] *= T.exp2((previous[i] - largest[i]) * scale)
                T.gemm(P, V_s, acc)
            for i, j in T.Parallel(ROWS, DIM):
                acc[i, j] /= total[i]
            T.copy(acc, O[bx * ROWS, 0])

    return main


def check(func, length, window=None, **configs):
    rng = np.random.default_rng(length)
    q, k, v = rng.standard_normal((3, length, DIM)).astype(np.float16)
    out = np.full((length, DIM), np.nan, np.float32)
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="simulator", pass_configs=configs)
    kernel(q, k, v, out)
    scores = q.astype(np.float32) @ k.T.astype(np.float32) / np.sqrt(DIM)
    distance = np.arange(length)[:, None] - np.arange(length)
    scores = np.where((distance >= 0) & (distance < (window or length)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    want = weights / weights.sum(axis=1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(out, want, rtol=1e-2, atol=1e-2)
    assert "iterations that mask no element run without masks" in kernel.explain()


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("form", "descending"), [("before", False), ("behind", True), ("branch", False)])
def test_causal_attention_computes_the_same(form, descending):
    check(attention(192, form, descending=descending), 192)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_window_computes_the_same(persistent):
    check(attention(320, "before", window=130), 320, 130, **{"tl.persistent": persistent})


def test_a_ragged_length_computes_the_same():
    check(attention(200, "behind"), 200)


def test_loops_that_are_not_software_pipelined_are_split_too():
    check(attention(192, "before", stages=3), 192, **{"tl.stages": 1})


def bodies(func):
    """The statements of the consumers' loops that compute both gemms."""
    names = [step.name for step in BACKEND.passes]
    made = run_passes(func, BACKEND.passes[: names.index("split_masked_loops") + 1], context())
    loops = [s.body.body for s in walk(launch_of(made).body) if isinstance(s, For)]
    return [body for body in loops if sum(isinstance(s, Gemm) for each in body for s in walk(each)) == 2]


@pytest.mark.parametrize("form", ["before", "behind", "branch"])
def test_the_first_loop_masks_nothing_and_its_gemm_overwrites(form):
    free, masked = bodies(attention(512, form))
    assert len([s for s in free if isinstance(s, ParallelLoop)]) + 1 == len(
        [s for s in masked if isinstance(s, ParallelLoop)]
    )
    (scores,) = [s for s in free if isinstance(s, Gemm) and s.c.buffer.name == "S"]
    assert scores.always_clears


def rotated():
    """The statements of a rotated loop's parts, and what stands between them."""
    names = [step.name for step in BACKEND.passes]
    func = attention_programs.flash(1, 384, 128, 192, 64, causal=True, threads=384)
    made = run_passes(func, BACKEND.passes[: names.index("split_masked_loops") + 1], context())
    parts = [
        s.body for s in walk(launch_of(made).body)
        if isinstance(s, Seq) and any(isinstance(i, CallStmt) and i.routine is OPAQUE_ZERO for i in s.body)
    ]  # fmt: skip
    (part,) = parts
    return part


def test_compilers_do_not_know_that_iterations_without_masks_have_a_next_one():
    zero, *_ = rotated()
    free, masked = (s for s in rotated() if isinstance(s, For))
    branches = [next(s for s in sub_statements(each.body) if isinstance(s, If) and s.else_body) for each in (free, masked)]
    assert [True, False] == ["zero" in str(each.condition) for each in branches]
    assert "zero" == zero.result.name
    assert [False, True] == [any(isinstance(s, ParallelLoop) for s in walk(each)) for each in branches]


def test_no_gemm_is_in_flight_between_the_parts_of_a_rotated_loop():
    kinds = [type(s) for s in rotated() if isinstance(s, For | GemmWait)]
    assert [For, GemmWait, For] == kinds
    assert [0] == [s.pending for s in rotated() if isinstance(s, GemmWait)]


def test_loops_without_masks_stay_one():
    assert len(bodies(attention(512, "none"))) == 1


def test_a_speculative_loop_resumes_at_a_number_of_its_own_dtype():
    """A limit that is data is named in 64 bits, and bounds the parts of the loop."""

    @T.prim_func
    def main(Q: T.Tensor((192, DIM), "float16"), K: T.Tensor((256, DIM), "float16"), V: T.Tensor((256, DIM), "float16"),
             L: T.Tensor((2,), "int32"), O: T.Tensor((192, DIM), "float32")):
        with T.Kernel(1, threads=384):
            q, k, v = (T.alloc_shared((rows, DIM), "float16") for rows in (192, 64, 64))
            scores, out = T.alloc_fragment((192, 64), "float32"), T.alloc_fragment((192, DIM), "float32")
            largest, total = (T.alloc_fragment((192,), "float32") for _ in range(2))
            weights = T.alloc_fragment((192, 64), "float16")
            T.copy(Q, q)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            count, limit = T.bind(L[0]), T.bind(L[1])
            for n in T.Pipelined(count, num_stages=2):
                T.copy(K[n * 64, 0], k)
                T.copy(V[n * 64, 0], v)
                for i, j in T.Parallel(192, 64):
                    scores[i, j] = T.if_then_else(n < limit, 0.0, -T.infinity("float32"))
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.online_softmax(scores, out, largest, total, probabilities=weights)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
            T.copy(out, O)

    names = [step.name for step in BACKEND.passes]
    made = run_passes(main, BACKEND.passes[: names.index("split_masked_loops") + 1], context())
    (resume,) = [s for s in walk(made.body) if isinstance(s, Alloc) and s.buffer.name == "resume"]
    assert resume.buffer.dtype == resume.init.dtype
