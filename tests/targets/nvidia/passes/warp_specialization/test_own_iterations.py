"""Warpgroups leave a causal loop of a softmax where they see no more keys, and keep in step with the others."""

import dataclasses
import functools

import numpy as np
import pytest
from gpu import lower_func
from specialized import notes_of

import tilelang
import tilelang.language as T
from tilelang.options import CompileOptions
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.machines import MACHINES
from tilelang.targets.target import Target

HOPPER = Target("cuda", "sm_90a")
DIM = 64


def attention(length, rows=192, keys=64, what="", heads=1):
    """Causal attention by the operator, or with something for which all warpgroups compute in all iterations."""
    shape = (heads, length, DIM)

    @T.prim_func
    def main(Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"), V: T.Tensor(shape, "float16"),
             O: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(length, rows), heads, threads=2 * rows) as (bx, by):
            q, k, v = (T.alloc_shared((n, DIM), "float16") for n in (rows, keys, keys))
            scores = T.alloc_fragment((rows, keys), "float32")
            weights = T.alloc_fragment((rows, keys), "float16")
            out = T.alloc_fragment((rows, DIM), "float32")
            row_max, row_sum = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(Q[by, bx * rows, 0], q)
            T.clear(out)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            last = T.min(T.ceildiv(length, keys), T.ceildiv((bx + 1) * rows, keys))
            for i in T.Pipelined(last, num_stages=2):
                T.copy(K[by, i * keys, 0], k)
                T.copy(V[by, i * keys, 0], v)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if (i + 1) * keys > bx * rows:
                    for r, c in T.Parallel(rows, keys):
                        seen = bx * rows + r >= i * keys + c
                        if what == "a finite mask":
                            scores[r, c] = T.if_then_else(seen, scores[r, c], -1e4)
                        elif what == "a window":
                            near = bx * rows + r < i * keys + c + 100
                            scores[r, c] = T.if_then_else(seen and near, scores[r, c], -T.infinity("float32"))
                        else:
                            scores[r, c] = T.if_then_else(seen, scores[r, c], -T.infinity("float32"))
                if what == "a cap behind the mask":
                    for r, c in T.Parallel(rows, keys):
                        scores[r, c] = T.tanh(scores[r, c])
                T.online_softmax(scores, out, row_max, row_sum, DIM**-0.5, weights)
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
                if what == "more in the loop":
                    for r, c in T.Parallel(rows, DIM):
                        out[r, c] = out[r, c] + 0.125
            for r, c in T.Parallel(rows, DIM):
                out[r, c] = out[r, c] / row_sum[r]
            T.copy(out, O[by, bx * rows, 0])

    return main


def leaves(func, *, fast=True):
    notes = notes_of(func, enable_fast_math=fast)
    return "a warpgroup leaves the loop where all scores of its rows are masked" in notes


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("", True),
        ("a window", True),
        ("a finite mask", False),
        ("a cap behind the mask", False),
        ("more in the loop", False),
    ],
)
def test_warpgroups_leave_where_nothing_follows_but_scores_of_minus_infinity(what, expected):
    assert expected == leaves(attention(512, what=what))


def test_zero_times_infinity_is_left_out_with_fast_math_only():
    assert not leaves(attention(512), fast=False)


def test_two_warpgroups_compute_in_all_iterations():
    assert not leaves(attention(512, rows=128))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(("length", "keys", "heads"), [(192, 64, 2), (400, 80, 1), (64, 64, 1)])
def test_results_are_those_of_all_keys(length, keys, heads):
    rng = np.random.default_rng(length)
    q, k, v = (rng.standard_normal((heads, length, DIM)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, 7)
    kernel = tilelang.compile(
        attention(length, keys=keys, heads=heads), target={"kind": "cuda", "arch": "sm_90a"},
        execution_backend="simulator", pass_configs={"tl.enable_fast_math": True},
    )  # fmt: skip
    assert "a warpgroup leaves the loop" in kernel.explain()
    kernel(q, k, v, out)
    scores = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k.astype(np.float64)) * DIM**-0.5
    scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(out, want, rtol=5e-3, atol=5e-3)


@functools.cache
def by_one_block():
    """A block computes two tiles of queries, in whose last iterations the first warp of a group releases for it."""
    few = dataclasses.replace(MACHINES["sm_90a"], groups=(1,))
    options = CompileOptions.from_user({"tl.enable_fast_math": True, "tl.stages": 2})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MACHINES, few.name, few)
        return lower_func(attention(384), "sm_90a", options)


@pytest.mark.parametrize("warp", range(1, 4))
def test_a_warp_that_stands_still_misses_nothing(warp):
    q, k, v = (np.random.standard_normal((1, 384, DIM)).astype(np.float16) for _ in range(3))
    simulate(by_one_block(), [q, k, v, np.zeros_like(q)], target=HOPPER, lazy=False, held_back=warp)
