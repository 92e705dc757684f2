"""`T.online_softmax` as reductions and loops: exact on every executor, for any scores."""

import functools

import numpy as np
import pytest
from harness import run_cpu_on_copies, run_reference_on_copies, simulate_on_copies
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import CallStmt, For, If
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.sim.run import simulate
from tilelang.targets.gpu.isa.sync import SYNC_GROUP_OR
from tilelang.targets.gpu.isa.warp import ANY, shuffle
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC_OR
from tilelang.targets.target import Target

EXECUTORS = {
    "reference": run_reference_on_copies,
    "cpu": run_cpu_on_copies,
    "sm_80": simulate_on_copies,
}
ROWS, COLUMNS, WIDTH = 16, 16, 8
SHUFFLE = shuffle("xor", FLOAT32)


@functools.cache
def attention(tiles, scale=1.0, dtype="float16", rows=ROWS, columns=COLUMNS, width=WIDTH, threads=64):
    """softmax(scale * S) @ V with S in tiles of columns, and the logarithms of the sums of exponentials."""

    @T.prim_func
    def main(
        S: T.Tensor((rows, tiles * columns), "float32"),
        V: T.Tensor((tiles * columns, width), dtype),
        O: T.Tensor((rows, width), "float32"),
        L: T.Tensor((rows,), "float32"),
    ):
        with T.Kernel(1, threads=threads) as _:
            values = T.alloc_shared((columns, width), dtype)
            scores = T.alloc_fragment((rows, columns), "float32")
            probabilities = T.alloc_fragment((rows, columns), dtype)
            output = T.alloc_fragment((rows, width), "float32")
            row_max = T.alloc_fragment((rows,), "float32")
            row_sum = T.alloc_fragment((rows,), "float32")
            T.clear(output)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(S[0, k * columns], scores)
                T.copy(V[k * columns, 0], values)
                T.online_softmax(scores, output, row_max, row_sum, scale, probabilities)
                T.gemm(probabilities, values, output)
            for i, j in T.Parallel(rows, width):
                O[i, j] = output[i, j] / row_sum[i]
            for i in T.Parallel(rows):
                L[i] = row_max[i] * scale + T.log(row_sum[i])

    return main


def expected(scores, values, scale=1.0):
    """The same in float64."""
    wide = scores.astype(np.float64) * scale
    with np.errstate(invalid="ignore", divide="ignore"):
        top = wide.max(axis=1, keepdims=True)
        exponentials = np.exp(wide - top)
        total = exponentials.sum(axis=1, keepdims=True)
        return exponentials / total @ values.astype(np.float64), (top + np.log(total))[:, 0]


