"""Legality of running the iterations of a loop as lanes of vector instructions.

Takes a loop's variable, its body and the facts around it; gives a `LaneLegality`. Invariant: if it is legal, any
interleaving of the iterations gives the sequential result, provided that each reduction is accumulated per lane and
combined afterwards by its operator (floating-point `+` and `*` may be reassociated), and that each private scalar has
one copy per lane, of which the last iteration's is live-out.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.analysis.accesses import Access, Accesses, accesses
from tilelang.analysis.reductions import PICK
from tilelang.analysis.subscripts import Comparison
from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.errors import NOWHERE, Loc
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Alloc, Bind, For, If, ParallelLoop, Reduction, Seq, Stmt, Store
from tilelang.ir.visit import walk, walk_expr
from tilelang.records import record

_LANE_STATEMENTS = (Seq, Bind, Alloc, Store, If, For, ParallelLoop)


@record(slots=True)
class LaneLegality:
    """The result for one loop.

    Attributes:
        independent: Whether iterations may run as lanes of vector instructions.
        reductions: Elements that iterations update by an associative operator.
        private: Mutable scalars from outside of the loop that each iteration writes before it reads them.
        reason: Why not.
        loc: The location of the reason.
    """

    independent: bool
    reductions: tuple[Reduction, ...] = ()
    private: tuple[Buffer, ...] = ()
    reason: str = ""
    loc: Loc = NOWHERE

    def __bool__(self) -> bool:
        return self.independent


def lane_legality(
    loop_var: Var, body: Stmt, domain: Domain, *, step: int = 1, among: Set[Buffer] | None = None
) -> LaneLegality:
    """Whether iterations over `loop_var` may run as lanes of vector instructions.

    Args:
        loop_var: The loop's variable.
        body: The loop's body.
        domain: Facts that hold in the body, with the range of `loop_var`.
        step: The step of `loop_var`.
        among: The storages to look at; all without it.
    """
    for stmt in walk(body):
        if not isinstance(stmt, _LANE_STATEMENTS):
            return LaneLegality(False, reason=f"{type(stmt).__name__} needs one iteration at a time", loc=stmt.loc)
    found = accesses(body)
    return _Checker(loop_var, found, domain, step).legality(among)


class _Checker:
    def __init__(self, loop_var: Var, found: Accesses, domain: Domain, step: int) -> None:
        self._var = loop_var
        self._found = found
        self._step = step
        self._compare = Comparison(found, domain)
        low, high = bounds(loop_var, domain)
        self._trips = None if low is None or high is None else max(0, (high - low) // abs(step) + 1)

    def legality(self, among: Set[Buffer] | None) -> LaneLegality:
        """Checks the accesses of each storage, or of those given."""
        reductions: list[Reduction] = []
        private: list[Buffer] = []
        for storage, storage_accesses in self._found.by_storage().items():
            if not any(a.write for a in storage_accesses) or among is not None and storage not in among:
                continue
            if _is_private(storage, storage_accesses):
                private.append(storage)
                continue
            reduced = self._reduction(storage_accesses)
            while reduced is not None:
                reductions.append(reduced)
                storage_accesses = [a for a in storage_accesses if not _updates(a, reduced)]
                reduced = self._reduction(storage_accesses)
            conflict = self._find_conflict(storage_accesses)
            if conflict is not None:
                return LaneLegality(
                    False, reason=f"iterations may share an element of '{conflict.buffer.name}'", loc=conflict.loc
                )
        return LaneLegality(True, tuple(reductions), tuple(private))

    def _find_conflict(self, storage_accesses: list[Access]) -> Access | None:
        """An access that may conflict with a write of another iteration."""
        for write in storage_accesses:
            if not write.write:
                continue
            for other in storage_accesses:
                if other.write and other.position < write.position:
                    continue
                if not self._compare.disjoint(write, other, self._var, self._trips, step=self._step):
                    return other
        return None

    def _reduction(self, storage_accesses: list[Access]) -> Reduction | None:
        """The element that iterations only update, by one operator, and that no other access may alias."""
        updates = [a for a in storage_accesses if a.update is not None]
        for first in updates:
            assert first.update is not None
            op, element = first.update.op, first.start
            if op == PICK or not self._fixed(element):
                continue
            found = Reduction(first.buffer, element, op)
            rest = [a for a in storage_accesses if not _updates(a, found)]
            if all(self._compare.never_alias(first, other, (self._var,)) for other in rest):
                return found
        return None

    def _fixed(self, indices: tuple[Expr, ...]) -> bool:
        """Whether the subscripts are loop-invariant and visible outside of the loop."""
        inside = {self._var, *self._found.defined}
        if any(isinstance(node, Var) and node in inside for index in indices for node in walk_expr(index)):
            return False
        return not any(self._compare.varies(term) for index in indices for term in self._compare.sum(index).terms)


def _is_private(storage: Buffer, storage_accesses: list[Access]) -> bool:
    """Whether every iteration writes a mutable scalar before any other access."""
    if storage.rank != 0 or any(a.buffer is not storage for a in storage_accesses):
        return False
    first = storage_accesses[0]
    return first.write and first.update is None and not first.context.uncertain and not first.context.conditions()


def _updates(access: Access, reduction: Reduction) -> bool:
    """Whether the access is part of an update of the reduction's element by its operator."""
    return (
        access.update is not None
        and access.update.op == reduction.op
        and access.buffer is reduction.buffer
        and _same_element(access.start, reduction.indices)
    )


def _same_element(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
    return all(same_expr(x, y) for x, y in zip(a, b, strict=True))
