"""Sequences of statements: taking bodies apart, and building sequences from what a pass made of them."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilelang.errors import Loc
from tilelang.ir.memoize import memoized
from tilelang.ir.stmt import Alloc, Bind, If, Seq, Stmt

T = TypeVar("T")


def statements_of(body: Stmt) -> tuple[Stmt, ...]:
    """The statements of a body: those of a sequence; any other statement is the only one."""
    return body.body if isinstance(body, Seq) else (body,)


def flat_statements(body: Stmt) -> list[Stmt]:
    """The statements of a body in program order, those of nested sequences inlined."""
    return [inner for stmt in body.body for inner in flat_statements(stmt)] if isinstance(body, Seq) else [body]


def effectful(body: Stmt) -> list[Stmt]:
    """The statements that `order` and `stage` of a pipelined loop count: all but allocations and names for values."""
    statements = statements_of(body)
    return [
        inner
        for stmt in statements
        if not isinstance(stmt, Alloc | Bind)
        for inner in (effectful(stmt) if isinstance(stmt, Seq) else [stmt])
    ]


def statements_behind(body: Stmt, stmt: Stmt) -> list[Stmt] | None:
    """What follows a statement of a body, or of branches in it, innermost first; None if it is not there."""
    if body is stmt:
        return []
    if isinstance(body, If):
        found = (statements_behind(branch, stmt) for branch in (body.then_body, body.else_body) if branch is not None)
        return next((inner for inner in found if inner is not None), None)
    statements = body.body if isinstance(body, Seq) else ()
    for position, child in enumerate(statements):
        if (inner := statements_behind(child, stmt)) is not None:
            return [*inner, *statements[position + 1 :]]
    return None


def with_statements(node: Seq, statements: Sequence[Stmt]) -> Seq:
    """The sequence with other statements; the same object if they are the same."""
    same = len(statements) == len(node.body) and all(map(operator.is_, statements, node.body))
    return node if same else Seq(tuple(statements), loc=node.loc)


def memoized_on_sequence(stmt: Stmt, name: str, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
    """`memoized`, for results that refer to the statements below: computed anew for any other than a sequence.

    Such a statement is itself among those that the result refers to.
    """
    return memoized(stmt, name, inputs, compute) if isinstance(stmt, Seq) else compute()


def with_location(stmt: Stmt, loc: Loc) -> Stmt:
    """The statement at a location, unless it has one."""
    return stmt if stmt.loc.file else dataclasses.replace(stmt, loc=loc)
