"""The rows of a kernel's inputs with what a glance at a call needs, and the walk over them in Python.

Takes a `Signature`, gives an `ArgumentTable`. A glance finds the key of a call: where its tensors are, the extents and
strides that its program leaves open, and the scalars that decide sizes. Invariant: arguments that a glance accepts are
accepted by `bind`, too, if it has accepted others of the same key, with the same symbols and shapes of outputs.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.ir.visit import variables_of
from tilelang.records import record
from tilelang.runtime.argument_rows import HOME, Kind, Row, Rule
from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView, is_torch_tensor, torch_dtype
from tilelang.runtime.parameters import Signature, dims_and_strides
from tilelang.runtime.variants import ALIGNMENT_BYTES

UNKNOWN, NUMPY = -1, -2  # entries for `HOME`: no tensor, an array of NumPy; a torch tensor has the number of its device
Key = tuple[int, ...]


@record(slots=True)
class Match:
    """The arguments of a call that were accepted at a glance.

    Attributes:
        key: Equal for calls with the same sizes.
        values: One per parameter: addresses and numbers; 0 for outputs.
        like: The tensor whose framework the outputs take.
    """

    key: Key
    values: list[int | float]
    like: object


class ArgumentTable:
    """The rows of the inputs of a signature.

    Args:
        signature: Of the kernel.
        device: Whether its tensors are on CUDA devices; in host memory otherwise.
        sizing: The names of further scalars that decide how a call is launched.

    Attributes:
        signature: As given.
        device: As given.
        rows: Those of the inputs.
        keys: The entry of the key that a scalar is, by its parameter.
        key_size: How many entries a key has.
    """

    def __init__(self, signature: Signature, *, device: bool = False, sizing: Collection[str] = ()) -> None:
        self.signature, self.device = signature, device
        self.rows = tuple(signature.rows[i] for i in signature.inputs)
        extents = [extent.value for row in self.rows for extent in row.rules if extent.rule is Rule.KEY]
        keyed = [row.index for row in self.rows if row.kind is not Kind.TENSOR and self._decides(row, sizing)]
        first = max(extents, default=HOME) + 1
        self.keys = {index: first + n for n, index in enumerate(keyed)}
        self.key_size = first + len(keyed)
        self._glances = [_Glance(row, self.keys.get(row.index, 0), self.alignment(row)) for row in self.rows]

    @property
    def is_possible(self) -> bool:
        """Whether a glance can decide calls at all; packed elements and vectors need a longer look.

        A tensor must say where outputs are made, and on which device a kernel runs.
        """
        if any(param.dtype.lanes > 1 or param.dtype.bits < 8 for param in self.signature.params):
            return False
        return not (self.device or self.signature.outputs) or any(row.kind is Kind.TENSOR for row in self.rows)

    def alignment(self, row: Row) -> int:
        """What the address of a tensor, or that which a pointer holds, must be a multiple of."""
        if self.device:
            return ALIGNMENT_BYTES
        return row.param.dtype.storage_bytes if row.kind is Kind.TENSOR else 1

    def _decides(self, row: Row, sizing: Collection[str]) -> bool:
        param, signature = row.param, self.signature
        assert isinstance(param, ScalarParam)
        tensors = [p for p in signature.params if isinstance(p, TensorParam)]
        roots = [expr for tensor in tensors for expr in dims_and_strides(tensor)]
        roots += [*signature.assumptions, *(extent for grid in signature.grids for extent in grid)]
        return param.name in sizing or any(param.var in variables_of(expr) for expr in roots)

    def key(self, bound: Bound) -> Key | None:
        """The key of a call that was bound; None if a glance never accepts such arrays."""
        key = [UNKNOWN] + [0] * (self.key_size - 1)
        for row in self.rows:
            value = bound.values[row.index]
            if isinstance(value, ArrayView):
                home = {"numpy": NUMPY, "torch": bound.device or 0}.get(value.framework)
                if home is None or key[HOME] not in (UNKNOWN, home):
                    return None
                key[HOME] = home
                for extent, given in zip(row.rules, (*value.shape, *(value.strides or ())), strict=False):
                    if extent.rule is Rule.KEY:
                        key[extent.value] = given
            elif row.index in self.keys:
                key[self.keys[row.index]] = _bits(value)
        if self.signature.outputs and is_torch_tensor(bound.like) == (key[HOME] == NUMPY):
            return None
        return tuple(key)

    # -- a glance -------------------------------------------------------------------------------------------
    def match(self, args: Sequence[Any]) -> Match | None:
        """The arguments of a call, if a glance accepts them; `call_checker.cpp` does the same."""
        if len(args) != len(self._glances):
            return None
        torch = sys.modules.get("torch")
        key = [UNKNOWN] + [0] * (self.key_size - 1)
        values: list[int | float] = [0] * len(self.signature.params)
        like: object = None
        for glance, given in zip(self._glances, args, strict=True):
            kind = type(given)
            value: int | float | None
            if not glance.is_tensor:
                value = given if kind is glance.type and glance.low <= given <= glance.high else None
            elif kind is np.ndarray:
                value = None if self.device else glance.array(given, key)
            elif torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter):
                value = glance.tensor(given, key, device=self.device)
            else:
                return None
            if value is None or (glance.alignment and value % glance.alignment):
                return None
            if glance.is_tensor and like is None:
                like = given
            values[glance.index] = value
            if glance.key:
                key[glance.key] = _bits(value)
        return Match(tuple(key), values, like)


class _Glance:
    """What a glance at an argument needs of its row."""

    __slots__ = ("alignment", "dtype", "high", "index", "is_tensor", "key", "low", "negatable", "numpy", "rank",
                 "rules", "strided", "type", "written")  # fmt: skip

    def __init__(self, row: Row, key: int, alignment: int) -> None:
        dtype = row.param.dtype
        self.index, self.key, self.is_tensor = row.index, key, row.kind is Kind.TENSOR
        self.alignment = alignment if row.kind in (Kind.TENSOR, Kind.POINTER) else 0
        self.type = {Kind.FLOAT: float, Kind.BOOL: bool}.get(row.kind, int)
        self.low, self.high = (-math.inf, math.inf) if dtype.is_float else dtype.limits
        if row.kind is Kind.POINTER:
            self.low = 1
        self.dtype, self.numpy, self.rank = dtype, dtype.numpy, len(row.extents)
        self.strided, self.written, self.negatable = row.strides is not None, row.written, row.may_be_negated
        self.rules = tuple((int(extent.rule), extent.value) for extent in row.rules)

    def array(self, value: np.ndarray, key: list[int]) -> int | None:
        """The address of a NumPy array that is what its row asks for."""
        steps: Sequence[int] = ()
        flags = value.flags
        if value.dtype is not self.numpy or (self.written and not flags.writeable):
            return None
        if self.strided:
            size = value.itemsize
            steps = [step // size for step in value.strides if step % size == 0]
        elif not flags.c_contiguous:
            return None
        fits = value.ndim == self.rank and self._follow(NUMPY, (*value.shape, *steps), key)
        address: int = value.__array_interface__["data"][0]
        return address if fits else None

    def tensor(self, value: Any, key: list[int], *, device: bool) -> int | None:
        """The address of a torch tensor that is what its row asks for."""
        if value.dtype is not torch_dtype(self.dtype) or not (value.is_cuda if device else value.is_cpu):
            return None
        if str(value.layout) != "torch.strided" or not (self.strided or value.is_contiguous()):
            return None
        if self.negatable and value.is_neg():
            return None
        home = value.get_device() if device else 0
        given = (*value.shape, *value.stride()) if self.strided else value.shape
        fits = value.ndim == self.rank and self._follow(home, given, key)
        address: int = value.data_ptr()
        return address if fits else None

    def _follow(self, home: int, given: Sequence[int], key: list[int]) -> bool:
        """Whether extents and strides follow their rules; those that may be anything join the key."""
        if key[HOME] != home and key[HOME] != UNKNOWN or len(given) != len(self.rules):
            return False
        key[HOME] = home
        for (rule, expected), value in zip(self.rules, given, strict=True):
            if rule == _KEY:
                key[expected] = value
            elif value != (expected if rule == _CONSTANT else key[expected]):
                return False
        return True


_CONSTANT, _KEY = int(Rule.CONSTANT), int(Rule.KEY)  # members of an enumeration take several times as long to read


def _bits(value: int | float) -> int:
    """The 64 bits of a number, as a signed integer."""
    packed = struct.pack("<d", value) if isinstance(value, float) else struct.pack("<Q", value % 2**64)
    return int.from_bytes(packed, "little", signed=True)
