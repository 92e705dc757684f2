"""Order barriers between the gemms of consumer warpgroups that share a tile."""

import attention_programs
import numpy as np
import pytest
from specialized import launch_of, warp_specialize

import tilelang
import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var
from tilelang.ir.pipeline import OrderArrive, OrderWait
from tilelang.ir.stmt import For, Seq
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.schedule.issue_order import IssueOrder, issue_order
from tilelang.targets.nvidia.schedule import schedule_of

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def flash(length=384, rows=192, causal=False, dim=64):
    return attention_programs.flash(1, length, dim, rows, 64, causal=causal, threads=2 * rows)


def simulated(func, length, causal=False, dim=64, **pass_configs):
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, length, dim)).astype(np.float16)
    out = np.full_like(q, np.nan)
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="simulator", pass_configs=pass_configs)
    kernel(q, k, v, out)
    np.testing.assert_allclose(out, attention_programs.attention(q, k, v, causal), rtol=1e-2, atol=1e-2)
    return kernel


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("causal", "persistent"), [(False, False), (True, True)])
def test_three_warpgroups_issue_their_gemms_one_after_another(causal, persistent):
    length = 384 if persistent else 192  # blocks that stay have two tiles
    kernel = simulated(flash(length, causal=causal), length, causal, **{"tl.persistent": persistent})
    assert "3 consumer warpgroups that issue gemms one after another" in kernel.explain()


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("causal", "persistent"), [(False, False), (True, False), (True, True)])
def test_rotated_loops_with_and_without_masks_do_so_too(causal, persistent):
    length = 384 if causal else 192  # of which some iterations have no mask
    kernel = simulated(flash(length, causal=causal, dim=128), length, causal, 128, **{"tl.persistent": persistent})
    assert "3 consumer warpgroups that issue gemms one after another" in kernel.explain()
    assert causal == ("tl_opaque_zero()" in kernel.get_kernel_source())


def test_the_steps_of_other_warpgroups_are_found_among_statements():
    order = issue_order(3, 128, Var("thread", INT32))
    wait, arrive = order.wait(), order.arrive()
    assert [wait, arrive] == IssueOrder.steps([wait, Seq(()), arrive, *order.end()])


def test_two_warpgroups_do_so_on_request():
    kernel = simulated(flash(256, 128), 256, **{"tl.ping_pong": True})
    assert "2 consumer warpgroups that issue gemms one after another" in kernel.explain()


def test_tiles_that_warpgroups_share_are_complete_before_one_issues():
    @T.prim_func
    def main(
        Q: T.Tensor((128, 64), "float16"),
        K: T.Tensor((128, 64), "float16"),
        V: T.Tensor((128, 64), "float16"),
        O: T.Tensor((128, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            q, k, v = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            scores, out, most = T.alloc_fragment((128, 64), "float32"), T.alloc_fragment((128, 64), "float32"), T.alloc_fragment((128,), "float32")
            p = T.alloc_shared((128, 64), "float16")
            T.copy(Q, q)
            T.clear(out)
            for i in T.Pipelined(2, num_stages=2):
                T.copy(K[i * 64, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                T.reduce_max(scores, most, dim=1)
                for r, c in T.Parallel(128, 64):
                    scores[r, c] = T.exp2(scores[r, c] - most[r])
                T.copy(scores, p)
                T.copy(V[i * 64, 0], v)
                T.gemm(p, v, out)
            T.copy(out, O)

    q, k, v = np.random.default_rng(0).integers(-1, 2, (3, 128, 64)).astype(np.float16)
    out = np.full((128, 64), np.nan, np.float32)
    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator", pass_configs={"tl.ping_pong": True})
    kernel(q, k, v, out)
    assert "issue gemms one after another" in kernel.explain()
    expected = np.zeros_like(out)
    for part in (slice(0, 64), slice(64, 128)):
        scores = q @ k[part].T
        expected += np.exp2(scores - scores.max(1, keepdims=True)).astype(np.float32) @ v[part]
    np.testing.assert_allclose(out, expected, rtol=1e-2, atol=1e-2)


def test_a_saved_schedule_keeps_the_order():
    target = {"target": HOPPER, "execution_backend": "simulator"}
    explained = tilelang.compile(flash(), **target).explain()
    (saved,) = [line.removeprefix("schedule: ") for line in explained.splitlines() if line.startswith("schedule: ")]
    again = tilelang.compile(flash(), pass_configs={"tl.schedule": saved}, **target)
    assert "3 consumer warpgroups that issue gemms one after another" in again.explain()


@pytest.mark.parametrize("rows,configs", [(128, {}), (64, {}), (192, {"ping_pong": False})])
def test_others_issue_gemms_as_they_come(rows, configs):
    launch = launch_of(warp_specialize(flash(384, rows), stages=2, **configs))
    assert schedule_of(launch).loops and not schedule_of(launch).ordered_issue
    assert not any(isinstance(s, OrderWait | OrderArrive) for s in walk(launch))


def test_a_warpgroup_waits_before_its_first_gemm_and_arrives_behind_its_last():
    launch = launch_of(warp_specialize(flash(), stages=2))
    (steady,) = [s.body.body for s in walk(launch) if isinstance(s, For) and any(isinstance(i, GemmWait) for i in s.body.body)]
    kinds = (Gemm, GemmWait, OrderWait, OrderArrive)
    names = [type(s).__name__ for s in steady if isinstance(s, kinds)]
    assert ["OrderWait", "Gemm", "Gemm", "OrderArrive", "GemmWait", "GemmWait"] == names


def no_statement(self):
    return Seq(())


def no_statements(self):
    return []


def one_barrier_for_all(self):
    return OrderWait(self.order, 0)


def to_one_group(self):
    return OrderArrive(self.order, 0)


FAULTS = {
    "no first arrival": ("begin", no_statements),
    "no wait": ("wait", no_statement),
    "no arrival": ("arrive", no_statement),
    "no last wait": ("end", no_statements),
    "waits at the same barrier": ("wait", one_barrier_for_all),
    "arrives for one group only": ("arrive", to_one_group),
}


@pytest.mark.slow(every=6)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_simulator_finds_faults(fault, monkeypatch):
    method, replacement = FAULTS[fault]
    monkeypatch.setattr(IssueOrder, method, replacement)
    with pytest.raises((tilelang.TileLangError, AssertionError)):
        simulated(flash(192), 192)