def check(run, scores, scale=1.0, dtype="float16", atol=4e-3, **sizes):
    """One executor against float64, with scores of shape (rows, tiles * columns)."""
    rows, length = scores.shape
    columns, width = sizes.get("columns", COLUMNS), sizes.get("width", WIDTH)
    values = np.random.default_rng(3).standard_normal((length, width)).astype(np.float16)
    func = attention(length // columns, scale, dtype, **sizes)
    _, _, output, logarithm = run(func, [scores, values, np.zeros((rows, width), "f"), np.zeros(rows, "f")])
    want, want_logarithm = expected(scores, values, scale)
    np.testing.assert_allclose(output, want, rtol=4e-3, atol=atol)
    np.testing.assert_allclose(logarithm, want_logarithm, rtol=1e-5, atol=1e-4)


def routines(stmt):
    """What a statement calls, in order."""
    return [s.routine for s in walk(stmt) if isinstance(s, CallStmt)]


def draw(tiles, rows=ROWS, columns=COLUMNS, seed=1):
    return np.random.default_rng(seed).standard_normal((rows, tiles * columns)).astype("f")


def growing(tiles):
    """The largest score grows in every tile, by more and by less than what is rescaled for."""
    steps = np.repeat(np.arange(tiles, dtype="f"), COLUMNS)
    return draw(tiles) + steps * np.linspace(0, 20, ROWS, dtype="f")[:, None]


SCORES = {
    "ordinary": draw(4),
    "growing": growing(6),
    "falling": growing(6)[:, ::-1].copy(),
    "large": 150 * draw(4),
    "huge": 1e7 * draw(4),
    "near the largest float": np.float32(1e37) * draw(4),
    "far below zero": draw(4) - 1e6,
    "one row far up": draw(4) + np.float32(5e5) * (np.arange(ROWS) == 3)[:, None],
    "near the limit of rounded references": growing(6) * 50,
}


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_scores_of_any_size(executor, name):
    check(EXECUTORS[executor], SCORES[name])


def rows_by_warps(name):
    """Scores of 64 rows, of which each warp of 128 threads holds 16."""
    return np.tile(SCORES[name], (4, 2))


@pytest.mark.parametrize("name", ["ordinary", "growing", "one row far up", "far below zero", "huge"])
def test_rows_that_lie_in_warps(name):
    check(simulate_on_copies, rows_by_warps(name), rows=64, columns=2 * COLUMNS, threads=128)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_spoils_its_row_alone_in_a_warp(bad):
    scores, values = rows_by_warps("growing"), np.ones((12 * COLUMNS, WIDTH), np.float16)
    scores[18, 37] = bad
    func = attention(6, rows=64, columns=2 * COLUMNS, threads=128)
    _, _, output, _ = simulate_on_copies(func, [scores, values, np.zeros((64, WIDTH), "f"), np.zeros(64, "f")])
    assert np.isnan(output[18]).all()
    np.testing.assert_allclose(np.delete(output, 18, axis=0), 1, rtol=2e-3)


def test_warps_vote_once_in_a_step_and_branch_once():
    context = PassContext(target=Target("cuda", "sm_80"))
    lowered = run_passes(attention(6, rows=64, columns=32, threads=128), BACKEND.passes, context)
    loop = next(s for s in walk(lowered.body) if isinstance(s, For) and any(isinstance(e, CallStmt) for e in walk(s)))
    (vote,) = (s.result for s in walk(loop) if isinstance(s, CallStmt) and s.routine is ANY)
    assert 1 == sum(isinstance(s, If) and s.condition is vote for s in walk(loop))


@functools.cache
def divided_rows(tiles, threads=128, rows=64, columns=64, width=64):
    """softmax(Q @ K.T) @ K, where warps divide the columns of the scores."""

    @T.prim_func
    def main(
        Q: T.Tensor((rows, width), "float16"),
        K: T.Tensor((tiles * columns, width), "float16"),
        O: T.Tensor((rows, width), "float32"),
    ):
        with T.Kernel(1, threads=threads) as _:
            queries, keys = T.alloc_shared((rows, width), "float16"), T.alloc_shared((columns, width), "float16")
            scores = T.alloc_fragment((rows, columns), "float32")
            probabilities = T.alloc_shared((rows, columns), "float16")
            output = T.alloc_fragment((rows, width), "float32")
            row_max, row_sum = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            T.copy(Q, queries)
            T.clear(output)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(K[k * columns, 0], keys)
                policy = T.GemmWarpPolicy.FullCol
                T.gemm(queries, keys, scores, transpose_B=True, clear_accum=True, policy=policy)
                T.online_softmax(scores, output, row_max, row_sum, 1.0, probabilities)
                T.gemm(probabilities, keys, output, policy=policy)
            for i, j in T.Parallel(rows, width):
                O[i, j] = output[i, j] / row_sum[i]

    return main


# Threads by target: all of a block, or the two warpgroups of a block that consume what a producer loads
GROUPS = {"sm_80": 128, "sm_90a": 256}


@functools.cache
def lowered_by_columns(arch):
    context = PassContext(CompileOptions.from_user({"tl.consumers": 2}), Target("cuda", arch))
    return run_passes(divided_rows(4, GROUPS[arch]), BACKEND.passes, context)


def simulate_by_columns(arch, *arrays):
    output = np.zeros((64, 64), "f")
    simulate(lowered_by_columns(arch), [*arrays, output], target=Target("cuda", arch))
    return output


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("arch", GROUPS)
@pytest.mark.parametrize("growth", [0.0, 0.5, 30.0])
def test_rows_that_warps_divide(arch, growth):
    rng = np.random.default_rng(1)
    queries, keys = (rng.standard_normal((n, 64)).astype(np.float16) for n in (64, 256))
    keys *= (1 + growth * np.arange(256) / 256)[:, None].astype(np.float16)
    keys[70, 0] = 4 + growth  # that of a few rows
    output = simulate_by_columns(arch, queries, keys)
    scores = queries.astype("f") @ keys.astype("f").T
    np.testing.assert_allclose(output, expected(scores, keys)[0], rtol=4e-3, atol=4e-3 * np.abs(keys).max())


@pytest.mark.parametrize("arch", GROUPS)
def test_what_is_no_number_spoils_its_row_alone_where_warps_divide_it(arch):
    queries, keys = np.zeros((64, 64), np.float16), np.ones((256, 64), np.float16)
    queries[18, 3] = np.nan
    output = simulate_by_columns(arch, queries, keys)
    assert np.isnan(output[18]).all()
    np.testing.assert_allclose(np.delete(output, 18, axis=0), 1, rtol=2e-3)


@pytest.mark.parametrize(("arch", "vote"), [("sm_80", SYNC_GROUP_OR), ("sm_90a", BAR_SYNC_OR)])
def test_warps_that_divide_rows_vote_at_a_barrier_and_exchange_what_exceeds(arch, vote):
    loop = next(s for s in walk(lowered_by_columns(arch).body) if isinstance(s, For) and vote in routines(s))
    branches = [s for s in walk(loop.body) if isinstance(s, If) and s.group is None]
    assert 1 == routines(loop).count(vote)
    assert not any(vote in routines(branch) for branch in branches)
    exchanges = routines(loop).count(SHUFFLE)
    assert exchanges and exchanges == sum(routines(branch).count(SHUFFLE) for branch in branches)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_masked_scores(executor):
    scores = growing(4)
    scores[:, : 2 * COLUMNS][1::2] = -np.inf  # nothing in the first tiles
    scores[::3, 2 * COLUMNS :] = -np.inf  # nothing in the last
    scores[3, 5] = scores[9, -1] = scores[15, 20] = 1.0  # rows of which nothing else is left
    check(EXECUTORS[executor], scores)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_rows_of_nothing_but_masked_scores_have_no_sum(executor):
    scores, values = np.full((ROWS, 2 * COLUMNS), -np.inf, "f"), np.ones((2 * COLUMNS, WIDTH), np.float16)
    scores[1] = 0
    run = EXECUTORS[executor]
    _, _, output, logarithm = run(attention(2), [scores, values, np.zeros((ROWS, WIDTH), "f"), np.zeros(ROWS, "f")])
    np.testing.assert_allclose(output[1], 1, rtol=1e-3)
    assert np.isneginf(np.delete(logarithm, 1)).all()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_spoils_its_row_alone(executor, bad):
    scores, values = growing(4), np.ones((4 * COLUMNS, WIDTH), np.float16)
    scores[2, 20] = bad
    run = EXECUTORS[executor]
    _, _, output, _ = run(attention(4), [scores, values, np.zeros((ROWS, WIDTH), "f"), np.zeros(ROWS, "f")])
    assert np.isnan(output[2]).all()
    np.testing.assert_allclose(np.delete(output, 2, axis=0), 1, rtol=2e-3)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_other_dtypes_of_probabilities(executor, dtype):
    scores = growing(4)
    length = scores.shape[1]
    func = attention(4, 0.5, dtype)
    values = np.random.default_rng(3).integers(-4, 5, (length, WIDTH))
    held = np.asarray(convert(values.astype("f"), as_dtype(dtype)))
    _, _, output, _ = EXECUTORS[executor](func, [scores, held, np.zeros((ROWS, WIDTH), "f"), np.zeros(ROWS, "f")])
    np.testing.assert_allclose(output, expected(scores, values, 0.5)[0], rtol=2e-2, atol=2e-2)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    spread=st.sampled_from([0.01, 1.0, 30.0, 1e3, 1e6]),
    drift=st.sampled_from([-40.0, 0.0, 3.0, 9.0, 200.0]),
    masked=st.floats(0, 1),
)
def test_any_scores_give_the_exact_softmax(seed, spread, drift, masked):
    rng = np.random.default_rng(seed)
    scores = (spread * rng.standard_normal((ROWS, 4 * COLUMNS)) + drift * np.repeat(np.arange(4), COLUMNS)).astype("f")
    scores[rng.random(scores.shape) < masked] = -np.inf
    scores[:, rng.integers(0, scores.shape[1])] = rng.standard_normal()
    for run in EXECUTORS.values():
        check(run, scores)
