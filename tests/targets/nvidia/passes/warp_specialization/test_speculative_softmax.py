"""Which steps of an online softmax look for no largest score, and that they are right for any scores."""

import functools

import numpy as np
import pytest
from specialized import launch_of, notes_of, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.ir.pipeline import Release
from tilelang.ir.stmt import Break, For, If, ParallelLoop, Seq
from tilelang.ir.visit import sub_statements, walk
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.reduce import Reduce
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes import split_masked_loops
from tilelang.targets.nvidia.passes.warp_specialization import loop_schedules
from tilelang.targets.nvidia.schedule import schedule_of
from tilelang.targets.target import Target

HOPPER = Target("cuda", "sm_90a")
KEYS = 64
NAMES = [each.name for each in BACKEND.passes]


def attention(length, what="", rows=192, blocks=1, dtype="float16", dim=128):
    """Attention by the operator, with masks, or with something for which its steps are whole ones."""
    shape = (blocks * rows, dim)

    @T.prim_func
    def main(Q: T.Tensor(shape, dtype), K: T.Tensor((length, dim), dtype), V: T.Tensor((length, dim), dtype),
             O: T.Tensor(shape, "float32"), L: T.Tensor(shape[:1], "float32")):
        with T.Kernel(blocks, threads=2 * rows) as bx:
            q, k, v = (T.alloc_shared((n, dim), dtype) for n in (rows, KEYS, KEYS))
            scores = T.alloc_fragment((rows, KEYS), "float32")
            weights = T.alloc_fragment((rows, KEYS), dtype)
            out = T.alloc_fragment((rows, dim), "float32")
            row_max = T.alloc_fragment((rows,), "float32")
            memory = T.alloc_shared if what == "sums in memory" else T.alloc_fragment
            row_sum = memory((rows,), "float32")
            most = T.alloc_fragment((rows,), "float32")
            T.copy(Q[bx * rows, 0], q)
            T.clear(out)
            T.clear(row_sum)
            T.clear(most)
            T.fill(row_max, -T.infinity("float32"))
            for i in T.Pipelined(T.ceildiv(length, KEYS), num_stages=3):
                T.copy(K[i * KEYS, 0], k)
                T.copy(V[i * KEYS, 0], v)
                if what == "masks at first":
                    for r, c in T.Parallel(rows, KEYS):
                        scores[r, c] = T.if_then_else(bx * rows + r >= i * KEYS + c, 0.0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                if what == "two gemms":
                    T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                elif what == "masks by data":
                    for r, c in T.Parallel(rows, KEYS):
                        scores[r, c] = T.if_then_else(scores[r, c] < 1e4, scores[r, c], -T.infinity("float32"))
                elif what == "causal":
                    for r, c in T.Parallel(rows, KEYS):
                        seen = bx * rows + r >= i * KEYS + c
                        scores[r, c] = T.if_then_else(seen, scores[r, c], -T.infinity("float32"))
                elif what == "nothing at first":
                    for r, c in T.Parallel(rows, KEYS):
                        scores[r, c] = T.if_then_else(i * KEYS + c >= r, scores[r, c], -T.infinity("float32"))
                elif length % KEYS:
                    for r, c in T.Parallel(rows, KEYS):
                        scores[r, c] = T.if_then_else(i * KEYS + c < length, scores[r, c], -T.infinity("float32"))
                T.online_softmax(scores, out, row_max, row_sum, dim**-0.5, weights)
                if what == "sums are used":
                    for r in T.Parallel(rows):
                        most[r] = T.max(most[r], row_sum[r])
                T.gemm(weights, v, out, policy=T.GemmWarpPolicy.FullRow)
            for r, c in T.Parallel(rows, dim):
                out[r, c] = out[r, c] / row_sum[r]
            for r in T.Parallel(rows):
                most[r] = row_max[r] * dim**-0.5 + T.log(row_sum[r])
            T.copy(out, O[bx * rows, 0])
            T.copy(most, L[bx * rows])

    return main


def specialized(func, last="specialize_warps"):
    return launch_of(warp_specialize(func, passes=BACKEND.passes[: NAMES.index(last) + 1], stages=3))


def loops_with_gemms(launch):
    return [s for s in walk(launch.body) if isinstance(s, For) and any(isinstance(i, Gemm) for i in sub_statements(s.body))]


def speculative(func):
    """The statements of the loop whose steps are speculative."""
    loops = loops_with_gemms(specialized(func, "split_masked_loops"))
    (loop,) = [each for each in loops if any(isinstance(s, AnyExceeds) for s in walk(each))]
    return sub_statements(loop.body)


def place(body, kind):
    return next(n for n, s in enumerate(body) if kind(s))


def is_retry(stmt):
    return isinstance(stmt, If) and any(isinstance(s, Gemm) for s in walk(stmt))


def test_most_iterations_vote_and_compute_the_gemm_again_in_a_branch():
    body = speculative(attention(512))
    vote, branch = (body[place(body, kind)] for kind in (lambda s: isinstance(s, AnyExceeds), is_retry))
    assert not any(isinstance(s, Reduce) for s in body)
    assert [Gemm, GemmWait] == [type(s) for s in sub_statements(branch.then_body)[:2]]
    assert 2.0**15 == vote.limit
    assert 2.0**48 == next(s.limit for s in speculative(attention(512, dtype="bfloat16")) if isinstance(s, AnyExceeds))
    assert vote.result.buffer is branch.condition.buffer


def test_no_gemm_is_in_flight_at_the_branch_and_what_it_reads_is_released_behind_it():
    body = speculative(attention(512))
    vote, branch = place(body, lambda s: isinstance(s, AnyExceeds)), place(body, is_retry)
    last_wait = max(n for n, s in enumerate(body) if isinstance(s, GemmWait))
    assert 0 == body[last_wait].pending
    assert last_wait < vote < branch
    releases = [(s.pipeline.name, n) for n, each in enumerate(body) for s in walk(each) if isinstance(s, Release)]
    assert ["v", "k"] == [name for name, _ in releases]
    assert releases[0][1] < branch < releases[1][1]


def test_whole_steps_release_what_their_gemm_reads_behind_its_wait():
    launch = specialized(attention(512), "split_masked_loops")
    (_, rest) = loops_with_gemms(launch)
    first = next(s for s in walk(launch.body) if isinstance(s, Seq) and any(isinstance(i, Gemm) for i in s.body))
    for body in (first.body, sub_statements(rest.body)):
        release = place(body, lambda s: any(isinstance(i, Release) and i.pipeline.name == "k" for i in walk(s)))
        assert place(body, lambda s: isinstance(s, GemmWait)) < release < place(body, lambda s: isinstance(s, Reduce))


def test_the_steps_after_a_wrong_one_are_whole_ones():
    (_, rest) = loops_with_gemms(specialized(attention(512), "split_masked_loops"))
    body = speculative(attention(512))
    last = body[-1]
    assert isinstance(last, If) and isinstance(sub_statements(last.then_body)[-1], Break)
    assert body[place(body, is_retry)].condition.buffer.name == last.condition.buffer.name
    assert not any(isinstance(s, AnyExceeds) for s in walk(rest))
    assert "resumed" == str(rest.start)


def test_the_last_iteration_with_a_mask_and_the_first_one_take_the_whole_step():
    launch = specialized(attention(500), "split_masked_loops")
    votes = [any(isinstance(s, AnyExceeds) for s in walk(loop)) for loop in loops_with_gemms(launch)]
    assert [True, False, False] == votes
    # of the first iteration, of the branch, of the rest behind it, and with masks
    assert 4 == sum(isinstance(s, Reduce) for s in walk(launch))


def test_several_iterations_with_masks_and_those_behind_a_wrong_step_are_one_loop():
    launch = specialized(attention(768, "causal", blocks=4), "split_masked_loops")
    (loop, rest) = loops_with_gemms(launch)
    assert [True, False] == [any(isinstance(s, AnyExceeds) for s in walk(each)) for each in (loop, rest)]
    (mask,) = [s for s in sub_statements(rest.body) if isinstance(s, If) and any(isinstance(i, ParallelLoop) for i in walk(s))]
    assert ("resumed", "i >= i_end", None) == (str(rest.start), str(mask.condition), mask.else_body)
    assert 3 == sum(isinstance(s, Reduce) for s in walk(launch))  # of the first iteration, of the branch, of the rest


def test_where_a_gemm_adds_to_a_mask_it_overwrites_scores_of_iterations_without_one():
    launch = specialized(attention(768, "masks at first", blocks=4), "split_masked_loops")
    (_, rest) = loops_with_gemms(launch)
    (mask,) = [s for s in sub_statements(rest.body) if isinstance(s, If) and any(isinstance(i, ParallelLoop) for i in walk(s))]
    (gemm,) = [s for s in sub_statements(rest.body) if isinstance(s, Gemm) and s.c.buffer.name == "scores"]
    assert ("i >= i_end", None) == (str(mask.condition), mask.else_body)
    assert "not i >= i_end" == str(gemm.clear_accum)


def test_iterations_with_masks_are_a_loop_of_their_own_where_a_mask_takes_longer_than_the_gemm_that_adds_to_it(monkeypatch):
    monkeypatch.setattr(split_masked_loops, "_MOST_MASK_WORK", 0.5)
    launch = specialized(attention(768, "masks at first", blocks=4), "split_masked_loops")
    assert ["0", "resumed", "i_end"] == [str(loop.start) for loop in loops_with_gemms(launch)]


@pytest.mark.parametrize("what", ["two gemms", "masks by data", "sums in memory", "sums are used"])
def test_all_iterations_do_where_scores_or_sums_are_computed_or_used_otherwise(what):
    launch = specialized(attention(512, what))
    schedule = schedule_of(launch)
    assert () == getattr(schedule, "speculations", ())
    assert not any(isinstance(s, AnyExceeds) for s in walk(launch.body))


def test_explain_says_when_the_gemm_is_computed_again():
    (text,) = [note for note in notes_of(attention(512)) if note.startswith("the softmax looks for the largest scores only")]
    assert "exceed 32768" in text


def test_a_saved_schedule_says_by_its_statements_whether_steps_are_speculative(monkeypatch):
    def made(**pass_configs):
        kernel = tilelang.compile(attention(512), target=HOPPER, execution_backend="simulator", pass_configs=pass_configs)
        return kernel.get_kernel_source(), kernel.explain().rpartition("schedule: ")[2]

    speculative = made()
    assert speculative == made(**{"tl.schedule": speculative[1]})
    with monkeypatch.context() as without:
        without.setattr(loop_schedules, "repeatable_step", lambda *_, **__: None)
        whole = made(**{"tl.stages": 3})
    assert "bar_sync_or" in speculative[0]
    assert "bar_sync_or" not in whole[0]
    assert whole == made(**{"tl.schedule": whole[1]})


@functools.cache
def kernel(length, what, rows, blocks, dtype, dim):
    made = tilelang.compile(attention(length, what, rows, blocks, dtype, dim), target=HOPPER, execution_backend="simulator")
    assert "looks for the largest scores only" in made.explain()
    return made


def expected(q, k, v, what):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    with np.errstate(all="ignore"):
        scores = q @ k.T / np.sqrt(q.shape[1])
        row, column = np.arange(len(q))[:, None], np.arange(len(k))
        if what in ("causal", "masks at first"):
            scores = np.where(row >= column, scores, -np.inf)
        elif what == "nothing at first":
            scores = np.where(column >= row, scores, -np.inf)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        return weights / total @ v, (top + np.log(total))[:, 0]


SCORES = {
    "small": lambda q, k: None,
    "large": lambda q, k: q.__imul__(40),
    "beyond the range of exponentials": lambda q, k: q.__imul__(150),
    "growing slowly": lambda q, k: k.__imul__(np.linspace(0.1, 12, len(k))[:, None].astype(k.dtype)),
    "growing fast": lambda q, k: k.__imul__(np.exp2(np.linspace(-4, 9, len(k)))[:, None].astype(k.dtype)),
    "not numbers in a row": lambda q, k: q[5:6].fill(np.nan),
    "infinite": lambda q, k: k[-3:-2].fill(np.inf),
}


def check(scores, length, what="", rows=192, blocks=1, dtype="float16", dim=64):
    kind, rng = as_dtype(dtype).numpy, np.random.default_rng(length + rows)
    q, k, v = (rng.standard_normal((n, dim)).astype(kind) for n in (blocks * rows, length, length))
    SCORES[scores](q, k)
    out, logs = np.full(q.shape, 7, np.float32), np.full(len(q), 7, np.float32)
    kernel(length, what, rows, blocks, dtype, dim)(q, k, v, out, logs)
    want, want_logs = expected(q, k, v, what)
    error = 2e-2 if dtype == "bfloat16" else 3e-3
    np.testing.assert_allclose(out, want, rtol=error, atol=error)
    np.testing.assert_allclose(logs, want_logs, rtol=2e-3, atol=2e-3)


simulated = pytest.mark.slow(every=9)  # of all that simulate


@simulated
@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize(("length", "what"), [(320, ""), (300, ""), (256, "nothing at first")])
def test_results_are_right_for_any_scores(scores, length, what):
    check(scores, length, what)


@simulated
@pytest.mark.parametrize(
    ("scores", "rows", "blocks", "dtype"),
    [("growing fast", 192, 2, "float16"), ("growing slowly", 192, 2, "float16"), ("growing fast", 192, 2, "bfloat16")],
)
def test_each_warpgroup_computes_again_by_itself(scores, rows, blocks, dtype):
    check(scores, rows * blocks, "causal", rows, blocks, dtype)


@simulated
@pytest.mark.parametrize("scores", ["growing fast", "not numbers in a row"])
def test_masks_that_scores_begin_with_apply_behind_a_wrong_step(scores):
    check(scores, 384, "masks at first", blocks=2, dim=128)  # with fewer, masks take longer than the gemm


@pytest.mark.parametrize("rows", [64, 128])
def test_fewer_warpgroups_take_whole_steps(rows):
    assert () == schedule_of(specialized(attention(512, rows=rows))).speculations
