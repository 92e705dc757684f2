"""Operands of mma.sync stay in registers across loops, where registers suffice."""

import numpy as np
import pytest
from examples_of import benchmark_programs

import tilelang
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.target import Target


def notes(rows, columns, threads, arch="sm_80", length=256):
    program = benchmark_programs().attention_program(1, 1, length, 128, rows, columns, threads=threads)
    target = Target("cuda", arch)
    passes = target.family.backend().passes
    last = next(n for n, each in enumerate(passes) if each.name == "hold_operands")
    made = run_passes(program, passes[: last + 1], PassContext(target=target))
    (launch,) = (stmt for stmt in walk(made.body) if isinstance(stmt, Launch))
    return [note.text for note in launch.plan.notes if "stay in registers" in note.text]


@pytest.mark.parametrize("tile", [(128, 128, 256), (64, 64, 128)])
def test_queries_stay_where_registers_suffice(tile):
    assert ["128 of 128 columns of 'Q_shared' stay in registers"] == notes(*tile)


OTHERS = {
    "too many registers": (128, 64, 128, "sm_80"),
    "more registers than so many threads have": (256, 128, 512, "sm_80"),
    "wgmma in specialized warps": (128, 128, 256, "sm_90a"),
}


@pytest.mark.parametrize("kernel", OTHERS.values(), ids=OTHERS.keys())
def test_others_are_loaded_from_shared_memory(kernel):
    assert [] == notes(*kernel)


def test_the_simulator_finds_nothing_wrong():
    program = benchmark_programs().attention_program(1, 1, 128, 128, 64, 64, threads=128)
    kernel = tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"}, execution_backend="simulator")
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 128, 128), np.float32).astype(np.float16)
    out = np.zeros_like(q)
    kernel(q, k, v, out)
    scores = q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2) / 128**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)
    np.testing.assert_allclose(out.astype(np.float32), expected, atol=2e-3)
