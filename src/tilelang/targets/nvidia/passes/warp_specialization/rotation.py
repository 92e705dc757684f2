"""Rotation of a software-pipelined loop: what stage 0 does last in an iteration comes first in one of the rotated loop.

Takes the body of a loop and its schedule in two stages; gives the parts of an iteration. Invariant: in the order of the
schedule, the parts follow one another, and between the last and the first of them gemms of stage 1 alone are in flight.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from tilelang.analysis.accesses import accesses
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Stmt
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.schedule.in_flight import InFlight, is_fenceable_fragment
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.modulo import ModuloSchedule
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


@record(slots=True, eq=False)
class Rotation:
    """The statements of an iteration of a pipelined loop, in the order in which they run.

    Attributes:
        ahead: Those of stage 0 that come first.
        behind: Those of stage 1.
        alone: The others of stage 0, with which the rotated loop begins.
    """

    ahead: Sequence[int]
    behind: Sequence[int]
    alone: Sequence[int]


def rotation(
    body: LoopBody,
    schedule: ModuloSchedule,
    asynchronous: Container[Stmt],
    computed: Container[Buffer],
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
    if in_order and _threads_take_longer(body, asynchronous, alone):
        return None
    return Rotation(ahead, behind, alone) if any(computes[number] for number in alone) else None


def _threads_take_longer(body: LoopBody, asynchronous: Container[Stmt], alone: Sequence[int]) -> bool:
    """Whether threads have clearly more to do than the tensor cores, in the statements of stage 0 behind its gemms."""
    gemms = sum(gemm_work(s).cycles for s in body.statements if isinstance(s, Gemm) and s in asynchronous)
    return sum(thread_work(body.statements[number]).cycles for number in alone) > _MOST_THREAD_WORK_IN_ORDER * gemms


def _wgmmas(gemm: Gemm) -> int:
    """How many instructions a warpgroup issues for 64 rows of a gemm."""
    depth = int_const(gemm.sizes[2])
    assert depth is not None
    return depth * gemm.operands[0].bits // (STEP_BYTES * 8)
