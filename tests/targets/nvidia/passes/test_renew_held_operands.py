"""Operands of wgmma that a loop keeps in registers beside others are defined anew for each gemm."""

import re

import numpy as np
import pytest
from gpu import assert_simulates
from held_queries import attention
from specialized import launch_of

import tilelang
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes import renew_held_operands
from tilelang.targets.target import Target


def renewed(func):
    """The operands A that gemms renew."""
    context = PassContext(CompileOptions.from_user({}), Target("cuda", "sm_90a"))
    for each in BACKEND.passes:
        func = each.run(func, context)
        if each is renew_held_operands.PASS:
            break
    gemms = [s for s in walk(launch_of(func).body) if isinstance(s, Gemm)]
    assert gemms
    return {gemm.a.buffer.name for gemm in gemms if gemm.plan.renews_a}


def test_what_a_loop_keeps_beside_what_it_computes_is_renewed():
    assert {"Q_l"} == renewed(attention())


def test_what_is_alone_in_registers_is_not():
    assert set() == renewed(attention(through=True))


def test_what_each_iteration_overwrites_is_not():
    assert set() == renewed(attention(queries="from shared memory"))


@pytest.mark.parametrize("queries", ["scaled", "half"])
def test_what_an_iteration_updates_or_overwrites_in_part_is(queries):
    assert {"Q_l"} == renewed(attention(queries=queries))


def test_what_is_computed_from_constants_is_kept_by_the_compiler():
    assert {"Q_l", "P"} == renewed(attention(weights="constant"))


def test_renewed_operands_are_written_right_before_their_gemm():
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 64), (192, 64), (192, 64)))
    assert_simulates(attention(), q, k, v, np.zeros((64, 64), np.float32), arch="sm_90a")
    text = tilelang.compile(attention(), target={"kind": "cuda", "arch": "sm_90a"}).get_kernel_source()
    assert re.search(r"tl_renew_operands<16>\(Q_l\);\s+tl_define_float_operands<32>\(S\);\s+tl_wgmma_\w+_x4\(S,", text)
    assert 1 == text.count("tl_renew_operands<16>(")
