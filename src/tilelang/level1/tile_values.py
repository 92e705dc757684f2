"""Translates expressions over the axes of a kernel to expressions over a block's tiles.

Records which expressions the block already holds in tiles, so that later uses read the tile, and the padding of such a
tile past the end of a ragged axis, so that redundant masks are left out.
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
    """What is known of padding that has no single value."""

    FINITE = "a finite number"
    ANY = "a number, an infinity or NaN"


Padding: TypeAlias = float | Unknown
"""The value of an expression past the end of ragged axes."""


class TileValues:
    """The tiles that a block holds on chip.

    Attributes:
        placement: Where the axes are.
        known: By the structure of an expression over the kernel's axes, the read of the tile that holds it, at axes.
            The maps of inner loops come first.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.known: ChainMap[ExprKey, Expr] = ChainMap()
        self._padding: ChainMap[ExprKey, float] = ChainMap()  # of what tiles of these maps hold

    def enter(self) -> None:
        """Begins the body of a loop."""
        self.known = self.known.new_child()
        self._padding = self._padding.new_child()

    def leave(self) -> None:
        """Ends the body of a loop, whose tiles later code does not see."""
        self.known = self.known.parents
        self._padding = self._padding.parents

    def hold(
        self, expr: Expr, buffer: Buffer, dims: Sequence[Var], *, loop_variant: bool, padding: float | None = None
    ) -> None:
        """Records that a tile holds an expression.

        Args:
            expr: Over the axes of the kernel.
            buffer: The tile.
            dims: The axes that its dimensions are.
            loop_variant: Whether the tile is valid in the body of the current loop only.
            padding: Its value past the end of ragged axes; None if it is not known.
        """
        place = 0 if loop_variant else -1
        self.known.maps[place][expr_key(expr)] = read_tile(buffer, dims)
        if padding is not None:
            self._padding.maps[place][expr_key(expr)] = padding

    def tile_of(self, *exprs: Expr) -> Load | None:
        """The read of the tile that holds one of some expressions; None if there is no such tile."""
        for expr in exprs:
            known = self.known.get(expr_key(expr))
            if isinstance(known, Load):
                return known
        return None

    def dims(self, axes: Iterable[Expr]) -> tuple[Var, ...]:
        """Those of some axes that have tiles, in the order of the kernel."""
        chosen = set(axes)
        places = self.placement.places.items()
        return tuple(axis for axis, place in places if axis in chosen and place.local is not None)

    def dims_of(self, expr: Expr) -> tuple[Var, ...]:
        """The axes along which an expression varies in a tile."""
        return self.dims(variables_of(expr))

    def localized(self, expr: Expr, *, in_tile: bool = False) -> Expr:
        """The expression over tiles and the variables of loops and blocks; `in_tile` gives an index of a tile."""
        localizer = _Localizer(self)
        return localizer.in_tile(expr) if in_tile else localizer.expr(expr)

    # -- padding --------------------------------------------------------------------------------------------------
    def padding(self, expr: Expr, ragged: frozenset[Var]) -> Padding:
        """The value of an expression where some ragged axis is past its end.

        Loads out of bounds of an array give 0. What does not depend on the axes counts as finite.
        """
        known = self._padding.get(expr_key(expr))
        if known is not None:
            return known
        found = self._derived(expr, ragged)
        depends = expr.dtype.is_float and not ragged.isdisjoint(variables_of(expr))
        return found if depends or found is not Unknown.ANY else Unknown.FINITE

    def _derived(self, expr: Expr, ragged: frozenset[Var]) -> Padding:
        match expr:
            case Const(value=value):
                return float(value)
            case Load(indices=indices):
                outside = any(isinstance(index, Var) and index in ragged for index in indices)
                return 0.0 if outside and not expr.buffer.scope.on_chip and not self._is_result(expr) else Unknown.ANY
            case Cast(a=a):
                return self.padding(a, ragged)
            case Select(a=a, b=b):
                x, y = self.padding(a, ragged), self.padding(b, ragged)
                return x if x == y else Unknown.FINITE if _is_finite(x) and _is_finite(y) else Unknown.ANY
            case Unary(op=UnaryOp.NEG, a=a):
                x = self.padding(a, ragged)
                return x if isinstance(x, Unknown) else -x
            case Call(callee=callee, args=(a,)):
                return _of_function(callee.name, self.padding(a, ragged))
            case Binary(op=op, a=a, b=b) if expr.dtype.is_float:
                x, y = self.padding(a, ragged), self.padding(b, ragged)
                if op is BinaryOp.DIV and y is Unknown.FINITE and not ragged.isdisjoint(variables_of(b)):
                    return Unknown.ANY  # the divisor may be 0 in the padding alone
                return _combined(op, x, y)
        return Unknown.ANY

    def _is_result(self, load: Load) -> bool:
        return expr_key(load) in self.known


_AT_ZERO = {"abs": 0.0, "erf": 0.0, "exp": 1.0, "exp2": 1.0, "__exp2": 1.0, "expm1": 0.0, "log1p": 0.0, "sin": 0.0,
            "cos": 1.0, "sqrt": 0.0, "tanh": 0.0}  # fmt: skip
_BOUNDED = {"cos", "erf", "sin", "tanh"}


def _is_finite(x: Padding) -> bool:
    return x is Unknown.FINITE or not isinstance(x, Unknown) and math.isfinite(x)


def _of_function(name: str, x: Padding) -> Padding:
    """The value of a function of padding."""
    if x == 0.0 and name in _AT_ZERO:
        return _AT_ZERO[name]
    if x == -math.inf and name in ("exp", "exp2", "__exp2"):
        return 0.0
    return Unknown.FINITE if name in _BOUNDED and _is_finite(x) else Unknown.ANY


def _combined(op: BinaryOp, x: Padding, y: Padding) -> Padding:
    """The value of an operation on padding."""
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


def _with_infinity(op: BinaryOp, infinite: float, *, on_left: bool) -> Padding:
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
        """The index of a tile for an axis."""
        place = self._values.placement.places.get(index) if isinstance(index, Var) else None
        return index if place is None or place.local is None else place.local
