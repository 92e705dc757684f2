"""Tiles that threads compute for gemms have two versions, so that gemms run while the next one is computed."""

import json

import numpy as np
import pytest
from examples_of import load
from harness import run_reference_on_copies
from specialized import TARGET, launch_of, lowered, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import For, Launch
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule import software_pipeline
from tilelang.sim.run import simulate
from tilelang.targets.nvidia.schedule import schedule_of

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def converting(steps=5, what="", columns=96, tiles=1):
    """C = A W, of which W is converted from bytes, with something that may forbid a second version.

    W has columns that warpgroups do not divide, so that it stays in shared memory.
    """

    @T.prim_func
    def main(
        A: T.Tensor((64 * tiles, 64 * steps), "float16"), W: T.Tensor((columns, 64 * steps), "int8"),
        C: T.Tensor((64 * tiles, columns), "float32"),
    ):
        with T.Kernel(tiles, threads=128) as bx:
            A_s = T.alloc_shared((64, 64), "float16")
            W_b = T.alloc_shared((columns, 64), "int8")
            W_s = T.alloc_shared((columns, 64), "float16")
            C_l = T.alloc_fragment((64, columns), "float32")
            T.clear(C_l)
            if what == "written before":
                T.clear(W_s)
            for k in T.Pipelined(steps, num_stages=3):
                T.copy(A[bx * 64, k * 64], A_s)
                T.copy(W[0, k * 64], W_b)
                for i, j in T.Parallel(columns, 64):
                    if what == "accumulated":
                        W_s[i, j] += W_b[i, j]
                    else:
                        W_s[i, j] = T.cast(W_b[i, j], "float16") * 2 + 1
                if what == "read by threads":
                    for i, j in T.Parallel(64, columns):
                        C_l[i, j] += W_s[j, i]
                T.gemm(A_s, W_s, C_l, transpose_B=True)
            T.copy(C_l, C[bx * 64, 0])

    return main


def second_versions(func, **pass_configs):
    launch = launch_of(warp_specialize(func, **pass_configs))
    return [tile.name for tile, count in launch.plan.versions if count == 2 and tile.name == "W_s"]


def test_a_converted_tile_has_two_versions_of_which_gemms_read_one():
    launch = launch_of(warp_specialize(converting()))
    ((_, made),) = schedule_of(launch).loops
    assert (0, 1) == made.stage
    (steady,) = [s for s in walk(launch) if isinstance(s, For) and any(isinstance(g, Gemm) for g in walk(s))]
    (gemm,) = [s for s in walk(steady) if isinstance(s, Gemm)]
    assert 3 == gemm.b.buffer.rank
    assert ["W_s"] == second_versions(converting())


@pytest.mark.parametrize("what", ["written before", "accumulated", "read by threads"])
def test_what_else_touches_a_tile_leaves_it_one_version(what):
    assert [] == second_versions(converting(what=what))


def test_a_tile_has_one_version_where_shared_memory_holds_no_other():
    large = converting(9, columns=256)  # 24 KiB in each stage, and 32 KiB for each version
    assert ["W_s"] == second_versions(large, stages=6)
    assert [] == second_versions(large, stages=7)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("persistent", [False, True])
def test_it_computes_the_same(steps, persistent):
    func = converting(steps, tiles=3)
    kernel = tilelang.compile(
        func, target=HOPPER, execution_backend="simulator", pass_configs={"tl.stages": 2, "tl.persistent": persistent}
    )
    rng = np.random.default_rng(steps)
    a = rng.integers(-3, 4, (192, 64 * steps)).astype(np.float16)
    w = rng.integers(-100, 100, (96, 64 * steps)).astype(np.int8)
    out = np.full((192, 96), np.nan, np.float32)
    kernel(a, w, out)
    np.testing.assert_array_equal(out, a.astype(np.float32) @ (w.astype(np.float32) * 2 + 1).T)


def test_the_simulator_finds_the_version_that_gemms_still_read(monkeypatch):
    def first(loop, value, versioned):
        return {old: (new, as_expr(0)) for old, new in versioned.items()}

    monkeypatch.setattr(software_pipeline, "versions_in", first)
    with pytest.raises((tilelang.TileLangError, AssertionError)):
        test_it_computes_the_same(5, False)


def gradients(length=192, dim=32, block_N=128, threads=256, causal=False):
    """The backward pass of attention, whose gemm of dQ reads what all warpgroups have written."""
    module = load("03_attention/attention_backward.py")
    return module.attention_backward.get_tir(1, 1, length, dim, block_N=block_N, threads=threads, causal=causal)


def versions_of(name, func, **pass_configs):
    launch = launch_of(warp_specialize(func, **pass_configs))
    return [count for tile, count in launch.plan.versions if tile.name == name]


def test_warpgroups_write_the_next_version_while_others_read_what_they_wrote():
    func = gradients(4096, 128)
    assert [2] == versions_of("dS_shared", func)
    launch = launch_of(warp_specialize(func))
    assert {1} == {made.stages for _, made in schedule_of(launch).loops}
    assert [] == versions_of("dS_shared", gradients(block_N=64, threads=128))  # one warpgroup waits for itself


def test_second_versions_that_save_a_wait_alone_take_no_stage():
    assert [] == versions_of("dS_shared", gradients(4096, 128), stages=3, staged=4)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("persistent", [False, True])
def test_warpgroups_that_share_such_a_tile_compute_the_same(causal, persistent):
    func = gradients(causal=causal)
    one_stage = {"order": [0, 1, 2, 5, 3, 4, 6, 9, 7, 8, 10], "stage": [0] * 11}
    made = lowered(func, persistent=persistent, schedule=json.dumps([{"loops": [one_stage]}]))
    (launch,) = (s for s in walk(made.body) if isinstance(s, Launch) and s.plan.schedule is not None)
    assert any(tile.name == "dS_shared" and count == 2 for tile, count in launch.plan.versions)
    rng = np.random.default_rng(0)
    q, k, v, grad = rng.standard_normal((4, 1, 1, 192, 32), dtype=np.float32).astype(np.float16)
    lse, delta = rng.standard_normal((2, 1, 1, 192), dtype=np.float32) + 5
    results = [np.zeros((1, 1, 192, 32), dtype) for dtype in ("float32", "float16", "float16")]
    given = [q, k, v, grad, lse, delta, *results]
    want = run_reference_on_copies(func, given)
    for lazy, seed in ((False, 0), (True, 1)):
        actual = [np.array(a) for a in given]
        simulate(made, actual, target=TARGET, lazy=lazy, seed=seed)
        for expected, found in zip(want[6:], actual[6:], strict=True):
            np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=2e-3, atol=2e-3)
