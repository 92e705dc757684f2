"""Loops of consumers in which gemms run beside the arithmetic of the next iteration."""

import dataclasses
import random
import re

import numpy as np
import pytest
from specialized import launch_of, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import For, If
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.reduce import Reduce
from tilelang.schedule import software_pipeline
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.targets.nvidia.passes import persist_grid
from tilelang.targets.nvidia.passes.warp_specialization import loop_schedules

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def attention(length, dim=64, block_M=64, block_N=32, causal=False, late_rescale=False, one_tile=False, joined=False):
    """Softmax of Q K^T times V, in base 2, as people write it."""
    scale = 1.4426950408889634 / dim**0.5

    @T.prim_func
    def main(Q: T.Tensor((block_M * 2, dim), "float16"), K: T.Tensor((length, dim), "float16"),
             V: T.Tensor((length, dim), "float16"), O: T.Tensor((block_M * 2, dim), "float32")):
        with T.Kernel(2, threads=128) as bx:
            Q_s = T.alloc_shared((block_M, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), "float16")
            acc = T.alloc_fragment((block_M, dim), "float32")
            largest = T.alloc_fragment((block_M,), "float32")
            previous = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bx * block_M, 0], Q_s)
            T.clear(acc)
            T.clear(total)
            T.fill(largest, -1e30)
            tiles = T.ceildiv(length, block_N)
            for k in T.Pipelined(T.min(tiles, (bx + 1) * (block_M // block_N)) if causal else tiles, num_stages=2):
                first = k * block_N
                T.copy(K[first, 0], K_s)
                if not one_tile:
                    T.copy(V[first, 0], V_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True)
                if causal:
                    for i, j in T.Parallel(block_M, block_N):
                        seen = T.all_of(first + j < length, first + j <= bx * block_M + i)
                        S[i, j] = T.if_then_else(seen, S[i, j], -1e30)
                T.copy(largest, previous)
                T.reduce_max(S, largest, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2((S[i, j] - largest[i]) * scale)
                T.reduce_sum(S, row_sum, dim=1)
                if joined:
                    for i in T.Parallel(block_M):
                        rescale = T.exp2((previous[i] - largest[i]) * scale)
                        total[i] = total[i] * rescale + row_sum[i]
                        for j in T.Parallel(dim):
                            acc[i, j] *= rescale
                    T.gemm(S, K_s if one_tile else V_s, acc)
                else:
                    for i in T.Parallel(block_M):
                        total[i] = total[i] * T.exp2((previous[i] - largest[i]) * scale) + row_sum[i]
                    if late_rescale:
                        T.copy(S, P)
                    for i, j in T.Parallel(block_M, dim):
                        acc[i, j] *= T.exp2((previous[i] - largest[i]) * scale)
                    if not late_rescale:
                        T.copy(S, P)
                    T.gemm(P, K_s if one_tile else V_s, acc)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= total[i]
            T.copy(acc, O[bx * block_M, 0])

    return main


def by_online_softmax(length, dim=64, block_M=64, block_N=32):
    """The same by the operator, which rescales in some warps only."""

    @T.prim_func
    def main(Q: T.Tensor((block_M * 2, dim), "float16"), K: T.Tensor((length, dim), "float16"),
             V: T.Tensor((length, dim), "float16"), O: T.Tensor((block_M * 2, dim), "float32")):
        with T.Kernel(2, threads=128) as bx:
            Q_s = T.alloc_shared((block_M, dim), "float16")
            K_s = T.alloc_shared((block_N, dim), "float16")
            V_s = T.alloc_shared((block_N, dim), "float16")
            S = T.alloc_fragment((block_M, block_N), "float32")
            P = T.alloc_fragment((block_M, block_N), "float16")
            acc = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[bx * block_M, 0], Q_s)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
                T.copy(K[k * block_N, 0], K_s)
                T.copy(V[k * block_N, 0], V_s)
                T.clear(S)
                T.gemm(Q_s, K_s, S, transpose_B=True)
                T.online_softmax(S, acc, row_max, row_sum, scale=dim**-0.5, probabilities=P)
                T.gemm(P, V_s, acc)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, O[bx * block_M, 0])

    return main


def expected(q, k, v, causal):
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = q @ k.T / np.sqrt(q.shape[1])
    if causal:
        scores = np.where(np.arange(len(k)) <= np.arange(len(q))[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def simulated(func, length, causal=False, one_tile=False, stretch=1, **pass_configs):
    rng = np.random.default_rng(length)
    q = stretch * rng.standard_normal((128, 64)).astype(np.float16)
    k, v = rng.standard_normal((2, length, 64)).astype(np.float16)
    v = k if one_tile else v
    out = np.full((128, 64), np.nan, np.float32)
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="simulator", pass_configs=pass_configs)
    kernel(q, k, v, out)
    np.testing.assert_allclose(out, expected(q, k, v, causal), rtol=1e-2, atol=1e-2)
    return kernel


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("length", [32, 64, 96, 160])
def test_any_number_of_iterations_gives_the_same(length):
    kernel = simulated(attention(length), length)
    assert (length > 32) == ("software-pipelined" in kernel.explain())


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("length", "stretch"), [(32, 1), (64, 12), (160, 1)])
def test_an_online_softmax_is_several_statements_of_the_loop(length, stretch):
    kernel = simulated(by_online_softmax(length), length, stretch=stretch)
    if length > 32:
        text = kernel.explain()
        assert "software-pipelined in 2 stages" in text
        assert "warps skip it where its condition holds for none of their rows" in text


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("persistent", [False, True])
def test_trip_counts_of_each_tile_count_stages_at_run_time(persistent):
    simulated(attention(128, causal=True), 128, causal=True, **{"tl.persistent": persistent})


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("causal", [False, True])
def test_a_tile_that_both_stages_read_is_held_for_two_iterations(causal):
    kernel = simulated(attention(160, causal=causal, one_tile=True), 160, causal, True, **{"tl.persistent": causal})
    assert "software-pipelined" in kernel.explain()


@pytest.fixture
def one_multiprocessor(monkeypatch):
    """Persistent kernels have one block, which computes all tiles."""
    original = persist_grid.persistent
    monkeypatch.setattr(persist_grid, "persistent", lambda launch, schedule, _: original(launch, schedule, 1))


@pytest.mark.parametrize("blocks", [1, 3])
def test_a_loop_that_may_have_no_iteration_is_guarded(blocks, one_multiprocessor):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((64 * blocks, 64), "float16"), B: T.Tensor((n, 64), "float16"),
             C: T.Tensor((64 * blocks, 64), "float32")):
        with T.Kernel(blocks, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], A_s)
            T.clear(C_l)
            for k in T.Pipelined(n // 64, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    S[i, j] = T.exp2(T.min(S[i, j], 0.0))
                T.copy(S, P)
                T.gemm(P, B_s, C_l)
            T.copy(C_l, C[bx * 64, 0])

    configs = {"tl.persistent": blocks > 1}
    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator", pass_configs=configs)
    assert "software-pipelined" in kernel.explain()
    # the last gemm, which the epilogue awaits, does not read A: it is released before, or where nothing runs
    before, otherwise = kernel.get_kernel_source().rsplit("tl_wgmma_wait_0();", 1)
    *steady, epilogue = re.split(r"tl_wgmma_\w+\((?=S,|C_l,)", before)
    releases = [part.count("tl_mbarrier_arrive(&A_s_empty") for part in (*steady, epilogue, otherwise)]
    assert [*(0 for _ in steady), *2 * (int(blocks > 1),)] == releases
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64 * blocks, 64)).astype(np.float16)
    for size in (0, 64, 192):
        b = rng.standard_normal((size, 64)).astype(np.float16)
        out = np.full(a.shape, np.nan, np.float32)
        kernel(a, b, out)
        want = np.zeros(a.shape, np.float32)
        for first in range(0, size, 64):
            tile = b[first : first + 64].astype(np.float32)
            weights = np.exp2(np.minimum(a.astype(np.float32) @ tile.T, 0)).astype(np.float16)
            want += weights.astype(np.float32) @ tile
        np.testing.assert_allclose(out, want, rtol=2e-2, atol=2e-2)


