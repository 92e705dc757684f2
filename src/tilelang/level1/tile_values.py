"""Expressions over the axes of a kernel as expressions over a block's tiles.

Keeps which expressions the block already holds in a tile, so that every later use reads the tile; and what such a tile
holds beyond the end of a ragged axis, so that masks that change nothing are left out.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence

from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import Rewriter, variables_of
from tilelang.level1.fused import ZERO
from tilelang.level1.placement import Placement


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
    def beyond(self, expr: Expr, ragged: frozenset[Var]) -> float | None:
        """The value where some ragged axis is beyond its end, if it is the same for all such places; None if unknown.

        Elements beyond the end of an array read as 0. What does not depend on the axes counts as finite.
        """
        known = self._beyond.get(expr_key(expr))
        if known is not None:
            return known
        match expr:
            case Const(value=value):
                return float(value)
            case Load(indices=indices):
                outside = any(isinstance(index, Var) and index in ragged for index in indices)
                return 0.0 if outside and not expr.buffer.scope.on_chip and not self._is_result(expr) else None
            case Cast(a=a):
                return self.beyond(a, ragged)
            case Select(a=a, b=b):
                x, y = self.beyond(a, ragged), self.beyond(b, ragged)
                return x if x == y else None
            case Unary(op=UnaryOp.NEG, a=a):
                x = self.beyond(a, ragged)
                return None if x is None else -x
            case Call(callee=callee, args=(a,)) if callee.name in _FUNCTIONS:
                x = self.beyond(a, ragged)
                return None if x is None else _FUNCTIONS[callee.name](x)
            case Binary(op=op, a=a, b=b) if expr.dtype.is_float:
                return _combined(op, self.beyond(a, ragged), self.beyond(b, ragged))
        return None

    def _is_result(self, load: Load) -> bool:
        return expr_key(load) in self.known


_FUNCTIONS: Mapping[str, Callable[[float], float | None]] = {
    "exp": lambda x: 0.0 if x == -math.inf else 1.0 if x == 0 else None,
    "exp2": lambda x: 0.0 if x == -math.inf else 1.0 if x == 0 else None,
    "__exp2": lambda x: 0.0 if x == -math.inf else 1.0 if x == 0 else None,
    "abs": abs,
    "sqrt": lambda x: 0.0 if x == 0 else None,
    "tanh": lambda x: 0.0 if x == 0 else None,
}


def _combined(op: BinaryOp, x: float | None, y: float | None) -> float | None:
    """The value of an operation of which one operand may be any finite number (None)."""
    if op is BinaryOp.MUL and 0.0 in (x, y):
        return 0.0 if not any(z is not None and math.isinf(z) for z in (x, y)) else None
    if op is BinaryOp.DIV and x == 0.0 and y != 0.0:
        return 0.0
    if op in (BinaryOp.ADD, BinaryOp.SUB):
        if x is not None and math.isinf(x) and (y is None or not math.isinf(y)):
            return x
        if x is not None and y is not None and not math.isinf(x) and not math.isinf(y):
            return x + y if op is BinaryOp.ADD else x - y
    if op in (BinaryOp.MAX, BinaryOp.MIN) and x is not None and y is not None:
        return max(x, y) if op is BinaryOp.MAX else min(x, y)
    if op in (BinaryOp.MUL, BinaryOp.DIV) and x is not None and y is not None and math.isinf(x) and y > 0:
        return x
    return None


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
