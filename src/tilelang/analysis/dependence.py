"""Detects iterations of a `T.Parallel` loop that provably depend on each other.

Takes a `ParallelLoop` and the facts around it; raises `ProgramError` with both accesses. Invariant: an error names two
existing iterations that certainly execute the two accesses, and whose order determines the result. Whatever cannot be
proven (data-dependent conditions or subscripts, views, memory that an iteration may have written before it reads it)
is accepted, and so are buffers declared sequential.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.subscripts import Comparison
from tilelang.arith.affine import Sum
from tilelang.arith.domain import Domain
from tilelang.errors import Note, ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import KeyedExpr
from tilelang.ir.expr import Const, Expr, Load, Number, Var, const, int_const
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Break, For, ParallelLoop, Stmt, Store, While
from tilelang.ir.visit import sub_statements, substitute
from tilelang.records import record

_MANY = 1 << 30  # iterations of a dimension whose extent is not known
_SCRATCH = (Scope.VAR, Scope.LOCAL)

Point = Mapping[Var, int]


def check_parallel(loop: ParallelLoop, domain: Domain) -> None:
    """Raises if iterations of a loop provably depend on each other.

    Args:
        loop: The loop.
        domain: Facts that hold around it.

    Raises:
        ProgramError: A dependence that is not an associative update, or a `break`.
    """
    _check_break(loop.body, loop)
    inside = domain
    for var, extent in zip(loop.vars, loop.extents, strict=True):
        inside = inside.with_loop(var, 0, extent)
    checker: _Checker | None = None
    found = accesses(loop.body)
    for storage, storage_accesses in found.by_storage().items():
        if not any(a.write for a in storage_accesses) or any(a.buffer is not storage for a in storage_accesses):
            continue
        if storage.sequential:
            continue
        operators = {None if a.update is None else a.update.op for a in storage_accesses}
        if len(operators) == 1 and None not in operators:
            continue
        if checker is None:
            checker = _Checker(loop, Comparison(found, inside))
        checker.check(storage_accesses)


def _check_break(stmt: Stmt, loop: ParallelLoop) -> None:
    if isinstance(stmt, Break):
        raise ProgramError(
            "break: T.Parallel runs all its iterations, in no particular order",
            loc=stmt.loc,
            notes=(Note("the loop is here", loop.loc),),
            hint="write `for ... in T.serial(...)` to leave the loop early",
        )
    if not isinstance(stmt, For | While | ParallelLoop):
        for child in sub_statements(stmt):
            _check_break(child, loop)


@record(slots=True)
class _Conflict:
    """A conflict: two accesses to one element in two different iterations."""

    first: Access
    second: Access
    at_first: Point
    at_second: Point


class _Checker:
    def __init__(self, loop: ParallelLoop, compare: Comparison) -> None:
        self._loop = loop
        self._compare = compare
        self._extents = [int_const(extent) for extent in loop.extents]

    def check(self, storage_accesses: list[Access]) -> None:
        """Checks the accesses to one storage for dependences."""
        writes = [a for a in storage_accesses if a.write and not a.atomic]
        reads = [a for a in storage_accesses if not a.write and not a.atomic]
        for read in reads:
            if self._may_be_fresh(read, writes):
                continue
            for write in writes:
                if read.update is not None and write.update is not None and read.update.op == write.update.op:
                    continue
                conflict = self._find_conflict(write, read)
                if conflict is not None:
                    raise self._read_error(conflict)
        if reads or not writes or writes[0].buffer.scope in _SCRATCH:
            return
        final = [a for a in writes if self._is_final(a, writes)]
        for i, first in enumerate(final):
            for second in final[i:]:
                conflict = self._find_conflict(first, second)
                if conflict is not None and self._values_differ(conflict):
                    raise self._write_error(conflict)

    def _may_be_fresh(self, read: Access, writes: list[Access]) -> bool:
        """Whether an iteration may have written the element itself before it reads it."""
        around = set(read.context.loops())
        return any(
            (write.position < read.position or not around.isdisjoint(write.context.loops()))
            and not self._compare.never_alias(write, read, ())
            for write in writes
            if write.update is None  # an update uses the previous value
        )

    def _is_final(self, write: Access, writes: list[Access]) -> bool:
        """Whether nothing overwrites the element in the same iteration."""
        later = [a for a in writes if a.position > write.position]
        return not write.context.loops() and all(self._compare.never_alias(write, other, ()) for other in later)

    # -- two iterations -------------------------------------------------------------------------------------
    def _find_conflict(self, first: Access, second: Access) -> _Conflict | None:
        """Two different iterations in which the accesses certainly have an element in common."""
        if first.extent is not None or second.extent is not None:
            return None
        if self._always_disjoint(first, second):
            return None
        for at_first in self._corners():
            for at_second in self._partners(first, second, at_first):
                if self._coincide(first, second, at_first, at_second):
                    return _Conflict(first, second, at_first, at_second)
        return None

    def _always_disjoint(self, first: Access, second: Access) -> bool:
        """Whether iterations that differ in any variable access different elements; a fast path for the common case."""
        return all(
            extent == 1 or self._compare.disjoint(first, second, var, extent, others=self._loop.vars)
            for var, extent in zip(self._loop.vars, self._extents, strict=True)
        )

    def _corners(self) -> Iterator[Point]:
        """Sample iterations near the ends of the loop."""
        if any(extent is not None and extent < 1 for extent in self._extents):
            return
        sizes = [_MANY if extent is None else extent for extent in self._extents]
        seen = set()
        for place in (0, 1, 2, -1):
            values = tuple(min(place, n - 1) if place >= 0 else 2 if n == _MANY else n - 1 for n in sizes)
            if values not in seen:
                seen.add(values)
                yield dict(zip(self._loop.vars, values, strict=True))

    def _partners(self, first: Access, second: Access, at_first: Point) -> Iterator[Point]:
        """Iterations in which `second` may access what `first` accesses in iteration `at_first`."""
        known = self._at(at_first)
        gaps = []
        for f, g in zip(self._compare.sums(first), self._compare.sums(second), strict=True):
            gaps.append((self._insert(f, known), g))
        yield from self._solutions(gaps, at_first)
        for var in self._loop.vars:
            for step in (1, -1):
                yield {**at_first, var: at_first[var] + step}

    def _solutions(self, gaps: list[tuple[Sum, Sum]], at_first: Point) -> Iterator[Point]:
        """Solves each dimension for one variable, with the others unchanged."""
        solved = dict(at_first)
        for target, subscript in gaps:
            for var in self._loop.vars:
                factor = subscript.terms.get((KeyedExpr(var),), 0)
                if not factor:
                    continue
                others = subscript.plus(Sum({(KeyedExpr(var),): factor}, 0), -1)
                gap = target.plus(self._insert(others, self._at(solved)), -1)
                if gap.terms or gap.constant % factor:
                    continue
                solved[var] = gap.constant // factor
                break
        yield solved
        for var in self._loop.vars:
            for step in (1, -1):
                yield {**solved, var: solved[var] + step}

    def _coincide(self, first: Access, second: Access, at_first: Point, at_second: Point) -> bool:
        if all(at_first[v] == at_second[v] for v in self._loop.vars) or not self._exists(at_second):
            return False
        inner = _first_iterations(first) | _first_iterations(second)
        here, there = self._at({**inner, **at_first}), self._at({**inner, **at_second})
        if not self._happens(first, here) or not self._happens(second, there):
            return False
        for extent, a, b in zip(first.buffer.shape, first.start, second.start, strict=True):
            x = self._compare.sum(self._resolved(a, here))
            y = self._compare.sum(self._resolved(b, there))
            gap = x.plus(y, -1)
            if gap.terms or gap.constant or any(self._compare.varies(term) for term in x.terms):
                return False
            if not x.terms and not 0 <= x.constant < (int_const(extent) or _MANY):
                return False
        return True

    def _values_differ(self, conflict: _Conflict) -> bool:
        """Whether the two writes provably store different values."""
        one = self._stored(conflict.first, conflict.at_first)
        other = self._stored(conflict.second, conflict.at_second)
        both_nan = one != one and other != other
        return one is not None and other is not None and one != other and not both_nan

    def _stored(self, access: Access, point: Point) -> Number | None:
        """The number stored in this iteration, or None if it is not known."""
        if not isinstance(access.stmt, Store):
            return None
        value = self._resolved(access.stmt.value, self._at({**_first_iterations(access), **point}))
        return value.value if isinstance(value, Const) else None

    def _exists(self, point: Point) -> bool:
        return all(
            0 <= point[var] < (_MANY if extent is None else extent)
            for var, extent in zip(self._loop.vars, self._extents, strict=True)
        )

    def _happens(self, access: Access, point: Mapping[Var, Expr]) -> bool:
        """Whether the access is certainly executed in this iteration."""
        if access.context.uncertain:
            return False
        for condition in access.context.conditions():
            value = self._resolved(condition, point)
            if not isinstance(value, Const) or not value.value:
                return False
        return True

    # -- putting numbers in ---------------------------------------------------------------------------------
    @staticmethod
    def _at(point: Point) -> dict[Var, Expr]:
        return {var: const(value, var.dtype) for var, value in point.items()}

    def _resolved(self, expr: Expr, point: Mapping[Var, Expr]) -> Expr:
        """The expression in one iteration, with bindings of the body inlined."""
        values = self._compare.found.values
        while True:
            new = substitute(expr, {**values, **point})
            if new is expr:
                return expr
            expr = new

    def _insert(self, linear: Sum, point: Mapping[Var, Expr]) -> Sum:
        result = linear
        for var, value in point.items():
            key = (KeyedExpr(var),)
            factor = linear.terms.get(key, 0)
            if factor:
                result = result.plus(Sum({key: factor}, 0), -1).plus(Sum({}, factor * (int_const(value) or 0)))
        return result

    # -- messages -------------------------------------------------------------------------------------------
    def _read_error(self, conflict: _Conflict) -> ProgramError:
        writer, reader = self._iteration(conflict.at_first), self._iteration(conflict.at_second)
        return ProgramError(
            f"T.Parallel: iteration {reader} reads '{_element(conflict.second)}', which iteration {writer} writes",
            loc=conflict.second.loc,
            notes=(Note(f"it is written as '{_element(conflict.first)}' here", conflict.first.loc), *self._loop_note()),
            hint=self._hint(),
        )

    def _write_error(self, conflict: _Conflict) -> ProgramError:
        one, other = self._iteration(conflict.at_first), self._iteration(conflict.at_second)
        same = conflict.first is conflict.second
        notes = () if same else (Note("the other value is written here", conflict.second.loc),)
        return ProgramError(
            f"T.Parallel: iterations {one} and {other} write different values to '{_element(conflict.first)}'",
            loc=conflict.first.loc,
            notes=(*notes, *self._loop_note()),
            hint=self._hint(),
        )

    def _loop_note(self) -> tuple[Note, ...]:
        return (Note("the loop is here", self._loop.loc),) if self._loop.loc.file else ()

    def _hint(self) -> str:
        names = ", ".join(v.name for v in self._loop.vars)
        extents = ", ".join(to_text(e) for e in self._loop.extents)
        ordered = "T.serial" if len(self._loop.vars) == 1 else "T.grid"
        return f"if iterations must run in order, write `for {names} in {ordered}({extents}):`"

    def _iteration(self, point: Point) -> str:
        values = [f"{v.name} = {point[v]}" for v in self._loop.vars]
        return values[0] if len(values) == 1 else f"({', '.join(values)})"


def _element(access: Access) -> str:
    return to_text(Load(access.buffer, access.start, access.buffer.dtype))


def _first_iterations(access: Access) -> dict[Var, int]:
    """The first value of each loop inside of the body that surrounds the access, where known."""
    values: dict[Var, int] = {}
    for loop in access.context.loops():
        match loop:
            case For(var=var, start=start):
                first = int_const(start)
                if first is not None:
                    values[var] = first
            case ParallelLoop(vars=variables):
                values.update(dict.fromkeys(variables, 0))
    return values
