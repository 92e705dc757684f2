"""Prints expressions as HIP, where they differ from those of other languages: addresses that are sums."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.dialect import Dialect
from tilelang.codegen.index_types import IndexTypes
from tilelang.codegen.names import Names
from tilelang.codegen.pointer_increments import AddressKey, address_key
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Var
from tilelang.records import record


@record
class Divided:
    """An address as a sum.

    Attributes:
        pointer: The name of a pointer that all threads share.
        offset: The name of what a thread adds, in bytes.
        moves: What the variables of unrolled loops add for each iteration, in bytes.
    """

    pointer: str
    offset: str
    moves: Mapping[Var, int]


class HipExprPrinter(ExprPrinter):
    """Prints expressions.

    Attributes:
        divided: The addresses of enclosing loops that are sums.
    """

    def __init__(self, names: Names, dialect: Dialect, types: IndexTypes | None = None) -> None:
        super().__init__(names, dialect, types)
        self.divided: dict[AddressKey, Divided] = {}

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:  # noqa: D102
        address = self._divided_address(buffer, indices)
        if address is None:
            return super().element(buffer, indices)
        return f"(*(const {self.storage(buffer.dtype)}*)({address}))"

    def vector(self, buffer: Buffer, indices: tuple[Expr, ...], dtype: DType, *, const: bool = False) -> str:  # noqa: D102
        address = self._divided_address(buffer, indices) if const else None
        if address is None:
            return super().vector(buffer, indices, dtype, const=const)
        return f"*(const {self.storage(dtype)}*)({address})"

    def _divided_address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str | None:
        if not self.divided or buffer.scope is not Scope.GLOBAL:
            return None
        found = self.divided.get(address_key(Region(buffer, indices, ())))
        if found is None:
            return None
        moves = [f"{self.names[var]} * {step}u" for var, step in found.moves.items()]
        return f"(const char*){found.pointer} + ({' + '.join([found.offset, *moves])})"