def rotated(func):
    """The body of the rotated loop, and what of it the last iteration leaves out."""
    made = warp_specialize(func, stages=2)
    bodies = [s.body.body for s in walk(launch_of(made).body) if isinstance(s, For)]
    (body,) = [body for body in bodies if any(isinstance(s, GemmWait) for s in body)]
    (ahead,) = [n for n, s in enumerate(body) if isinstance(s, If) and any(isinstance(i, Gemm) for i in walk(s))]
    return body[:ahead], body[ahead], body[ahead + 1 :]


def steady_state(func):
    """The statements of an iteration of the pipelined loop, from its first gemm on."""
    alone, ahead, behind = rotated(func)
    return [*statements_of(ahead.then_body), *behind, *alone]


@pytest.mark.parametrize("late_rescale", [False, True])
def test_both_gemms_are_issued_before_the_wait_for_the_first_and_the_second_is_awaited_late(late_rescale):
    body = steady_state(attention(256, late_rescale=late_rescale))
    steps = [s for s in body if isinstance(s, Gemm | GemmWait)]
    assert [Gemm, Gemm, GemmWait, GemmWait] == [type(s) for s in steps]
    assert ["S", "acc"] == [s.c.buffer.name for s in steps[:2]]
    assert [-1, -1] == [s.wait for s in steps[:2]]
    assert [1, 0] == [s.pending for s in steps[2:]]
    assert [["S"], ["acc"]] == [[r.buffer.name for r in s.results] for s in steps[2:]]
    assert ["S"] == [r.buffer.name for r in steps[3].computed]  # the exponentials are not delayed


