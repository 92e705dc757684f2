"""Whether the iterations of a loop may run side by side, as the lanes of vector instructions.

Takes a loop's variable, its body and what is known around it; gives a `LaneVerdict`. Invariant: when the verdict is
yes, running the iterations in any interleaving gives the sequential result, provided that each reduction's element is
accumulated per lane and combined afterwards by its operator (floating-point `+` and `*` may be reassociated), and
that each private scalar has one copy per lane, of which the last iteration's remains.
"""

from __future__ import annotations

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
class LaneVerdict:
    """The answer for one loop.

    Attributes:
        independent: Whether iterations may run as lanes.
        reductions: Elements that iterations update by an associative operator.
        private: Mutable scalars from around the loop that each iteration writes before it reads them.
        reason: Why not, in a few words.
        loc: The place the reason speaks of.
    """

    independent: bool
    reductions: tuple[Reduction, ...] = ()
    private: tuple[Buffer, ...] = ()
    reason: str = ""
    loc: Loc = NOWHERE

    def __bool__(self) -> bool:
        return self.independent


def lanes(loop_var: Var, body: Stmt, domain: Domain, *, step: int = 1) -> LaneVerdict:
    """Whether iterations over `loop_var` may run as lanes of vector instructions.

    Args:
        loop_var: The loop's variable.
        body: The loop's body.
        domain: What is known in the body, the range of `loop_var` included.
        step: Distance of neighboring values of `loop_var`.
    """
    for stmt in walk(body):
        if not isinstance(stmt, _LANE_STATEMENTS):
            return LaneVerdict(False, reason=f"{type(stmt).__name__} needs one iteration at a time", loc=stmt.loc)
    found = accesses(body)
    return _Judge(loop_var, found, domain, step).verdict()


class _Judge:
    def __init__(self, loop_var: Var, found: Accesses, domain: Domain, step: int) -> None:
        self._var = loop_var
        self._found = found
        self._step = step
        self._compare = Comparison(found, domain)
        low, high = bounds(loop_var, domain)
        self._trips = None if low is None or high is None else max(0, (high - low) // abs(step) + 1)

    def verdict(self) -> LaneVerdict:
        """Looks at each piece of memory by itself."""
        reductions: list[Reduction] = []
        private: list[Buffer] = []
        for storage, storage_accesses in self._found.by_storage().items():
            if not any(a.write for a in storage_accesses):
                continue
            if _is_private(storage, storage_accesses):
                private.append(storage)
                continue
            reduced = self._reduction(storage_accesses)
            while reduced is not None:
                reductions.append(reduced)
                storage_accesses = [a for a in storage_accesses if not _updates(a, reduced)]
                reduced = self._reduction(storage_accesses)
            clash = self._clash(storage_accesses)
            if clash is not None:
                return LaneVerdict(
                    False, reason=f"iterations may share an element of '{clash.buffer.name}'", loc=clash.loc
                )
        return LaneVerdict(True, tuple(reductions), tuple(private))

    def _clash(self, storage_accesses: list[Access]) -> Access | None:
        """An access that may touch what another iteration writes."""
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
        """The one element that iterations only update, by one operator, and that nothing else can touch."""
        updates = [a for a in storage_accesses if a.update is not None]
        for first in updates:
            assert first.update is not None
            op, element = first.update.op, first.start
            if op == PICK or not self._fixed(element):
                continue
            found = Reduction(first.buffer, element, op)
            rest = [a for a in storage_accesses if not _updates(a, found)]
            if all(self._compare.never_meet(first, other, (self._var,)) for other in rest):
                return found
        return None

    def _fixed(self, indices: tuple[Expr, ...]) -> bool:
        """Whether an element is the same one throughout the loop, and can be named outside of it."""
        inside = {self._var, *self._found.defined}
        if any(isinstance(node, Var) and node in inside for index in indices for node in walk_expr(index)):
            return False
        return not any(self._compare.varies(term) for index in indices for term in self._compare.sum(index).terms)


def _is_private(storage: Buffer, storage_accesses: list[Access]) -> bool:
    """Whether a mutable scalar is surely written in an iteration before anything else happens to it."""
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
