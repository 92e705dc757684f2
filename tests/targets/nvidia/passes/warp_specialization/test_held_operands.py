"""Columns of operand A stay in registers where wgmma would wait for shared memory."""

import numpy as np
import pytest
from compatible_mla import mla_split
from compatible_programs import attention_backward
from examples_of import load
from gpu import assert_simulates
from specialized import TARGET, launch_of

import tilelang
import tilelang.language as T
from tilelang.ir.buffer import Scope
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.backend import LOWERINGS
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.held_operands import with_held_operands

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def scores(depth, columns=64, width=256, *, refilled=False, transposed=False):
    """(Q K^T) K for tiles of K, as attention without its softmax; warpgroups divide the columns of both gemms."""
    shape = (depth, 64) if transposed else (64, depth)

    @T.prim_func
    def main(Q: T.Tensor(shape, "float16"), K: T.Tensor((columns * 3, depth), "float16"),
             O: T.Tensor((64, width), "float32")):
        with T.Kernel(1, threads=256):
            Q_s = T.alloc_shared(shape, "float16")
            K_s = T.alloc_shared((columns, depth), "float16")
            S_s = T.alloc_shared((64, columns), "float16")
            S = T.alloc_fragment((64, columns), "float32")
            out = T.alloc_fragment((64, width), "float32")
            T.copy(Q, Q_s)
            T.clear(out)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(K[k * columns, 0], K_s)
                T.gemm(Q_s, K_s, S, transpose_A=transposed, transpose_B=True, clear_accum=True,
                       policy=T.GemmWarpPolicy.FullCol)
                if refilled:
                    T.clear(Q_s)
                T.copy(S, S_s)
                T.gemm(S_s, K_s[:, :width], out, policy=T.GemmWarpPolicy.FullCol)
            T.copy(out, O)

    return main


def held(func):
    """The extents of the fragments that hold operands, those of K of the gemms of each loop, and the notes."""
    launch = flatten_sequences(launch_of(func))
    capabilities = target_capabilities(func, LOWERINGS, PassContext(CompileOptions(), TARGET))
    gemms = [s for s in walk(launch.body) if isinstance(s, Gemm)]
    made, notes = with_held_operands(launch, gemms, 2, capabilities)
    buffers = [s.buffer for s in walk(made.body) if isinstance(s, Alloc) and s.buffer.name.endswith("_held")]
    assert all(each.scope is Scope.FRAGMENT for each in buffers)
    depths = [int(s.sizes[2].value) for s in walk(made.body) if isinstance(s, Gemm)]
    return [each.static_shape for each in buffers], depths, [note.text for note in notes]


def test_as_many_columns_stay_as_registers_hold():
    assert ([(64, 256)], [256, 64], ["256 of 256 columns of 'Q_s' stay in registers"]) == held(scores(256))
    assert ([(64, 256)], [256, 256, 64]) == held(scores(512, width=512))[:2]


def test_sums_of_a_softmax_read_the_scores_where_they_are_scaled():
    """Sums are scaled behind the copy of the probabilities: 16 registers hold the scores still, 16 the copy already."""
    func = mla_split(1, 64, 256, 512, 64, 2)
    assert ([(64, 192)], ["192 of 512 columns of 'Q_shared' stay in registers"]) == held(func)[::2]
    func = load("04_mla_decoding/mla_absorbed.py").mla_absorbed.get_tir(1, 64, 256, 512, 64)
    assert ([(64, 256)], ["256 of 512 columns of 'Q_shared' stay in registers"]) == held(func)[::2]


def test_gemms_in_flight_hold_what_they_touch():
    """Attention backward: where the gradient of 32 queries is computed, in 64 rows, two others are in flight."""
    func = attention_backward(1, 2, 256, 128, 32, 128, 256, "float16", causal=True)
    assert ([(128, 128)], ["128 of 128 columns of 'k' stay in registers"]) == held(func)[::2]


@pytest.mark.parametrize("func", [
    scores(256, columns=128),  # instructions of 64 columns do not wait
    scores(256, refilled=True),
    scores(256, transposed=True),
])  # fmt: skip
def test_other_operands_are_read_from_shared_memory(func):
    assert ([], [], []) == (held(func)[0], held(func)[1][2:], held(func)[2])


def test_programs_with_operands_in_registers_compute_the_same():
    func = scores(512, width=512)
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="simulator")
    assert "256 of 512 columns of 'Q_s' stay in registers" in kernel.explain()
    rng = np.random.default_rng(0)
    q, k = (rng.integers(-2, 3, (rows, 512)).astype(np.float16) for rows in (64, 192))
    assert_simulates(func, q, k, np.zeros((64, 512), np.float32), arch="sm_90a", seeds=(0,))
