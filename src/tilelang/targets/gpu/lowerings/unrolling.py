"""Which loops of the executing thread are unrolled: those whose variables choose registers, and short ones.

Takes the body of a loop, gives the loop. Invariant: an array that the assembler can keep in registers is indexed by
constants. Beyond that few iterations are written out, enough to have loads in flight: what the assembler takes for a
program grows faster than its length.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from tilelang.dtypes import INT32
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, const
from tilelang.ir.stmt import Atomic, Bind, For, ForKind, Stmt, Store
from tilelang.ir.visit import expressions, variables_of, walk, walk_expr

_FEW = 16  # iterations that are written out although they need not be
_MOST_BYTES = 1024  # of an array of which all but a few elements may lie in registers


def may_lie_in_registers(array: Buffer) -> bool:
    """Whether the assembler can keep an array of a thread in registers; larger ones lie in local memory."""
    return array.scope is Scope.LOCAL and (array.storage.bytes or 0) <= _MOST_BYTES


def choosing(body: Stmt) -> frozenset[Var]:
    """The variables that choose elements of arrays in registers, by names of index arithmetic as well."""
    found: frozenset[Var] = frozenset()
    for stmt in reversed(list(walk(body))):  # names behind the values that they stand for
        if isinstance(stmt, Bind) and stmt.var in found:
            found |= variables_of(stmt.value)
        accesses = [e for root in expressions(stmt) for e in walk_expr(root) if isinstance(e, Load)]
        for access in (*accesses, stmt):
            if isinstance(access, Load | Store | Atomic) and may_lie_in_registers(access.buffer):
                found = found.union(*map(variables_of, access.indices))
    return found


def counted(
    var: Var, extent: int, body: Stmt, chosen: AbstractSet[Var], *, others: int = 1, loc: Loc = NOWHERE
) -> For:
    """`for var in range(extent)`, unrolled as far as its body asks for.

    Args:
        var: The loop's variable.
        extent: How many iterations there are.
        body: What one does.
        chosen: The variables that choose registers.
        others: How often other loops write out what an iteration does.
        loc: The place of the loop.
    """
    whole = var in chosen or others * extent <= _FEW
    factor = None if whole else max(_FEW // others, 1)  # without a number the assembler would take one of its own
    return For(var, const(0, INT32), const(extent, INT32), 1, ForKind.UNROLLED, body, unroll_factor=factor, loc=loc)
