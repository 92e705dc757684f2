"""Parallel loops that are asynchronous copies: their last statement is a store marked asynchronous."""

from __future__ import annotations

from tilelang.ir.stmt import ParallelLoop, Seq, Stmt, Store


def asynchronous_store(stmt: Stmt) -> Store | None:
    """The store of a parallel loop that is an asynchronous copy; None for other statements."""
    if not isinstance(stmt, ParallelLoop):
        return None
    last = stmt.body
    while isinstance(last, Seq) and last.body:
        last = last.body[-1]
    return last if isinstance(last, Store) and last.asynchronous else None
