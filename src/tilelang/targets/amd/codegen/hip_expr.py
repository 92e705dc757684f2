"""Prints expressions as HIP: as in other languages, but for split addresses, and buffer loads of gathered rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilelang.codegen.c_expr import ExprPrinter
from tilelang.codegen.c_index import POSTFIX, PREFIX, PRODUCT, Text, tight
from tilelang.codegen.dialect import Dialect, is_packed
from tilelang.codegen.index_types import IndexTypes
from tilelang.codegen.names import Names
from tilelang.codegen.pointer_increments import AddressKey, address_key
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, const, int_const
from tilelang.ir.visit import loads_of
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.targets.amd.codegen.lds_offsets import LdsOffset
from tilelang.targets.amd.codegen.selected_loads import is_zero
from tilelang.targets.amd.isa.buffer_load import BUFFER_LOAD, MAX_BUFFER_BYTES

LDS_AT = Helper(
    "tl_at",
    """\
// What is some bytes from the start of a tile.
template <typename T> __device__ __forceinline__ T* tl_at(T* tile, int bytes) { return (T*)((char*)tile + bytes); }
""",
)


@record
class SplitAddress:
    """An address as the sum of a buffer resource and an offset of the thread.

    Attributes:
        resource: The name of the buffer resource, which is the same for all threads.
        offset: The name of the thread's offset in bytes.
        moves: The byte stride of each variable of an unrolled loop.
        each: The variable of an unrolled loop of which each iteration has an offset; then `offset` is an array of them.
        least: The smallest of the threads' offsets, of each iteration of that loop.
        moved: The name of what a loop increments for all threads, instead of offsets; empty if it increments those.
    """

    resource: str
    offset: str
    moves: Mapping[Var, int]
    each: Var | None = None
    least: tuple[int, ...] = (0,)
    moved: str = ""

    def operands(self, names: Names) -> tuple[str, str, str]:
        """The operands of a load: the resource, the thread's offset, and what loops add."""
        offset = self.offset if self.each is None else f"{self.offset}[{names[self.each]}]"
        moves = [f"{names[var]} * {step}u" for var, step in self.moves.items()]
        return self.resource, offset, sum_of([self.moved, *moves])


def sum_of(terms: Iterable[str]) -> str:
    """A sum without the terms that are nothing."""
    return " + ".join(term for term in terms if term not in ("", "0")) or "0"


class HipExprPrinter(ExprPrinter):
    """Prints expressions.

    Attributes:
        split_addresses: The split addresses of enclosing loops.
        lds_offsets: The split offsets in LDS, likewise, each with the name of the thread's part.
    """

    def __init__(self, names: Names, dialect: Dialect, types: IndexTypes | None = None) -> None:
        super().__init__(names, dialect, types)
        self.split_addresses: dict[AddressKey, SplitAddress] = {}
        self.lds_offsets: dict[AddressKey, tuple[str, LdsOffset]] = {}

    def element(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str:  # noqa: D102
        at = self._in_lds(buffer, indices)
        if at is not None:
            return f"{at}[0]"
        load = self._buffer_load(buffer, indices, buffer.dtype)
        return super().element(buffer, indices) if load is None else load

    def vector(self, buffer: Buffer, indices: tuple[Expr, ...], dtype: DType, *, const: bool = False) -> str:  # noqa: D102
        at = self._in_lds(buffer, indices)
        if at is not None:
            return f"*({'const ' if const else ''}{self.storage(dtype)}*){at}"
        load = self._buffer_load(buffer, indices, dtype) if const else None
        return super().vector(buffer, indices, dtype, const=const) if load is None else load

    def _in_lds(self, buffer: Buffer, indices: tuple[Expr, ...]) -> str | None:
        """A pointer by a split offset; None if the offset is not split."""
        found = self.lds_offsets.get(address_key(Region(buffer, indices, ()))) if self.lds_offsets else None
        if found is None:
            return None
        self.need(LDS_AT)
        name, offset = found
        text = name if int_const(offset.flips) == 0 else f"({name} ^ {tight(self.exact(offset.flips), PREFIX)})"
        if int_const(offset.steps) != 0:
            text += f" + {tight(self.exact(offset.steps), PRODUCT)}"
        return f"{LDS_AT.name}({self.names[buffer]}, {text})"

    def _choice(self, condition: Expr, a: Expr, b: Expr, dtype: DType) -> Text:
        if isinstance(a, Load) and is_zero(b):
            inside = self.condition(condition)
            load = self._buffer_load(a.buffer, a.indices, dtype, inside) or self._gathered(a, dtype, inside)
            if load is not None:
                return (self.loaded(load, dtype), PREFIX) if is_packed(dtype) else (load, POSTFIX)
        return super()._choice(condition, a, b, dtype)

    def selects(self, load: Load) -> bool:
        """Whether a load gives zeros by its offset, without a branch, where a condition is false."""
        return self._split_address(load.buffer, load.indices) is not None or _is_gathered(load)

    def _buffer_load(
        self, buffer: Buffer, indices: tuple[Expr, ...], dtype: DType, condition: str = ""
    ) -> str | None:
        """A load of a split address, of zeros where a condition is false; None if the address is not split."""
        found = self._split_address(buffer, indices)
        if found is None:
            return None
        self.need(BUFFER_LOAD)
        name, first = ("tl_buffer_load_if", f"{condition}, ") if condition else ("tl_buffer_load", "")
        return f"{name}<{self.storage(dtype)}>({first}{', '.join(found.operands(self.names))})"

    def _split_address(self, buffer: Buffer, indices: tuple[Expr, ...]) -> SplitAddress | None:
        if not self.split_addresses or buffer.scope is not Scope.GLOBAL:
            return None
        return self.split_addresses.get(address_key(Region(buffer, indices, ())))

    def _gathered(self, load: Load, dtype: DType, condition: str) -> str | None:
        """A load of a row whose index was loaded, of zeros where a condition is false; None for other loads.

        With a branch for each row instead, compilers would not know how many loads are in flight, and wait for them all
        where they wait for one.
        """
        if not _is_gathered(load):
            return None
        buffer = load.buffer
        self.need(BUFFER_LOAD)
        start = self.address(Region(buffer, tuple(const(0, index.dtype) for index in load.indices), ()))
        offset = f"({self.offset(buffer, load.indices)}) * {buffer.dtype.storage_bytes}u"
        return f"tl_buffer_load_if<{self.storage(dtype)}>({condition}, tl_resource_of({start}), {offset}, 0)"


def _is_gathered(load: Load) -> bool:
    """Whether a load is of a row whose index was loaded, of a tensor that one buffer resource spans."""
    is_row = load.buffer.scope is Scope.GLOBAL and any(map(loads_of, load.indices))
    return is_row and 0 < (load.buffer.bytes or 0) <= MAX_BUFFER_BYTES