def test_a_loop_that_also_rescales_the_accumulator_is_distributed_and_the_operand_converted_apart():
    kernel = simulated(attention(160, joined=True), 160)
    assert "software-pipelined" in kernel.explain()
    steps = [s for s in steady_state(attention(256, joined=True)) if isinstance(s, Gemm | GemmWait)]
    assert [Gemm, Gemm, GemmWait, GemmWait] == [type(s) for s in steps]
    assert [["S"], ["acc"]] == [[r.buffer.name for r in s.results] for s in steps[2:]]


def test_stages_are_released_behind_the_wait_for_their_gemm():
    body = steady_state(attention(256))
    first, second = (n for n, s in enumerate(body) if isinstance(s, GemmWait))
    releases = [n for n, s in enumerate(body) if isinstance(s, If) and "empty" in str(s)]
    assert [first + 1, second + 2] == releases  # the second one behind the number of its version


def test_what_stage_0_computes_stands_once():
    alone, ahead, behind = rotated(attention(256))
    assert "k + 1 < 8" == str(ahead.condition)
    assert not any(isinstance(s, Gemm) for s in alone)
    assert ["acc"] == [s.c.buffer.name for s in behind if isinstance(s, Gemm)]
    body = launch_of(warp_specialize(attention(256), stages=2)).body
    assert ["largest", "row_sum"] == [s.dst.buffer.name for s in walk(body) if isinstance(s, Reduce)]
    assert ["S", "S", "acc"] == [s.c.buffer.name for s in walk(body) if isinstance(s, Gemm)]


def test_the_first_iteration_releases_no_stage_of_the_one_before():
    alone, *_ = rotated(attention(256))
    (release,) = [s for s in alone if isinstance(s, If) and "V_s_empty" in str(s)]
    assert "k != 0" == str(release.condition)


def test_the_first_gemm_overwrites_its_accumulator_instead_of_a_clear():
    (gemm, *_) = [s for s in steady_state(attention(256)) if isinstance(s, Gemm)]
    assert gemm.always_clears


def less_waiting(found):
    return [dataclasses.replace(found[0], pending=found[0].pending + 1), *found[1:]]


