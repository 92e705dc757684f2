"""Defines operands of wgmma that a loop keeps in registers anew for each gemm, so that ptxas keeps them apart.

    T.copy(Q_s, Q)                                   T.copy(Q_s, Q)
    for k in ...:                                    for k in ...:
        T.gemm(Q, K_s, S, transpose_B=True)     =>       renew Q; T.gemm(Q, K_s, S, transpose_B=True)
        T.copy(S, P)                                     T.copy(S, P)
        wait for V_s; T.gemm(P, V_s, acc)                wait for V_s; T.gemm(P, V_s, acc)

ptxas 12.9 and 13.0 may give `P` the registers of `Q`, without copies, where a loop does not write `Q` and a branch
stands between the computation of `P` and its gemm: the second iteration then multiplies `P` by `K_s`. ptxas 13.5 does
not. What an instruction defines in the loop gets registers of its own; a move would not do, since ptxas removes it.

Takes a tile-level function after `choose_lowerings`; writes `WgmmaPlan.renews_a`. Invariant: no value changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.accesses import storages
from tilelang.analysis.whole_stores import overwritten
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import For, Launch, ParallelLoop, Stmt, TileOp, While
from tilelang.ir.visit import Rewriter, sub_statements, walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan


def renew_held_operands(launch: Launch) -> Launch:
    """The launch in which gemms renew operands that a loop around them keeps beside others."""
    held: set[Gemm] = set()
    for loop in (s for s in walk(launch.body) if isinstance(s, For | While)):
        gemms = [s for s in walk(loop.body) if isinstance(s, Gemm) and _multiplies_registers(s)]
        if len({gemm.a.buffer.storage for gemm in gemms}) > 1:
            renewed = _renewed(loop)
            held.update(gemm for gemm in gemms if gemm.a.buffer.storage not in renewed)
    body = _Renew(held).visit(launch.body) if held else launch.body
    return launch if body is launch.body or body is None else dataclasses.replace(launch, body=body)


def _multiplies_registers(gemm: Gemm) -> bool:
    return isinstance(gemm.plan, WgmmaPlan) and gemm.plan.a is None


def _renewed(loop: For | While) -> set[Buffer]:
    """The storages that a statement of a loop overwrites with what may change from one iteration to the next."""
    reads: dict[Stmt, frozenset[Buffer]] = {}
    writers: dict[Buffer, list[Stmt]] = {}
    for step in _steps(loop.body):
        reads[step] = storages(step).read
        for storage in storages(step).written:
            writers.setdefault(storage, []).append(step)
    constant: set[Buffer] = set()  # what is computed from constants alone is computed before the loop

    def is_constant(storage: Buffer) -> bool:
        computed = all(storage in overwritten(step) and reads[step] <= constant for step in writers.get(storage, ()))
        return computed and storage.scope is not Scope.SHARED  # others fill shared tiles

    touched = set(writers).union(*reads.values())
    while found := {storage for storage in touched - constant if is_constant(storage)}:
        constant |= found
    return {
        storage
        for storage, steps in writers.items()
        if storage not in constant and any(storage in overwritten(step) for step in steps)
    }


def _steps(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that access memory, without those that only hold others."""
    if isinstance(stmt, TileOp | ParallelLoop) or not sub_statements(stmt):
        yield stmt
    else:
        for child in sub_statements(stmt):
            yield from _steps(child)


class _Renew(Rewriter):
    def __init__(self, gemms: set[Gemm]) -> None:
        self._gemms = gemms

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Gemm) and node in self._gemms:
            assert isinstance(node.plan, WgmmaPlan)
            return dataclasses.replace(node, plan=dataclasses.replace(node.plan, renews_a=True))
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, renew_held_operands)


PASS = Pass(
    "renew_held_operands",
    _run,
    Level.TILE,
    Level.TILE,
    requires=(Property.LOWERINGS_CHOSEN, Property.NO_PIPELINED_LOOPS, Property.OPERATORS_UNEXPANDED),
)
