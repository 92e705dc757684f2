"""Computes neighboring float16 in pairs where they are made of unsigned bit fields of one word, such as nibbles.

Takes unrolled loops that store to neighboring registers, gives loops that store two at a time:

    for v in unroll(8):                                for p in unroll(4):
        w = x[i + v // 2] >> v % 2 * 4 & 15        =>      y[2 * p : 2 * p + 2] =
        y[v] = (float16(w) - 8) * s                            mul_f16x2(half2_of_fields(x[i + p], ...), (s, s))

Where an outer loop says at which bits of a word fields stand, its iterations follow one another, so that these are
constants. By single elements the assembler joins halves of different pairs, and each pair waits for the one before.
Invariant: the same values in the same registers: fields are exact in float16, and all else is rounded as before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tilelang.analysis.access_width import Facts, vector_width
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.arith.simplify import simplify
from tilelang.dtypes import INT32, Kind, as_dtype
from tilelang.ir.buffer import Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Reinterpret, Var, cast, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, For, ForKind, Seq, Stmt, Store
from tilelang.ir.vector import pack
from tilelang.ir.visit import Rewriter, expressions, substitute, substitute_stmt, variables_of, walk, walk_expr
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.records import record
from tilelang.targets.nvidia.isa.half2 import FIELD_BITS, MAX_EXACT, PAIRED, UINT32, half2_of_fields, pair_bits

_HALF2 = as_dtype("float16x2")
_LANES = 2
_NOTHING = Domain()


@record(slots=True)
class _Field:
    """Bits of a word.

    Attributes:
        word: Where they are.
        shift: The number of the lowest bit.
        bits: How many there are.
        extended: Whether the highest one is a sign, so that they stand for another value.
    """

    word: Expr
    shift: int
    bits: int
    extended: bool


class _UnpackInPairs(Rewriter):
    """Unpacks fields at constant bits, of the loop around pairs, too; or those in words that are shifted first."""

    def __init__(self, *, shifted: bool) -> None:
        self._shifted = shifted

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For) or node.kind is not ForKind.UNROLLED:
            return self.rebuild_stmt(node)
        if (pairs := _paired(node, shifted=self._shifted)) is not None:
            return pairs
        rebuilt = self.rebuild_stmt(node)
        return rebuilt if self._shifted or rebuilt is not node else self._by_iterations(node) or node

    def _by_iterations(self, loop: For) -> Stmt | None:
        """The iterations of a loop one after another, where its variable says which bits the fields have; else None."""
        if int_const(loop.start) != 0 or loop.step != 1 or not _is_in_shifts(loop.var, loop.body):
            return None
        numbers = range(int_const(loop.stop) or 0)
        bodies = [substitute_stmt(loop.body, {loop.var: const(number, INT32)}) for number in numbers]
        unpacked = [self.visit(body) for body in bodies]
        parts = [stmt for body in unpacked if body is not None for stmt in statements_of(body)]
        if any(isinstance(stmt, Alloc | Bind) for stmt in parts):
            return None  # each iteration would define them again
        unchanged = any(after is before for before, after in zip(bodies, unpacked, strict=True))
        return None if unchanged or not parts else Seq(tuple(parts), loc=loop.loc)


def _is_in_shifts(var: Var, body: Stmt) -> bool:
    """Whether a variable is part of the amounts by which words are shifted."""
    used = (expr for stmt in walk(body) for value in expressions(stmt) for expr in walk_expr(value))
    return any(isinstance(expr, Binary) and expr.op is BinaryOp.SHR and var in variables_of(expr.b) for expr in used)


def _paired(loop: For, *, shifted: bool) -> Stmt | None:
    """The loop over pairs; None where its elements are not made of fields, or are no pairs."""
    parts = statements_of(loop.body)
    trips = int_const(loop.stop)
    if not parts or trips is None or trips % _LANES or int_const(loop.start) != 0 or loop.step != 1:
        return None
    *binds, store = parts
    if not isinstance(store, Store) or store.buffer.scope is not Scope.LOCAL or store.buffer.dtype != "float16":
        return None
    neighbors = vector_width(store.buffer, store.indices, loop.var, trips, _NOTHING, Facts())
    if store.value.dtype != "float16" or neighbors < _LANES:
        return None
    values: dict[Var, Expr] = {}
    for bind in binds:
        if not isinstance(bind, Bind):
            return None
        values[bind.var] = substitute(bind.value, values)
    value = substitute(store.value, values)
    if any(isinstance(e, Load) and e.buffer.storage is store.buffer.storage for e in walk_expr(value)):
        return None
    store = dataclasses.replace(
        store, value=value, indices=tuple(substitute(index, values) for index in store.indices)
    )
    number = Var(loop.var.name, INT32, index=True)
    if trips > _LANES and (body := _pair(store, loop.var, number * _LANES, shifted)) is not None:
        return dataclasses.replace(loop, var=number, stop=const(trips // _LANES, INT32), body=body)
    pairs = [_pair(store, loop.var, const(first, INT32), shifted) for first in range(0, trips, _LANES)]
    return None if None in pairs else Seq(tuple(pair for pair in pairs if pair is not None), loc=loop.loc)


def _pair(store: Store, var: Var, first: Expr, shifted: bool) -> Store | None:
    """The store of two elements at once, of the values `first` and `first + 1` of a variable; None without fields."""
    pairs = _Pairs(var, first, shifted)
    pair = pairs.of(store.value)
    if not pairs.unpacks:
        return None
    at = tuple(simplify(substitute(index, {var: first})) for index in store.indices)
    return dataclasses.replace(store, indices=at, value=Reinterpret(pair, _HALF2))


class _Pairs:
    """Makes pairs of expressions in a variable, of its values `first` and `first + 1`.

    Attributes:
        unpacks: Whether any of them was made of fields.
    """

    def __init__(self, var: Var, first: Expr, shifted: bool) -> None:
        self._var, self._first, self._shifted = var, first, shifted
        self.unpacks = False

    def of(self, expr: Expr) -> Expr:
        """The pair of a float16 expression."""
        match expr:
            case Const(value=value):
                return const(pair_bits(float(value), float(value)), UINT32)
            case Cast(a=number) if (fields := self._fields(number, 0)) is not None:
                return fields
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB as op, a=Cast(a=number), b=Const(value=value)):
                added = int(value) if float(value).is_integer() and abs(value) <= MAX_EXACT else 0
                added = added if op is BinaryOp.ADD else -added
                if added and (fields := self._fields(number, added)) is not None:
                    return fields
        if isinstance(expr, Binary) and expr.op in PAIRED and expr.dtype == "float16":
            return Call(PAIRED[expr.op], (self.of(expr.a), self.of(expr.b)), UINT32)
        low, high = self._lanes(expr)
        return Reinterpret(pack((low, low if _same(low, high) else high)), UINT32)

    def _lanes(self, expr: Expr) -> Iterator[Expr]:
        for lane in range(_LANES):
            yield simplify(substitute(expr, {self._var: self._first + lane}))

    def _fields(self, number: Expr, plus: int) -> Expr | None:
        """The pair of two fields of one word plus an integer; None where it is none, or they are not exact."""
        if not number.dtype.is_int:
            return None
        low, high = (_field(lane, self._shifted) for lane in self._lanes(number))
        if low is None or high is None or low.extended or high.extended or low.bits != high.bits:
            return None
        if not _same(low.word, high.word) or any(f.shift % FIELD_BITS + f.bits > FIELD_BITS for f in (low, high)):
            return None
        if (1 << low.bits) + abs(plus) > MAX_EXACT:
            return None
        word = low.word if low.word.dtype.kind is Kind.UINT else cast(low.word, as_dtype(f"uint{low.word.dtype.bits}"))
        self.unpacks = True
        return half2_of_fields(cast(word, UINT32), (low.shift, high.shift), low.bits, plus)


def _field(number: Expr, shifted: bool) -> _Field | None:
    """The bits of which an integer consists; None for one that consists of more than a word has.

    Args:
        number: The integer.
        shifted: Whether a word that is shifted by an amount that varies counts as a word.
    """
    dtype = number.dtype
    if not dtype.is_int or dtype.bits > 32 or dtype.bits < FIELD_BITS or number.is_index:
        return None
    match number:
        case Binary(op=BinaryOp.BITAND, a=a, b=b):
            a, b = (b, a) if isinstance(a, Const) else (a, b)
            mask, inner = int_const(b), _field(a, shifted)
            if mask is None or inner is None or mask <= 0 or mask & (mask + 1):
                return None
            bits = min(mask.bit_length(), inner.bits)
            return _Field(inner.word, inner.shift, bits, inner.extended and mask.bit_length() > inner.bits)
        case Binary(op=BinaryOp.SHR, a=a, b=b):
            amount, inner = int_const(b), _field(a, shifted)
            if amount is None and shifted and dtype.kind is Kind.UINT:
                return _Field(number, 0, dtype.bits, extended=False)
            if amount is None or inner is None or not 0 <= amount < inner.bits:
                return None
            return _Field(inner.word, inner.shift + amount, inner.bits - amount, inner.extended)
        case Cast(a=a) if a.dtype.is_int:
            inner = _field(a, shifted)
            if inner is None:
                return None
            if inner.extended and dtype.bits > inner.bits:
                return inner if dtype.kind is Kind.INT else None
            signed = dtype.kind is Kind.INT and inner.bits >= dtype.bits
            return _Field(inner.word, inner.shift, min(inner.bits, dtype.bits), signed)
        case Load():
            return _Field(number, 0, dtype.bits, dtype.kind is Kind.INT)
    return None


def _same(a: Expr, b: Expr) -> bool:
    """Whether two loads are of one element."""
    if not isinstance(a, Load) or not isinstance(b, Load) or a.buffer is not b.buffer or a.dtype != b.dtype:
        return same_expr(a, b)
    return all(same_expr(x, y) or proves(x == y, _NOTHING) for x, y in zip(a.indices, b.indices, strict=True))


def _converts_integers(stmt: Stmt) -> bool:
    """Whether a value in float16 may be made of fields."""
    if not isinstance(stmt, Bind | Store) or stmt.value.dtype != "float16":
        return False
    return any(isinstance(expr, Cast) and expr.a.dtype.is_int for expr in walk_expr(stmt.value))


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    if not any(map(_converts_integers, walk(func.body))):
        return func
    for shifted in (False, True):
        func = with_body(func, _UnpackInPairs(shifted=shifted).visit(func.body))
    return func


PASS = Pass(
    "unpack_in_pairs", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_VECTORIZED, Property.ACCESSES_UNPREDICATED),
)
