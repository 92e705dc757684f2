"""Barriers in shared memory as operands: those of a buffer, and those that are numbered.

Takes what the user writes, gives the place in memory.
"""

from __future__ import annotations

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr, int_const
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import current, is_mutable

Barrier = Expr | BufferProxy | int


def barrier_region(what: str, barrier: Barrier) -> Region:
    """The place of a barrier; a buffer of one barrier stands for that one.

    Raises:
        ProgramError: The operand is no barrier.
    """
    place: object = barrier
    if isinstance(barrier, BufferProxy) and barrier.buffer.scope is Scope.BARRIER and barrier.buffer.rank == 1:
        if int_const(barrier.buffer.shape[0]) != 1:
            raise ProgramError(
                f"{what}: '{barrier.name}' has several barriers", hint=f"say which: {barrier.name}[i]"
            )
        place = barrier[0]
    elif isinstance(barrier, int | Expr) and (not isinstance(barrier, Load) or is_mutable(barrier)):
        place = numbered_barrier(what, barrier)
    if not isinstance(place, Load) or place.buffer.scope is not Scope.BARRIER:
        raise ProgramError(
            f"{what}: expected a barrier, got {barrier!r:.60}", hint="allocate it with T.alloc_barrier, write bar[i]"
        )
    return Region(place.buffer, place.indices, (as_expr(1),))


def numbered_barrier(what: str, index: ExprLike) -> Expr:
    """A barrier of the kernel's list of them, by its number.

    Raises:
        ProgramError: There is no such list.
    """
    hints = current(what).hints
    if hints is None or hints.barriers is None:
        raise ProgramError(
            f"{what}: there is no list of barriers", hint="write T.create_list_of_mbarrier(128, 128) before"
        )
    element = BufferProxy(hints.barriers)[index]
    assert isinstance(element, Expr)
    return element
