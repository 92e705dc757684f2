"""Finds the step of a softmax over rows that arrive in tiles, where a loop has it as reductions and parallel loops.

    T.copy(m, old)                                    the maxima before
    T.reduce_max(S, m, dim=1, clear=False)            and any statement that computes m from m and old; or to a tile of
                                                      its own, of which m[i] = T.max(old[i], tile[i])
    r[i] = T.exp2(old[i] * c - m[i] * c)              what older sums are multiplied by
    S[i, j] = T.exp2(S[i, j] * c - m[i] * c)          exponentials relative to the maximum
    T.reduce_sum(S, t, dim=1)
    total[i] = total[i] * r[i] + t[i]                 or a product, and a sum that is added to it
    T.copy(S, P)                                      optional: the weights may be S
    O[i, j] = O[i, j] * r[i]
    T.gemm(P, V, O)                                   not part of the step

Instead of the maxima before, the new ones may have a tile of their own, which is copied to m at the end.

Takes a loop; gives a `SoftmaxStep`. Invariant: the loop accesses m, old, r, t and total in no other statement, O and
the weights only in gemms after the step that add their product to O, and S otherwise only before the search for the
maximum. So O and total are sums of the same exponentials, relative to m, whatever m is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from tilelang.analysis.accesses import accesses, storages
from tilelang.analysis.defer_reductions import scaling_of
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, const, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import For, ParallelLoop, Stmt, Store
from tilelang.ir.visit import defined_variables, jumps, loads_of, variables_of, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce, ReduceOp
from tilelang.records import record

_ON_CHIP = (Scope.SHARED, Scope.FRAGMENT)
_MAXIMA = (BinaryOp.MAX, BinaryOp.FMAX)
_Answer = TypeVar("_Answer")


@record(slots=True, eq=False)
class SoftmaxStep:
    """A step of a softmax.

    Attributes:
        statements: Its statements, in program order.
        last: The statement in whose place all of them can be done: the last one, but for a copy of new maxima.
        search: The search for the largest score of each row.
        function: The name of the exponential, "exp" or "exp2".
        scale: What scores are multiplied by in it.
        scores: S.
        maximum: m.
        total: The running sums.
        output: O.
        converted: P; None if the scores are the weights.
        temporaries: The maxima before or the new ones, r and t.
    """

    statements: tuple[Stmt, ...]
    last: Stmt
    search: Reduce
    function: str
    scale: Expr
    scores: Buffer
    maximum: Buffer
    total: Buffer
    output: Buffer
    converted: Buffer | None
    temporaries: frozenset[Buffer]

    @property
    def weights(self) -> Buffer:
        """The exponentials that are multiplied by the values."""
        return self.converted or self.scores


@record(slots=True, eq=False)
class _Sums:
    """The addition of exponentials to the running sums.

    Attributes:
        statements: Its statements, in order.
        total: The running sums.
        temporary: The sums of a tile, if they have a tile.
    """

    statements: tuple[Stmt, ...]
    total: Buffer
    temporary: tuple[Buffer, ...] = ()


def softmax_step(loop: For) -> SoftmaxStep | None:
    """The step of a softmax that a loop takes in each of its iterations; None if there is none."""
    statements = flat_statements(loop.body)
    for search in statements:
        if isinstance(search, Reduce) and search.op is ReduceOp.MAX and _is_by_rows(search) and not jumps(loop.body):
            step = _Parts(statements, search).step()
            if step is not None and _is_invariant(step.scale, loop) and _stands_alone(step, statements):
                return step
    return None


def _is_invariant(scale: Expr, loop: For) -> bool:
    inside = {var for stmt in walk(loop) for var in defined_variables(stmt)}
    return not loads_of(scale) and not variables_of(scale) & inside


class _Parts:
    """Finds the statements of a step by the search for its maximum, each by those before it."""

    def __init__(self, statements: Sequence[Stmt], search: Reduce) -> None:
        self._statements, self._search = statements, search
        self._scores, self._largest = search.src.buffer, search.dst.buffer
        combined = self._only(lambda s: _maxima_with(s, self._largest))
        self._maximum = self._largest if combined is None else combined[1]

    def step(self) -> SoftmaxStep | None:
        """The step; None if a part is missing, or if their order computes something else."""
        scores, maximum = self._scores, self._maximum
        exponential = self._only(lambda s: _exponent(s, scores, scores, maximum))
        keep = self._only(lambda s: _copied(s, maximum))
        if exponential is None or keep is None:
            return None
        factor = self._only(lambda s: _factors(s, keep[1], maximum, exponential[1]))
        updates = self._updates(keep[1])
        if factor is None or not updates:
            return None
        rescale = self._only(lambda s: _scaled(s, factor[1], rank=2))
        sums = self._separate_sums(factor[1]) or self._scaled_sums(factor[1])
        if rescale is None or sums is None:
            return None
        convert = self._only(lambda s: _copied(s, scores))
        changes = [*updates, factor[0], exponential[0], *sums.statements, rescale[0]]
        changes += [] if convert is None else [convert[0]]
        if _are_in_order([keep[0], *changes], self._statements):
            changes, running = [keep[0], *changes], maximum
        elif _are_in_order([*changes, keep[0]], self._statements):
            running = keep[1]  # new maxima become those before
        else:
            return None
        return SoftmaxStep(
            tuple(s for s in self._statements if s in {keep[0], *changes}),
            max(changes, key=self._statements.index),
            self._search,
            *exponential[1],
            scores,
            running,
            sums.total,
            rescale[1],
            None if convert is None else convert[1],
            frozenset((self._largest, maximum, keep[1], factor[1], *sums.temporary)) - {running},
        )

    def _only(self, answer: Callable[[Stmt], _Answer | None]) -> tuple[Stmt, _Answer] | None:
        """The only statement of which a question has an answer, with the answer."""
        found = [(stmt, given) for stmt in self._statements if (given := answer(stmt)) is not None]
        return found[0] if len(found) == 1 else None

    def _updates(self, old: Buffer) -> list[Stmt]:
        """The statements that change the maximum; none if they depend on more than it and the search."""
        maxima = {self._maximum, self._largest}
        updates = [s for s in self._statements if maxima & storages(s).written]
        touched = {a.buffer for s in updates if s is not self._search for a in accesses(s).all}
        return updates if touched <= {*maxima, old} else []

    def _separate_sums(self, factors: Buffer) -> _Sums | None:
        """Sums of the tile, which a statement of their own adds."""
        part = self._only(lambda s: _row_sums(s, self._scores, clear=True))
        added = None if part is None else self._only(lambda s: _scaled_and_added(s, factors, part[1]))
        return None if part is None or added is None else _Sums((part[0], added[0]), added[1], (part[1],))

    def _scaled_sums(self, factors: Buffer) -> _Sums | None:
        """Running sums that are scaled, and to which the tile is added, or its sums are."""
        scaled = self._only(lambda s: _scaled(s, factors, rank=1))
        if scaled is None:
            return None
        added = self._only(lambda s: _row_sums(s, self._scores, clear=False))
        if added is not None:
            return _Sums((scaled[0], added[0]), added[1]) if scaled[1] is added[1] else None
        part = self._only(lambda s: _row_sums(s, self._scores, clear=True))
        by_row = None if part is None else self._only(lambda s: _added(s, scaled[1], part[1]))
        return None if part is None or by_row is None else _Sums((scaled[0], part[0], by_row[0]), scaled[1], (part[1],))


def _are_in_order(by_data: Sequence[Stmt], statements: Sequence[Stmt]) -> bool:
    """Whether different statements run in an order that computes the same as another one."""
    place = {stmt: number for number, stmt in enumerate(statements)}
    for number, stmt in enumerate(by_data):
        earlier = storages(stmt)
        for later in by_data[number + 1 :]:
            conflict = earlier.all & storages(later).written or earlier.written & storages(later).all
            if later is stmt or conflict and place[later] < place[stmt]:
                return False
    return True


def _stands_alone(step: SoftmaxStep, statements: Sequence[Stmt]) -> bool:
    """Whether the other statements of the loop use nothing of a step but the weights, as they may."""
    tiles = [step.scores, step.maximum, step.total, step.output, *step.temporaries]
    tiles += [] if step.converted is None else [step.converted]
    if len({tile.storage for tile in tiles}) < len(tiles):
        return False
    place = {stmt: number for number, stmt in enumerate(statements)}
    before, behind = place[step.search], place[step.last]
    own = set(step.statements)
    for stmt in statements:
        used = storages(stmt).all & set(tiles)
        makes_scores = used == {step.scores} and place[stmt] < before
        if used and stmt not in own and not makes_scores and not (place[stmt] > behind and _adds_weights(stmt, step)):
            return False
    return True


def _adds_weights(stmt: Stmt, step: SoftmaxStep) -> bool:
    """Whether a statement adds the product of the weights and another tile to the output, and does nothing else."""
    if not isinstance(stmt, Gemm) or not _is_whole(stmt.a, step.weights) or not _is_whole(stmt.c, step.output):
        return False
    plain = not (stmt.transpose_a or stmt.transpose_c or stmt.wait) and stmt.clear_accum is None
    return plain and stmt.b.buffer.storage not in (step.weights, step.output, step.scores)


# -- single statements ------------------------------------------------------------------------------------------------
def _is_tile(buffer: Buffer, rank: int) -> bool:
    """Whether a buffer is a tile on chip with memory of its own."""
    own = buffer.scope in _ON_CHIP and buffer.view_of is None and buffer.address is None
    return own and buffer.rank == rank and buffer.static_shape is not None


def _is_whole(region: Region, buffer: Buffer) -> bool:
    """Whether a region is all of a tile."""
    starts = all(int_const(start) == 0 for start in region.start)
    return region.buffer is buffer and starts and tuple(map(int_const, region.extent)) == buffer.static_shape


def _is_by_rows(reduce: Reduce) -> bool:
    """Whether rows of a tile are reduced to elements of another one."""
    src, dst = reduce.src.buffer, reduce.dst.buffer
    whole = _is_whole(reduce.src, src) and _is_whole(reduce.dst, dst) and reduce.dim in (1, -1)
    return whole and _is_tile(src, 2) and _is_tile(dst, 1) and src.dtype == dst.dtype


def _row_sums(stmt: Stmt, scores: Buffer, *, clear: bool) -> Buffer | None:
    """Where the sums of the rows of a tile go, or are added."""
    if not isinstance(stmt, Reduce) or stmt.op is not ReduceOp.SUM or stmt.clear is not clear:
        return None
    return stmt.dst.buffer if stmt.src.buffer is scores and _is_by_rows(stmt) else None


def _copied(stmt: Stmt, source: Buffer) -> Buffer | None:
    """Where a statement copies all of a tile, perhaps to another dtype."""
    if isinstance(stmt, Copy):
        target = stmt.dst.buffer
        whole = _is_whole(stmt.src, source) and _is_whole(stmt.dst, target) and not stmt.is_async
    else:
        store = _store(stmt, source.rank)
        target = source if store is None else store.buffer
        whole = store is not None and _is_element(_unconverted(store.value), source, store.indices)
    fits = _is_tile(target, source.rank) and target.static_shape == source.static_shape
    return target if whole and fits and target is not source else None


def _maxima_with(stmt: Stmt, largest: Buffer) -> Buffer | None:
    """Where a statement stores the maxima of a tile and another one."""
    store = _store(stmt, 1)
    if store is None or not isinstance(store.value, Binary) or store.value.op not in _MAXIMA:
        return None
    reads = any(_is_element(each, largest, store.indices) for each in (store.value.a, store.value.b))
    return store.buffer if reads and store.buffer is not largest else None


def _unconverted(expr: Expr) -> Expr:
    return expr.a if isinstance(expr, Cast) else expr


def _store(stmt: Stmt, rank: int) -> Store | None:
    """Return the store of a parallel loop to each element of a tile, if it does nothing else."""
    if not isinstance(stmt, ParallelLoop) or not isinstance(stmt.body, Store) or len(stmt.vars) != rank:
        return None
    store = stmt.body
    shape = tuple(map(int_const, stmt.extents))
    fits = _is_tile(store.buffer, rank) and shape == store.buffer.static_shape
    return store if fits and all(map(same_expr, store.indices, stmt.vars)) else None


def _is_element(expr: Expr, buffer: Buffer, indices: Sequence[Expr]) -> bool:
    if not isinstance(expr, Load) or expr.buffer is not buffer or expr.dtype != buffer.dtype:
        return False
    return len(expr.indices) == len(indices) and all(map(same_expr, expr.indices, indices))


def _exponent(stmt: Stmt, target: Buffer, x: Buffer, maximum: Buffer) -> tuple[str, Expr] | None:
    """The name and the scale of the exponential of x relative to the maximum that a statement stores to a tile."""
    store = _store(stmt, x.rank)
    if store is None or store.buffer is not target:
        return None
    call = _unless_nothing(store.value, maximum, store.indices[:1], exactly_zero=target is x)
    if not isinstance(call, Call) or call.callee.name not in ("exp", "exp2") or call.dtype != x.dtype:
        return None
    scale = _scale_of(call.args[0], x, maximum, store.indices)
    return None if scale is None else (call.callee.name, scale)


def _unless_nothing(expr: Expr, maximum: Buffer, row: Sequence[Expr], *, exactly_zero: bool) -> Expr:
    """What an expression is in rows with a score; in others it may be a constant.

    Sums that begin at 0 stay so in rows without scores, whatever they are multiplied by.

    Args:
        expr: The expression.
        maximum: The maxima; in rows without scores -inf.
        row: The index of a row.
        exactly_zero: Whether that constant has to be 0, as exponentials are there.
    """
    match expr:
        case Select(condition=Binary(op=BinaryOp.EQ, a=a, b=Const(value=limit)), a=Const(value=instead), b=other):
            fits = instead == 0 or not exactly_zero and math.isfinite(instead)
            return other if _is_element(a, maximum, row) and limit == -math.inf and fits else expr
        case Select(condition=Binary(op=BinaryOp.NE) as differs, a=a, b=b):
            same = dataclasses.replace(differs, op=BinaryOp.EQ)
            turned = dataclasses.replace(expr, condition=same, a=b, b=a)
            other = _unless_nothing(turned, maximum, row, exactly_zero=exactly_zero)
            return expr if other is turned else other
    return expr


def _scale_of(expr: Expr, x: Buffer, maximum: Buffer, indices: Sequence[Expr]) -> Expr | None:
    """The c of `x * c - m * c` and `(x - m) * c` at some indices."""
    match expr:
        case Binary(op=BinaryOp.SUB, a=a, b=b):
            minuend, subtrahend = scaled_element(a, x), scaled_element(b, maximum)
            if minuend is None or subtrahend is None or not same_expr(minuend[1], subtrahend[1]):
                return None
            own = _is_element(minuend[0], x, indices) and _is_element(subtrahend[0], maximum, indices[:1])
            return minuend[1] if own else None
        case Binary(op=BinaryOp.MUL, a=a, b=b):
            for difference, scale in ((a, b), (b, a)):
                inner = _scale_of(difference, x, maximum, indices) if isinstance(difference, Binary) else None
                if isinstance(inner, Const) and inner.value == 1:
                    return scale
        case Binary(op=BinaryOp.DIV, a=difference, b=Const(value=divisor)) if divisor:
            inner = _scale_of(difference, x, maximum, indices)
            return const(1 / divisor, x.dtype) if isinstance(inner, Const) and inner.value == 1 else None
    return None


def scaled_element(expr: Expr, buffer: Buffer) -> tuple[Load, Expr] | None:
    """The element and the c of `element * c`; 1 of the element alone."""
    if isinstance(expr, Load) and expr.buffer is buffer:
        return expr, const(1, buffer.dtype)
    if isinstance(expr, Binary) and expr.op is BinaryOp.MUL:
        for element, scale in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(element, Load) and element.buffer is buffer:
                return element, scale
    return None


def _factors(stmt: Stmt, old: Buffer, maximum: Buffer, exponent: tuple[str, Expr]) -> Buffer | None:
    """Where a statement stores what sums relative to the maximum before are multiplied by."""
    store = _store(stmt, 1)
    found = None if store is None else _exponent(stmt, store.buffer, old, maximum)
    if store is None or found is None or store.buffer in (old, maximum):
        return None
    return store.buffer if found[0] == exponent[0] and same_expr(found[1], exponent[1]) else None


def _scaled(stmt: Stmt, factors: Buffer, rank: int) -> Buffer | None:
    """The tile whose rows a statement multiplies by factors."""
    scaling = scaling_of(stmt) if isinstance(stmt, ParallelLoop) else None
    if scaling is None or not _is_tile(scaling.buffer, rank):
        return None
    return scaling.buffer if _is_element(scaling.factor, factors, scaling.nest.vars[:1]) else None


def _added(stmt: Stmt, total: Buffer, part: Buffer) -> Buffer | None:
    """The tile of sums to whose elements a statement adds those of another one."""
    store = _store(stmt, 1)
    if store is None or store.buffer is not total or not isinstance(store.value, Binary):
        return None
    if store.value.op is not BinaryOp.ADD:
        return None
    pairs = ((store.value.a, store.value.b), (store.value.b, store.value.a))
    fits = any(_is_element(a, total, store.indices) and _is_element(b, part, store.indices) for a, b in pairs)
    return total if fits else None


def _scaled_and_added(stmt: Stmt, factors: Buffer, added: Buffer) -> Buffer | None:
    """The tile of which a statement multiplies each element by a factor, and adds another tile."""
    store = _store(stmt, 1)
    if not isinstance(stmt, ParallelLoop) or store is None:
        return None
    if not isinstance(store.value, Binary) or store.value.op is not BinaryOp.ADD:
        return None
    for product, other in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if _is_element(other, added, store.indices):
            scaled = dataclasses.replace(stmt, body=dataclasses.replace(store, value=product))
            return _scaled(scaled, factors, rank=1)
    return None