FAULTS = {
    "no wait": lambda found: found[1:],
    "a wait that leaves the gemm in flight": less_waiting,
    "a release before the wait": lambda found: [*found[1:], found[0]],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("which", [0, 1])
def test_the_simulator_finds_misplaced_waits_and_releases(fault, which, monkeypatch):
    original = software_pipeline._Emission._wait

    def with_fault(self, count):
        found = original(self, count)
        of = found and "acc" in [r.buffer.name for r in found[0].results]
        return FAULTS[fault](found) if found and of == bool(which) else found

    monkeypatch.setattr(software_pipeline._Emission, "_wait", with_fault)
    with pytest.raises((tilelang.TileLangError, AssertionError)):
        simulated(attention(256), 256, **{"tl.stages": 2})


def any_legal(graph, pick):
    """A random schedule that keeps the dependences."""
    count = len(graph.work)
    late = set(pick.sample(range(count), pick.randint(1, count - 1)))
    while more := {e.target for e in graph.edges if e.distance == 0 and e.source in late} - late:
        late |= more
    stage = tuple(int(number in late and len(late) < count) for number in range(count))
    order = []
    while len(order) < count:
        ready = [n for n in range(count) if n not in order]
        before = {n: [e.source for e in graph.edges if e.target == n and stage[e.source] == stage[n] + e.distance] for n in ready}
        order.append(pick.choice([n for n in ready if all(each in order for each in before[n])]))
    return ModuloSchedule(stage, tuple(order), 1)


@pytest.mark.slow(every=40)
@pytest.mark.parametrize("seed", range(12))
def test_every_legal_schedule_computes_the_same(seed, monkeypatch):
    pick = random.Random(seed)
    monkeypatch.setattr(loop_schedules, "modulo_schedule", lambda graph: any_legal(graph, pick))
    causal, one_tile, late = (bool(seed & bit) for bit in (1, 2, 4))
    func = attention(160, causal=causal, late_rescale=late, one_tile=one_tile)
    simulated(func, 160, causal, one_tile, **{"tl.persistent": seed % 3 == 0})


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("stage", [(0, 0), (1, 0), (0, 1)])
def test_a_tile_is_awaited_by_its_first_reader_and_released_by_its_last_one_in_any_order(stage, monkeypatch):
    monkeypatch.setattr(loop_schedules, "modulo_schedule", lambda graph: ModuloSchedule(stage, (1, 0), 1))

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((320, 64), "float16"), C: T.Tensor((64, 64), "float32"),
             D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((64, 64), "float16")
            B_s = T.alloc_shared((64, 64), "float16")
            C_l = T.alloc_fragment((64, 64), "float32")
            D_l = T.alloc_fragment((64, 64), "float32")
            T.copy(A, A_s)
            T.clear(C_l)
            T.clear(D_l)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(B[k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
                T.gemm(B_s, A_s, D_l)
            T.copy(C_l, C)
            T.copy(D_l, D)

    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator", pass_configs={"tl.stages": 2})
    assert "software-pipelined" in kernel.explain()
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (64, 64)).astype(np.float16), rng.integers(-3, 4, (320, 64)).astype(np.float16)
    c, d = np.full((2, 64, 64), np.nan, np.float32)
    kernel(a, b, c, d)
    total = b.astype(np.float32).reshape(5, 64, 64).sum(axis=0)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ total)
    np.testing.assert_array_equal(d, total @ a.astype(np.float32))


def test_gemms_that_continue_one_sum_are_issued_without_a_wait_between_them():
    @T.prim_func
    def main(Q: T.Tensor((128, 128), "float16"), K: T.Tensor((256, 128), "float16"), O: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            Q_s = T.alloc_shared((128, 128), "float16")
            K_s = T.alloc_shared((64, 128), "float16")
            S = T.alloc_fragment((128, 64), "float32")
            largest = T.alloc_fragment((128,), "float32")
            T.copy(Q, Q_s)
            T.fill(largest, -1e30)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(K[k * 64, 0], K_s)
                T.gemm(Q_s[:, :64], K_s[:, :64], S, transpose_B=True, clear_accum=True)
                T.gemm(Q_s[:, 64:], K_s[:, 64:], S, transpose_B=True)
                T.reduce_max(S, largest, dim=1, clear=False)
            T.copy(largest, O)

    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator")
    source = kernel.get_kernel_source()
    first, second = (source.index(text) for text in ("T.gemm(Q_s[:, :64]", "T.gemm(Q_s[:, 64:]"))
    assert "tl_wgmma_m64n64k16_f32_f16_f16_kk_x4(S," in source[first:second]
    assert "tl_wgmma_wait" not in source[first:second]
    assert "tl_define_float_operands<32>(S);" in source[first:second]
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (128, 256))
    out = np.zeros(128, np.float32)
    kernel(q, k, out)
    np.testing.assert_array_equal((q.astype(np.float32) @ k.T.astype(np.float32)).max(axis=1), out)
