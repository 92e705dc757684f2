"""The loops of consumers as they are scheduled: their statements, and what these need."""

import dataclasses

import pytest
from specialized import TABLE, context, launch_of
from two_gemms import two_gemms

from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, If, ParallelLoop, Seq
from tilelang.ir.visit import walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.schedule.consumer_loops import (
    asynchronous_gemms,
    consumer_body,
    is_allocated_across,
    prepared,
    threads_access_memory,
)
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities


def loop_of(func):
    capabilities, launch = target_capabilities(func, TABLE, context()), flatten_sequences(launch_of(func))
    (loop,) = (s for s in walk(launch) if isinstance(s, For))
    made = prepared(loop, loop, launch, separate=True)
    return capabilities, made.operands, consumer_body(made.loop, capabilities.load_groups(launch).found)


def test_parallel_loops_are_distributed_and_the_loads_of_the_producer_are_left_out():
    _, operands, body = loop_of(two_gemms("adds to the result"))
    assert () == operands
    assert [Gemm, ParallelLoop, ParallelLoop, Copy, Gemm] == [type(s) for s in body.statements]
    assert not is_allocated_across(body)


def test_an_operand_of_another_dtype_is_converted_by_a_copy_and_its_gemm_may_be_in_flight():
    capabilities, (operand,), body = loop_of(two_gemms("converts"))
    assert ("S", "float16", Scope.FRAGMENT) == (operand.name, str(operand.dtype), operand.scope)
    first, last = body.statements[0], body.statements[-1]
    assert operand is last.a.buffer
    assert {first, last} == asynchronous_gemms(body, capabilities.wgmma_refusal, 128)
    assert set() == asynchronous_gemms(body, capabilities.wgmma_refusal, 96)


@pytest.mark.parametrize(("what", "accesses"), [("", False), ("reads shared memory", True)])
def test_memory_that_gemms_alone_access_is_not_accessed_by_threads_even_in_a_branch(what, accesses):
    _, _, body = loop_of(two_gemms(what))
    assert accesses == threads_access_memory(body)
    gemm, *rest = flat_statements(body.loop.body)
    branch = If(const(True, BOOL), Seq((gemm,)))
    assert accesses == threads_access_memory(type(body)(dataclasses.replace(body.loop, body=Seq((branch, *rest)))))
