"""The vote of a warpgroup on whether an element of a tile exceeds a limit.

Takes `AnyExceeds`; gives the program of one thread: its own elements, and the barrier of its warpgroup that votes.
Invariant: all threads of a warpgroup get the same answer, and ptxas knows that it is the same in a warp.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.dtypes import BOOL, INT32, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Expr, Load, Var, binary, const, int_const, unary
from tilelang.ir.plan import Plan
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Alloc, CallStmt, Store
from tilelang.layout.constraints import Constraint
from tilelang.lowering.lowering import ACCEPTED, LoweringContext, Refusal
from tilelang.lowering.registers import emitter
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.targets.gpu.isa.warp import ANY
from tilelang.targets.nvidia.isa.named_barrier import BAR_SYNC_OR
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.schedule import MAX_VOTING_WARPGROUPS, VOTE_BARRIER, WARPGROUP_THREADS

_ALL_LANES = const(2**WARP_SIZE - 1, SCALARS["uint32"])


class VoteOfWarpgroup:
    """The lowering."""

    name = "any_exceeds.warpgroup"

    def accepts(self, op: AnyExceeds, context: LoweringContext) -> Plan | Refusal:
        """Nothing to decide, or why it cannot be done."""
        warpgroups, rest = divmod(context.threads, WARPGROUP_THREADS)
        return Refusal("no barrier is free") if rest or warpgroups > MAX_VOTING_WARPGROUPS else ACCEPTED

    def constrain(self, op: AnyExceeds, plan: Plan, context: LoweringContext) -> Iterable[Constraint]:
        """Any layout will do."""
        return ()

    def lower(self, op: AnyExceeds, plan: Plan, context: LoweringContext, build: Builder) -> None:
        """The program of the executing thread."""
        emit, thread = emitter(build, context, self.name)
        registers = context.registers[op.tile.buffer]
        exceeds = Buffer("exceeds", (), BOOL, Scope.VAR)
        build.emit(Alloc(exceeds, const(False, BOOL)))

        def compare(index: Expr) -> None:
            within = Load(registers, (index,), registers.dtype) <= const(op.limit, registers.dtype)  # false for NaN
            either = binary(BinaryOp.OR, Load(exceeds, (), BOOL), unary(UnaryOp.NOT, within))
            build.emit(Store(exceeds, (), either))

        emit.loop("q", int_const(registers.shape[0]) or 0, compare)
        answer, lanes = Var("answer", INT32), Var("any_thread", BOOL)
        number = VOTE_BARRIER + thread // WARPGROUP_THREADS
        arguments = (number, const(WARPGROUP_THREADS, INT32), Load(exceeds, (), BOOL))
        build.emit(CallStmt(BAR_SYNC_OR, arguments, result=answer))
        # ptxas takes a branch on the result of inline assembly for one of single threads, and serializes the gemm in it
        build.emit(CallStmt(ANY, (_ALL_LANES, binary(BinaryOp.NE, answer, const(0, INT32))), result=lanes))
        build.emit(Store(op.result.buffer, (), lanes))
