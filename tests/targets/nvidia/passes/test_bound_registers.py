"""Launches say how many blocks a multiprocessor has shared memory for, where fewer registers let it hold no more."""

import dataclasses

import pytest
from programs import index_var

from tilelang.ir.expr import as_expr
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import Launch, LaunchHints, Seq
from tilelang.targets.nvidia.passes.bound_registers import bound_registers
from tilelang.targets.target import Target

BLOCK, THREAD = index_var("bx"), index_var("thread")
MACHINE = Target("cuda", "sm_90a").machine


def launch(threads, shared, hints=LaunchHints()):
    plan = dataclasses.replace(LaunchPlan(), shared_bytes=shared)
    return Launch((BLOCK,), (as_expr(4),), (threads, 1, 1), Seq(()), thread=THREAD, plan=plan, hints=hints)


@pytest.mark.parametrize(
    "threads,kilobytes,blocks",
    [
        (128, 160, 1),
        (128, 96, 2),  # of 128 threads, which may have 255 registers each
        (128, 64, None),  # three, with 168 each
        (256, 160, 1),
        (256, 96, None),  # two, with 128 each
        (512, 160, None),
        (128, 0, None),
    ],
)
def test_the_bound_is_the_number_of_blocks_whose_threads_may_have_all_registers(threads, kilobytes, blocks):
    made = bound_registers(launch(threads, kilobytes << 10), MACHINE)
    assert blocks == made.hints.min_blocks_per_sm


def test_the_bound_of_a_user_stays():
    asked = launch(128, 160 << 10, hints=dataclasses.replace(LaunchHints(), min_blocks_per_sm=3))
    assert bound_registers(asked, MACHINE) is asked
