"""Conversions to operands of gemms as copies of their own, so that they alone wait for gemms that read the operand.

    for i, j in T.Parallel(M, N):                      for i, j in T.Parallel(M, N):
        S[i, j] = T.exp2(S[i, j] - top[i])                 S[i, j] = T.exp2(S[i, j] - top[i])
        P[i, j] = S[i, j]                          =>  T.copy(S, P)

    for i, j in T.Parallel(M, N):                      for i, j in T.Parallel(M, N):
        P[i, j] = T.exp2(S[i, j] - top[i])         =>      wide[i, j] = T.exp2(S[i, j] - top[i])
                                                       T.copy(wide, P)

Takes a parallel loop; gives what takes its place. Invariant: executed one after another, it computes the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from tilelang.analysis.accesses import accesses, storages
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Cast, Expr, Load
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Bind, ParallelLoop, Stmt, Store
from tilelang.ir.visit import jumps
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy


def with_separate_conversions(
    loop: ParallelLoop, operands: Collection[Buffer], added: list[Buffer]
) -> list[Stmt]:
    """The loop, and behind it the copies that convert what it computes for fragments among `operands`.

    Args:
        loop: A parallel loop.
        operands: The operands of gemms.
        added: Where to append the fragments of values that have none.
    """
    body = flat_statements(loop.body)
    if jumps(loop.body) or loop.layout is not None:
        return [loop]
    copies: list[Stmt] = []
    left: list[Stmt] = []
    for place, stmt in enumerate(body):
        left.append(stmt)
        if not isinstance(stmt, Store) or stmt.buffer not in operands or not _converts_whole(stmt, loop):
            continue
        assert isinstance(stmt.value, Cast)
        value = stmt.value.a
        source = _fragment_of(value, loop, body[place + 1 :])
        if source is None:
            source = Buffer(stmt.buffer.name, stmt.buffer.shape, value.dtype, Scope.FRAGMENT, loc=stmt.loc)
            added.append(source)
            left[-1] = dataclasses.replace(stmt, buffer=source, value=value)
        elif all(isinstance(other, Bind) for other in body if other is not stmt):
            continue  # the loop is a copy
        else:
            left.pop()
        copies.append(Copy(whole(source), whole(stmt.buffer), loc=stmt.loc))
    return [dataclasses.replace(loop, body=as_body(left, loop.body.loc)), *copies] if copies else [loop]


def _converts_whole(store: Store, loop: ParallelLoop) -> bool:
    """Whether a store converts a wider number for each element of a fragment that the loop uses nowhere else."""
    value, tile = store.value, store.buffer
    if not isinstance(value, Cast) or not _is_wider(value.a.dtype, tile.dtype) or tile.scope is not Scope.FRAGMENT:
        return False
    uses = [access for access in accesses(loop.body).all if access.buffer.storage is tile.storage]
    return len(uses) == 1 and tile.view_of is None and _is_element(store.indices, tile, loop)


def _is_wider(dtype: DType, other: DType) -> bool:
    return dtype.is_float and other.is_float and dtype.bits > other.bits


def _is_element(indices: Sequence[Expr], tile: Buffer, loop: ParallelLoop) -> bool:
    """Whether each iteration has an element of its own of a tile, and there are no others."""
    same = len(indices) == len(loop.vars) and all(map(same_expr, indices, loop.vars))
    return same and all(map(same_expr, tile.shape, loop.extents))


def _fragment_of(value: Expr, loop: ParallelLoop, later: Sequence[Stmt]) -> Buffer | None:
    """The fragment whose elements a value is, if later statements of the loop leave them as they are."""
    if not isinstance(value, Load) or value.buffer.scope is not Scope.FRAGMENT:
        return None
    if not _is_element(value.indices, value.buffer, loop):
        return None
    written = {storage for stmt in later for storage in storages(stmt).written}
    return None if value.buffer.storage in written else value.buffer
