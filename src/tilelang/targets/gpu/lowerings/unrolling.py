"""Which loops of a thread are unrolled: those whose variables index register arrays, and short ones.

Takes the body of a loop, gives the loop. Invariant: an array that the assembler can keep in registers is indexed by
constants. Other loops are unrolled by a small factor, enough to keep several loads in flight: the time of the assembler
grows faster than linearly with the length of a program.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, const
from tilelang.ir.stmt import Atomic, Bind, For, ForKind, Stmt, Store
from tilelang.ir.visit import expressions, loads_of, variables_of, walk

_FEW = 16  # unrolled iterations of loops that need not be unrolled
_MAX_REGISTER_ARRAY_BYTES = 1024  # the assembler keeps no larger array in the registers of a thread


def may_lie_in_registers(array: Buffer) -> bool:
    """Whether the assembler can keep a thread's array in registers; larger ones go to local memory."""
    return array.scope is Scope.LOCAL and (array.storage.bytes or 0) <= _MAX_REGISTER_ARRAY_BYTES


def register_index_variables(body: Stmt) -> frozenset[Var]:
    """The variables that subscripts of register arrays depend on, directly or through bound index variables."""
    found: frozenset[Var] = frozenset()
    for stmt in reversed(list(walk(body))):  # uses before definitions
        if isinstance(stmt, Bind) and stmt.var in found:
            found |= variables_of(stmt.value)
        accesses = [e for root in expressions(stmt) for e in loads_of(root)]
        for access in (*accesses, stmt):
            if isinstance(access, Load | Store | Atomic) and may_lie_in_registers(access.buffer):
                found = found.union(*map(variables_of, access.indices))
    return found


def unrolled_for(
    var: Var, extent: int, body: Stmt, chosen: AbstractSet[Var], *, others: int = 1, loc: Loc = NOWHERE
) -> For:
    """`for var in range(extent)`, unrolled completely or by a factor.

    Args:
        var: The loop variable.
        extent: Number of iterations.
        body: The loop body.
        chosen: The variables that index register arrays; their loops are unrolled completely.
        others: The number of copies of the body that other unrolled loops create.
        loc: Source location of the loop.
    """
    whole = var in chosen or others * extent <= _FEW
    factor = None if whole else max(_FEW // others, 1)  # without a factor the assembler would choose one
    return For(var, const(0, INT32), const(extent, INT32), 1, ForKind.UNROLLED, body, unroll_factor=factor, loc=loc)
