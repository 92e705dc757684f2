"""Selects the specialization of a call: which sizes are divisible, which tensors aligned, whether offsets need 64 bits.

Invariant: the specialization is valid for the call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tilelang.ir.expr import Var, int_const
from tilelang.ir.func import TensorParam
from tilelang.ir.specialization import Specialization
from tilelang.ir.visit import walk_expr
from tilelang.runtime.parameters import Signature, dims_and_strides

if TYPE_CHECKING:  # a kernel is ready without what calls need
    from tilelang.runtime.arrays import ArrayView

ALIGNMENT_BYTES = 16  # the widest access of a thread; assumed unless specialized otherwise
# 128 fills the tiles that most kernels use, so that no access needs a test; 16 elements of one byte, or 8 of two, are
# one access of the widest kind
_DIVISORS = (128, 16, 8)
INT32_ELEMENTS = 2**31  # elements; from here on 32 bits do not hold the distance between two of them


class Variants:
    """The specializations that are possible for one signature."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._divisible = _divisibility_symbols(signature)
        self._symbolic = [
            i for i, param in enumerate(signature.params)
            if isinstance(param, TensorParam) and any(int_const(e) is None for e in dims_and_strides(param))
        ]  # fmt: skip

    @property
    def most_common(self) -> Specialization:
        """The most common specialization: divisible sizes."""
        return Specialization(tuple((name, _DIVISORS[0]) for name in self._divisible))

    def of(self, values: Sequence[ArrayView | int | float], symbols: Sequence[int]) -> Specialization:
        """The specialization of a call.

        Args:
            values: One per parameter.
            symbols: One per symbol of the signature.
        """
        signature = self._signature
        multiples = tuple(
            (symbol.name, factor)
            for symbol, value in zip(signature.symbols, symbols, strict=True)
            if symbol.name in self._divisible
            and (factor := next((n for n in _DIVISORS if value > 0 and value % n == 0), 0))
        )
        wide = any(_needs_64_bit_offsets(values[i]) for i in self._symbolic)
        return Specialization(multiples, tuple(self.misaligned(values)), wide)

    def misaligned(self, values: Sequence[ArrayView | int | float]) -> dict[str, str]:
        """The tensors of a call that are not aligned to 16 bytes, with a text for messages."""
        between = f"which is no multiple of {ALIGNMENT_BYTES}"
        found = {}
        for param, value in zip(self._signature.params, values, strict=True):
            address = value if isinstance(value, int | float) else value.pointer
            if (isinstance(param, TensorParam) or param.pointer) and address % ALIGNMENT_BYTES:
                found[param.name] = f"'{param.name}' begins at address {int(address):#x}, {between}"
        return found

    def without_maps(self, specialization: Specialization, names: Iterable[str]) -> Specialization:
        """The specialization of calls in which some tensors cannot have tensor maps.

        They are marked as misaligned, since misaligned tensors have no map either.
        """
        wanted = {*specialization.misaligned, *names}
        order = tuple(param.name for param in self._signature.params if param.name in wanted)
        return dataclasses.replace(specialization, misaligned=order)

    def general(self, specialization: Specialization) -> Specialization:
        """A more general specialization of which there are only few variants."""
        params = self._signature.params
        tensors = tuple(param.name for param in params if isinstance(param, TensorParam) or param.pointer)
        return Specialization((), tensors if specialization.misaligned else (), specialization.wide)


def _needs_64_bit_offsets(value: ArrayView | int | float) -> bool:
    if isinstance(value, int | float) or value.strides is None:
        return False
    span = sum(abs(stride) * max(extent - 1, 0) for stride, extent in zip(value.strides, value.shape, strict=True))
    return span >= INT32_ELEMENTS


def _divisibility_symbols(signature: Signature) -> tuple[str, ...]:
    """Names of symbols whose divisibility determines the vector width: extents but the first, and strides.

    The first extent of a dense tensor does not affect the offsets of its elements.
    """
    found: dict[str, None] = {}
    for param in signature.params:
        if isinstance(param, TensorParam):
            inner = param.shape[1:] if param.buffer.rank > 1 else param.shape
            for expr in (*inner, *(param.buffer.strides or ())):
                found |= dict.fromkeys(node.name for node in walk_expr(expr) if isinstance(node, Var))
    symbols = {symbol.name for symbol in signature.symbols}
    return tuple(name for name in found if name in symbols)
