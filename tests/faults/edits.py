"""Edits of statements from which faults of kernels for Hopper are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from seeded import Change, Swap

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Binary, Expr, as_expr, binary, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, walk_expr
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD
from tilelang.targets.nvidia.isa.cluster import mbarrier_arrive_remote
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE

ARRIVALS = (MBARRIER_ARRIVE, mbarrier_arrive_remote(), mbarrier_arrive_remote(release=True))


def calls(node: Stmt, *routines: object) -> bool:
    return isinstance(node, CallStmt) and node.routine in routines


def contain_call(node: Stmt, *routines: object) -> bool:
    return any(calls(s, *routines) for s in walk(node))


def with_argument(node: CallStmt, position: int, arg: Expr | Region) -> CallStmt:
    return dataclasses.replace(node, args=(*node.args[:position], arg, *node.args[position + 1 :]))


def with_offset(node: CallStmt, position: int, by: int) -> CallStmt:
    old = node.args[position]
    return with_argument(node, position, binary(BinaryOp.ADD, old, as_expr(by)) if old.is_index else old + by)


def without(*routines: object) -> Change:
    """The instruction is left out."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        if calls(node, *routines):
            yield None

    return change


def waits_for_fewer_groups(waits: Sequence[object]) -> Change:
    """A wait leaves one more group pending."""

    def change(node: Stmt) -> Iterator[Stmt | None]:
        for old, new in pairwise(waits):
            if calls(node, old):
                yield dataclasses.replace(node, routine=new)

    return change


def is_load(node: CallStmt) -> bool:
    return getattr(node.routine, "async_unit", None) is TMA_LOAD


def names_barrier(node: Stmt, name: str) -> bool:
    """Whether a statement uses a barrier whose name contains this."""
    regions = (a for s in walk(node) if isinstance(s, CallStmt) for a in s.args if isinstance(a, Region))
    return any(name in region.buffer.name for region in regions)


def reordered(node: Seq, old: int, new: int) -> Seq:
    body = list(node.body)
    body.insert(new, body.pop(old))
    return dataclasses.replace(node, body=tuple(body))


def with_smaller_modulus(expr: Expr) -> Iterator[Expr]:
    for e in walk_expr(expr):
        if isinstance(e, Binary) and e.op in (BinaryOp.FLOORMOD, BinaryOp.TRUNCMOD) and int_const(e.b) in (2, 3, 4):
            yield Swap(e, binary(e.op, e.a, as_expr(int_const(e.b) - 1))).expr(expr)


class Drop(Rewriter):
    def __init__(self, drops: Callable[[Stmt], bool]) -> None:
        self._drops = drops

    def stmt(self, node: Stmt) -> Stmt | None:
        return None if self._drops(node) else self.rebuild_stmt(node)
