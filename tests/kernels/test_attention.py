"""Attention as ptxas compiles it, in every dimension and dtype, backward, and MLA decode; in float8 as it computes."""

import attention_programs
import ml_dtypes
import numpy as np
import pytest
from device_text import needs_cuda_compiler
from examples_of import benchmark_programs, load
from gpu import SCHEDULES, simulate_func
from specialized import TARGET, lowered

from tilelang.ir.stmt import CallStmt, For, Launch
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_WAIT
from tilelang.targets.nvidia.runtime.device_code import build
from tilelang.targets.target import Target


@pytest.mark.slow(every=12)
@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim,rows,block_n", [(128, 192, 80), (64, 192, 128), (64, 256, 64)])
def test_tiles_of_three_and_four_warpgroups_fit_into_their_registers(dim, rows, block_n, causal):
    program = attention_programs.flash(8, 15 * 256, dim, rows, block_n, causal=causal, threads=2 * rows)
    made = lowered(program, persistent=True, consumers=rows // 64)
    launches = [stmt for stmt in walk(made.body) if isinstance(stmt, Launch)]
    assert rows // 64 in [launch.plan.schedule.consumers for launch in launches if launch.plan.schedule is not None]
    for used in build(emit(made), TARGET.arch, "nvrtc").resources.values():
        assert (0, False) == (used.spill_bytes, used.serialized)


@pytest.mark.slow(every=20)
@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "dim,dim_v,tile,dtype",
    [
        (64, 64, (128, 128), "float16"),
        (96, 96, (128, 128), "float16"),
        (128, 128, (128, 128), "float16"),
        (192, 128, (128, 128), "float16"),
        (192, 128, (192, 64), "float16"),
        (256, 256, (128, 80), "float16"),
        (64, 64, (128, 128), "float8_e4m3fn"),
        (128, 128, (128, 128), "float8_e4m3fn"),
        (128, 128, (192, 96), "float8_e4m3fn"),
    ],
)
def test_tiles_of_every_dimension_fit_and_their_gemms_overlap(dim, dim_v, tile, dtype, causal):
    program = attention_programs.flash(
        8, 15 * 256, dim, *tile, causal=causal, threads=2 * tile[0], dim_v=dim_v, dtype=dtype
    )
    made = lowered(program, persistent=True)
    launches = [stmt for stmt in walk(made.body) if isinstance(stmt, Launch)]
    (timeline,) = (timeline for launch in launches for timeline in launch.plan.timelines)
    assert "software-pipelined" in timeline.title
    for used in build(emit(made), TARGET.arch, "nvrtc").resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_attention_in_float8(dtype, causal):
    rng, kind, shape = np.random.default_rng(0), getattr(ml_dtypes, dtype), (1, 192, 64)
    q, k, v = (rng.standard_normal(shape).astype(kind) for _ in range(3))
    func = attention_programs.flash(*shape, 128, 64, causal=causal, threads=256, dtype=dtype)
    made = lowered(func, persistent=True, enable_fast_math=True)
    given = [q, k, np.ascontiguousarray(v.swapaxes(1, 2)), np.zeros(shape, np.float16)]
    for lazy, seed in SCHEDULES[:2]:
        found = simulate_func(made, given, TARGET.arch, lazy, seed)[3]
        # probabilities have 3 or 2 bits behind the leading one
        np.testing.assert_allclose(attention_programs.attention(q, k, v, causal), found, atol=0.15, rtol=0.1)


@pytest.mark.slow(every=8)
@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
def test_the_backward_pass_spills_nothing(causal):
    program = load("03_attention/attention_backward.py").attention_backward.get_tir(
        4, 32, 4096, 128, block_M=64, block_N=128, threads=256, causal=causal
    )
    made = build(emit(lowered(program)), TARGET.arch, "nvrtc")
    for used in made.resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)
    assert () == made.warnings


@needs_cuda_compiler
@pytest.mark.parametrize(
    "name,shape", [("mla_absorbed", (64, 128, 8192, 512, 64)), ("mla_paged", (64, 128, 8192, 128, 512, 64))]
)
def test_mla_decode_spills_nothing(name, shape):
    program = getattr(load(f"04_mla_decoding/{name}.py"), name).get_tir(*shape)
    made = build(emit(lowered(program)), TARGET.arch, "nvrtc")
    for used in made.resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)
    assert () == made.warnings


@pytest.mark.parametrize("causal", [False, True])
def test_copies_of_keys_and_values_share_a_wait_and_need_no_barrier_beside_its_own(causal):
    target = Target("cuda", "sm_80")
    program = benchmark_programs().attention_program(1, 1, 1024, 128, 128, 64, 2, 128, causal=causal)
    made = run_passes(program, target.family.backend().passes, PassContext(target=target))
    (loop,) = (s for s in walk(made.body) if isinstance(s, For) and CP_ASYNC_WAIT in called(s))
    assert [CP_ASYNC_WAIT, SYNC_THREADS] == [r for r in called(loop) if r in (CP_ASYNC_WAIT, SYNC_THREADS)]


def called(stmt):
    return [s.routine for s in walk(stmt) if isinstance(s, CallStmt)]
