"""Expressions over the axes of a kernel as expressions over a block's tiles.

Keeps which expressions the block already holds in a tile, so that every later use reads the tile; and what such a tile
holds beyond the end of a ragged axis, so that masks that change nothing are left out.
"""

from __future__ import annotations

import enum
import math
import operator
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import Rewriter, variables_of
from tilelang.level1.fused import ZERO
from tilelang.level1.placement import Placement


class Unknown(enum.Enum):
    """What is known of a value that may be one or another."""

    FINITE = "a finite number"
    ANY = "a number, an infinity or NaN"


Beyond: TypeAlias = float | Unknown
"""A value beyond the end of ragged axes."""


class TileValues:
    """What a block holds on chip.

    Attributes:
        placement: Where the axes are.
        known: By the structure of an expression over the kernel's axes, another one over tiles; on-chip buffers are
            read at axes. The maps of inner loops come first.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.known: ChainMap[ExprKey, Expr] = ChainMap()
        self._beyond: dict[ExprKey, float] = {}

    def enter(self) -> None:
        """Begins a loop, whose tiles are gone after it."""
        self.known = self.known.new_child()

    def leave(self) -> None:
        """Ends a loop."""
        self.known = self.known.parents

    def hold(
        self, expr: Expr, buffer: Buffer, dims: Sequence[Var], *, stepwise: bool, beyond: float | None = None
    ) -> None:
        """Notes that a tile holds an expression.

        Args:
            expr: Over the axes of the kernel.
            buffer: The tile.
            dims: The axes that its dimensions are.
            stepwise: Whether the tile is gone after the current loop.
            beyond: What it holds beyond the end of ragged axes; None if it is not known.
        """
        maps = self.known.maps
        (maps[0] if stepwise else maps[-1])[expr_key(expr)] = read_tile(buffer, dims)
        if beyond is not None:
            self._beyond[expr_key(expr)] = beyond

    def tile_of(self, *exprs: Expr) -> Load | None:
        """The read of the tile that holds one of some expressions; None if there is no such tile."""
        for expr in exprs:
            known = self.known.get(expr_key(expr))
            if isinstance(known, Load):
                return known
        return None

    def dims(self, axes: Iterable[Expr]) -> tuple[Var, ...]:
        """Those of some axes along which the block has tiles, in the order of the kernel."""
        chosen = set(axes)
        places = self.placement.places.items()
        return tuple(axis for axis, place in places if axis in chosen and place.local is not None)

    def dims_of(self, expr: Expr) -> tuple[Var, ...]:
        """The axes along which an expression varies in a tile."""
        return self.dims(variables_of(expr))

    def localized(self, expr: Expr, *, in_tile: bool = False) -> Expr:
        """The expression over tiles, the variables of parallel loops over them, and blocks; or an index of a tile."""
        localizer = _Localizer(self)
        return localizer.in_tile(expr) if in_tile else localizer.expr(expr)

    # -- beyond the ends ------------------------------------------------------------------------------------------
    def beyond(self, expr: Expr, ragged: frozenset[Var]) -> Beyond:
        """The value where some ragged axis is beyond its end, if it is the same for all such places.

        Elements beyond the end of an array read as 0. What does not depend on the axes counts as finite.
        """
        known = self._beyond.get(expr_key(expr))
        if known is not None:
            return known
        found = self._derived(expr, ragged)
        depends = expr.dtype.is_float and not ragged.isdisjoint(variables_of(expr))
        return found if depends or found is not Unknown.ANY else Unknown.FINITE

    def _derived(self, expr: Expr, ragged: frozenset[Var]) -> Beyond:
        match expr:
            case Const(value=value):
                return float(value)
            case Load(indices=indices):
                outside = any(isinstance(index, Var) and index in ragged for index in indices)
                return 0.0 if outside and not expr.buffer.scope.on_chip and not self._is_result(expr) else Unknown.ANY
            case Cast(a=a):
                return self.beyond(a, ragged)
            case Select(a=a, b=b):
                x, y = self.beyond(a, ragged), self.beyond(b, ragged)
                return x if x == y else Unknown.FINITE if _is_finite(x) and _is_finite(y) else Unknown.ANY
            case Unary(op=UnaryOp.NEG, a=a):
                x = self.beyond(a, ragged)
                return x if isinstance(x, Unknown) else -x
            case Call(callee=callee, args=(a,)):
                return _of_function(callee.name, self.beyond(a, ragged))
            case Binary(op=op, a=a, b=b) if expr.dtype.is_float:
                x, y = self.beyond(a, ragged), self.beyond(b, ragged)
                if op is BinaryOp.DIV and y is Unknown.FINITE and not ragged.isdisjoint(variables_of(b)):
                    return Unknown.ANY  # it may be 0 there and nowhere else
                return _combined(op, x, y)
        return Unknown.ANY

    def _is_result(self, load: Load) -> bool:
        return expr_key(load) in self.known


_AT_ZERO = {"abs": 0.0, "erf": 0.0, "exp": 1.0, "exp2": 1.0, "__exp2": 1.0, "expm1": 0.0, "log1p": 0.0, "sin": 0.0,
            "cos": 1.0, "sqrt": 0.0, "tanh": 0.0}  # fmt: skip
_BOUNDED = {"cos", "erf", "sin", "tanh"}


def _is_finite(x: Beyond) -> bool:
    return x is Unknown.FINITE or not isinstance(x, Unknown) and math.isfinite(x)


def _of_function(name: str, x: Beyond) -> Beyond:
    """The value of a function."""
    if x == 0.0 and name in _AT_ZERO:
        return _AT_ZERO[name]
    if x == -math.inf and name in ("exp", "exp2", "__exp2"):
        return 0.0
    return Unknown.FINITE if name in _BOUNDED and _is_finite(x) else Unknown.ANY


def _combined(op: BinaryOp, x: Beyond, y: Beyond) -> Beyond:
    """The value of an operation on floats."""
    if Unknown.ANY in (x, y):
        return Unknown.ANY
    if op is BinaryOp.MUL and 0.0 in (x, y):
        return 0.0 if _is_finite(x) and _is_finite(y) else Unknown.ANY
    if op is BinaryOp.DIV and (y == 0.0 or x == 0.0):
        return Unknown.ANY if y == 0.0 else 0.0
    if isinstance(x, Unknown) or isinstance(y, Unknown):
        if _is_finite(x) and _is_finite(y):
            return Unknown.FINITE if op in _ARITHMETIC else Unknown.ANY
        infinite = x if isinstance(y, Unknown) else y
        return _with_infinity(op, infinite, on_left=infinite is x) if not isinstance(infinite, Unknown) else Unknown.ANY
    value = _ARITHMETIC[op](x, y) if op in _ARITHMETIC else math.nan
    return Unknown.ANY if math.isnan(value) else value


_ARITHMETIC: Mapping[BinaryOp, Callable[[float, float], float]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.sub,
    BinaryOp.MUL: operator.mul,
    BinaryOp.DIV: operator.truediv,
    BinaryOp.MAX: max,
    BinaryOp.MIN: min,
}


def _with_infinity(op: BinaryOp, infinite: float, *, on_left: bool) -> Beyond:
    """The value of an operation on an infinity and an unknown finite number."""
    if op in (BinaryOp.ADD, BinaryOp.SUB):
        return infinite if on_left or op is BinaryOp.ADD else -infinite
    if op in (BinaryOp.MAX, BinaryOp.MIN):
        return infinite if (infinite > 0) == (op is BinaryOp.MAX) else Unknown.FINITE
    return 0.0 if op is BinaryOp.DIV and not on_left else Unknown.ANY


def read_tile(buffer: Buffer, dims: Sequence[Var]) -> Load:
    """The element of a tile at axes; a tile without dimensions has one element."""
    return Load(buffer, tuple(dims) or (ZERO,), buffer.dtype)


class _Localizer(Rewriter):
    def __init__(self, values: TileValues) -> None:
        self._values = values

    def expr(self, node: Expr) -> Expr:
        places = self._values.placement.places
        if isinstance(node, Var):
            return places[node].point if node in places else node
        if isinstance(node, Const):
            return node
        known = self._values.known.get(expr_key(node))
        if known is not None:
            return known if known is node else self.expr(known)
        if isinstance(node, Load) and node.buffer.scope.on_chip:
            return Load(node.buffer, tuple(map(self.in_tile, node.indices)), node.dtype)
        return self.rebuild_expr(node)

    def in_tile(self, index: Expr) -> Expr:
        """The place along a dimension of a tile."""
        place = self._values.placement.places.get(index) if isinstance(index, Var) else None
        return index if place is None or place.local is None else place.local
