"""Rotation of a software-pipelined loop: what stage 0 does last in an iteration comes first in one of the rotated loop.

Takes the body of a loop and its schedule in two stages; gives the parts of an iteration. Invariant: in the order of the
schedule, the parts follow one another, and between the last and the first of them gemms of stage 1 alone are in flight.

What stands once in a rotated loop stands twice in one with a prologue: NVRTC takes a fifth to a quarter less time. The
branch of a rotated loop also keeps ptxas from moving exponentials behind the issue of the next gemm. Loops of which
`split_masked_loops` makes several are rotated only where warpgroups issue in order, those without a next iteration wait
for their turn all the same, and compilers do not know that iterations without masks have one: in tiles of 128x128,
causal attention was 0.2 to 0.8 % slower on an H200 with two warpgroups that issue as they come, and 1.5 % faster with
three in tiles of 192x80.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Stmt
from tilelang.ops.gemm import Gemm
from tilelang.schedule.in_flight import InFlight, is_fenceable_fragment
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.modulo import ModuloSchedule
from tilelang.schedule.software_pipeline import Rotation, SoftwarePipeline
from tilelang.targets.machine import Rates
from tilelang.targets.nvidia.isa.matrix_descriptor import STEP_BYTES
from tilelang.targets.nvidia.passes.costs import gemm_work, thread_work

# In the branch of a rotated loop, ptxas computed the descriptors of 16 wgmma instructions in each thread, and moved
# them to uniform registers one by one: attention of 256 dimensions was 1.5 % slower on an H200. Those of 8 are uniform.
_MOST_WGMMAS_AHEAD = 8
# Where warpgroups issue in order, those that wait for their turn pay for what the branch adds, unless it is the tensor
# cores for which they wait: on an H200 attention of three warpgroups was 1.0 to 1.5 % faster with 1.1 times as many
# cycles of threads as of gemms (128 dimensions), and 1.5 % slower with 2.1 times as many (64). No others were measured,
# nor were masks behind the gemm, which count among them.
_MOST_THREAD_WORK_IN_ORDER = 1.25


def with_rotation(pipeline: SoftwarePipeline, rates: Rates, *, masks: bool) -> SoftwarePipeline:
    """A pipelined loop with the parts of an iteration if it is to be rotated.

    Args:
        pipeline: The loop.
        rates: Those of the machine.
        masks: Whether iterations that mask no element are to run without masks, in a loop of their own.
    """
    in_order = pipeline.order is not None
    if pipeline.schedule.stages == 1 or masks and not in_order or pipeline.speculation is not None:
        return pipeline  # the prologue of a rotated loop has no step of a softmax
    body, computed = pipeline.body, pipeline.computed
    parts = rotation(body, pipeline.schedule, pipeline.asynchronous, computed, rates, in_order=in_order)
    return dataclasses.replace(pipeline, rotation=parts)


def rotation(
    body: LoopBody,
    schedule: ModuloSchedule,
    asynchronous: Container[Stmt],
    computed: Container[Buffer],
    rates: Rates,
    *,
    in_order: bool = False,
) -> Rotation | None:
    """The parts of an iteration where the loop is rotated; None where it is not.

    The last part is the end of the order that belongs to stage 0 alone. Before it, the gemms of stage 0 must be
    complete: it must begin with the first use of each, but for what computes no tile. It writes to registers only:
    a barrier for what other warps read of it would stand between gemms.

    Args:
        body: The body of a loop.
        schedule: Its schedule in two stages.
        asynchronous: Its gemms that run asynchronously.
        computed: The tiles that its threads compute in two versions.
        rates: Those of the machine.
        in_order: Whether warpgroups issue gemms one after another.
    """
    order, stage, statements = schedule.order, schedule.stage, body.statements
    computes = [any(is_fenceable_fragment(access.buffer) for access in accesses(s).all) for s in statements]
    late = [place for place, number in enumerate(order) if stage[number]]
    ahead, behind, alone = order[: late[0]], order[late[0] : late[-1] + 1], order[late[-1] + 1 :]
    if not all(stage[number] for number in behind):
        return None
    gemms = [s for s in map(statements.__getitem__, ahead) if isinstance(s, Gemm) and s in asynchronous]
    if not gemms or any(_wgmmas(gemm) > _MOST_WGMMAS_AHEAD for gemm in gemms):
        return None
    pending = [InFlight(gemm, []) for gemm in gemms]
    for number in alone:
        pending = [each for each in pending if not each.blocks(statements[number], computed)]
        written = (access.buffer.scope for access in accesses(statements[number]).writes)
        if pending and computes[number] or not {Scope.SHARED, Scope.GLOBAL}.isdisjoint(written):
            return None
    if in_order and _threads_take_longer(body, asynchronous, alone, rates):
        return None
    return Rotation(ahead, behind, alone) if any(computes[number] for number in alone) else None


def _threads_take_longer(
    body: LoopBody, asynchronous: Container[Stmt], alone: Sequence[int], rates: Rates
) -> bool:
    """Whether threads have clearly more to do than the tensor cores, in the statements of stage 0 behind its gemms."""
    gemms = [s for s in body.statements if isinstance(s, Gemm) and s in asynchronous]
    of_threads = sum(thread_work(body.statements[number], rates).cycles for number in alone)
    return of_threads > _MOST_THREAD_WORK_IN_ORDER * sum(gemm_work(gemm, rates).cycles for gemm in gemms)


def _wgmmas(gemm: Gemm) -> int:
    """How many instructions a warpgroup issues for 64 rows of a gemm."""
    depth = int_const(gemm.sizes[2])
    assert depth is not None
    return depth * gemm.operands[0].bits // (STEP_BYTES * 8)
