"""Launches say how many of their blocks a multiprocessor holds, where fewer registers would not let it hold more."""

import dataclasses

import pytest
from programs import index_var

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Alloc, Launch, LaunchHints, Seq, Store
from tilelang.targets.nvidia.passes.bound_registers import bound_registers
from tilelang.targets.target import Target

BLOCK, THREAD = index_var("bx"), index_var("thread")
MACHINE = Target("cuda", "sm_90a").machine


def launch(threads, shared, registers=64, hints=LaunchHints()):
    array = Buffer("sums", (as_expr(registers),), FLOAT32, Scope.LOCAL)
    body = Seq((Alloc(array), Store(array, (THREAD,), const(0, FLOAT32))))
    plan = dataclasses.replace(LaunchPlan(), shared_bytes=shared)
    return Launch((BLOCK,), (as_expr(4),), (threads, 1, 1), body, thread=THREAD, plan=plan, hints=hints)


@pytest.mark.parametrize(
    "threads,kilobytes,registers,blocks",
    [
        (128, 160, 64, 1),
        (128, 96, 64, 2),  # of 128 threads, which may have 255 registers each
        (128, 64, 64, None),  # three, with 168 each
        (128, 64, 180, 2),  # whose arrays leave no registers for a third
        (256, 160, 64, 1),
        (256, 96, 64, None),  # two, with 128 each
        (256, 96, 130, 1),
        (512, 160, 64, None),
        (128, 0, 16, None),
    ],
)
def test_the_bound_is_the_number_of_blocks_whose_threads_may_have_all_registers(threads, kilobytes, registers, blocks):
    made = bound_registers(launch(threads, kilobytes << 10, registers), MACHINE)
    assert blocks == made.hints.min_blocks_per_sm


def test_the_bound_of_a_user_stays():
    asked = launch(128, 160 << 10, hints=dataclasses.replace(LaunchHints(), min_blocks_per_sm=3))
    assert bound_registers(asked, MACHINE) is asked
