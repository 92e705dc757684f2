"""Calls of instructions in the program being staged (level 3).

Takes instructions and operands, emits `CallStmt`s, gives their results. Invariant: a call stands inside a kernel, since
only there are threads to execute it.
"""

from __future__ import annotations

import math

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, ExprLike, Var, as_expr, cast, int_const
from tilelang.ir.stmt import CallStmt
from tilelang.isa.instruction import Instruction
from tilelang.language.stage import Hints, Stager, current


def inside_kernel(what: str) -> tuple[Stager, Hints]:
    """The stager, and what is known of the kernel around the statement being staged.

    Raises:
        ProgramError: There is no kernel around it.
    """
    stager = current(what)
    if stager.hints is None:
        raise ProgramError(f"{what}: stands outside of a kernel", hint="write it inside `with T.Kernel(...)`")
    return stager, stager.hints


def rank_in_cluster(what: str, rank: ExprLike) -> Expr:
    """The number of a block in its cluster.

    Raises:
        ProgramError: The cluster has no such block.
    """
    blocks = math.prod(inside_kernel(what)[1].cluster)
    number = int_const(as_expr(rank))
    if number is not None and not 0 <= number < blocks:
        raise ProgramError(
            f"{what}: there is no block {number} in a cluster of {blocks}",
            hint=f"write a number from 0 to {blocks - 1}" if blocks > 1 else "write T.Kernel(..., cluster_dims=2)",
        )
    return cast(as_expr(rank), INT32)


def emit_call(
    what: str,
    instruction: Instruction,
    *args: Expr | Region,
    reads: tuple[Region, ...] = (),
    writes: tuple[Region, ...] = (),
    name: str = "",
) -> Var | None:
    """Emits the call of an instruction; gives its result, if it has one.

    Args:
        what: The user's name for the call.
        instruction: What is called.
        args: Its operands.
        reads: What it reads of memory.
        writes: What it writes.
        name: Of the result, where the user assigns it to nothing; the family of the instruction without it.

    Raises:
        ProgramError: It stands outside of a kernel.
    """
    stager, _ = inside_kernel(what)
    result = None
    if instruction.result is not None:
        result = Var(stager.suggest(name or instruction.name.split("_")[0]), instruction.result)
    stager.emit(CallStmt(instruction, args, reads, writes, result, what))
    return result
