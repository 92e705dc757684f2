"""Fast checks of the arguments of a call, in Python.

The key of a call is the location of its tensors, the extents and strides that are symbolic, and the scalars that
determine sizes. Invariant: arguments that pass the fast checks also pass `bind` if it has accepted others of the same
key, with the same symbols and shapes of outputs.
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
from tilelang.runtime.argument_specs import LOCATION, ArgumentSpec, Kind, Rule
from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView, is_torch_tensor, torch_dtype
from tilelang.runtime.parameters import Signature, dims_and_strides
from tilelang.runtime.variants import ALIGNMENT_BYTES

UNKNOWN, NUMPY = -1, -2  # values of `LOCATION`: none yet, NumPy; a torch tensor has its device index
Key = tuple[int, ...]


@record(slots=True)
class Match:
    """The arguments of a call that passed the fast checks.

    Attributes:
        key: Equal for calls with the same sizes.
        values: One per parameter: addresses and numbers; 0 for outputs.
        like: The tensor that determines the framework of the outputs.
    """

    key: Key
    values: list[int | float]
    like: object


class ArgumentTable:
    """The fast checks of the inputs of a signature.

    Args:
        signature: The signature of the kernel.
        device: Whether its tensors are on CUDA devices, not in host memory.
        launch_scalars: Names of further scalars that determine the grid or other numbers of a launch.

    Attributes:
        signature: As given.
        device: As given.
        specs: The specs of the inputs.
        keys: The entry of the key of each scalar, by parameter.
        key_size: Number of entries of a key.
    """

    def __init__(self, signature: Signature, *, device: bool = False, launch_scalars: Collection[str] = ()) -> None:
        self.signature, self.device, self._launch_scalars = signature, device, launch_scalars
        self.specs = tuple(signature.specs[i] for i in signature.inputs)
        extents = [extent.value for spec in self.specs for extent in spec.rules if extent.rule is Rule.KEY]
        scalars = [spec for spec in self.specs if spec.kind is not Kind.TENSOR]
        keyed = [spec.index for spec in scalars if self._determines_sizes(spec, launch_scalars)]
        first = max(extents, default=LOCATION) + 1
        self.keys = {index: first + n for n, index in enumerate(keyed)}
        self.key_size = first + len(keyed)
        self._checks = [_ArgumentCheck(spec, self.keys.get(spec.index, 0), self.alignment(spec)) for spec in self.specs]

    def with_outputs_given(self) -> ArgumentTable:
        """The fast checks of calls that pass all parameters."""
        signature = self.signature.with_outputs_given()
        return ArgumentTable(signature, device=self.device, launch_scalars=self._launch_scalars)

    @property
    def is_possible(self) -> bool:
        """Whether calls of this signature can be checked fast; packed elements and vectors cannot.

        Needs a tensor argument if outputs or a device have to be chosen.
        """
        if any(param.dtype.lanes > 1 or param.dtype.bits < 8 for param in self.signature.params):
            return False
        return not (self.device or self.signature.outputs) or any(spec.kind is Kind.TENSOR for spec in self.specs)

    def alignment(self, spec: ArgumentSpec) -> int:
        """The required alignment of the address of a tensor or pointer."""
        if self.device:
            return ALIGNMENT_BYTES
        return spec.param.dtype.storage_bytes if spec.kind is Kind.TENSOR else 1

    def _determines_sizes(self, spec: ArgumentSpec, launch_scalars: Collection[str]) -> bool:
        param, signature = spec.param, self.signature
        assert isinstance(param, ScalarParam)
        tensors = [p for p in signature.params if isinstance(p, TensorParam)]
        roots = [expr for tensor in tensors for expr in dims_and_strides(tensor)]
        roots += [*signature.assumptions, *(extent for grid in signature.grids for extent in grid)]
        return param.name in launch_scalars or any(param.var in variables_of(expr) for expr in roots)

    def key(self, bound: Bound) -> Key | None:
        """The key of a bound call; None if the fast checks do not support its arrays."""
        key = [UNKNOWN] + [0] * (self.key_size - 1)
        for spec in self.specs:
            value = bound.values[spec.index]
            if isinstance(value, ArrayView):
                location = {"numpy": NUMPY, "torch": bound.device or 0}.get(value.framework)
                if location is None or key[LOCATION] not in (UNKNOWN, location):
                    return None
                key[LOCATION] = location
                for extent, given in zip(spec.rules, (*value.shape, *(value.strides or ())), strict=False):
                    if extent.rule is Rule.KEY:
                        key[extent.value] = given
            elif spec.index in self.keys:
                key[self.keys[spec.index]] = _bits(value)
        if self.signature.outputs and is_torch_tensor(bound.like) == (key[LOCATION] == NUMPY):
            return None
        return tuple(key)

    # -- checks --------------------------------------------------------------------------------------------
    def match(self, args: Sequence[Any]) -> Match | None:
        """The arguments of a call if they pass the fast checks; `call_checker.cpp` does the same."""
        if len(args) != len(self._checks):
            return None
        torch = sys.modules.get("torch")
        key = [UNKNOWN] + [0] * (self.key_size - 1)
        values: list[int | float] = [0] * len(self.signature.params)
        like: object = None
        for check, given in zip(self._checks, args, strict=True):
            kind = type(given)
            value: int | float | None
            if not check.is_tensor:
                value = given if kind is check.type and check.low <= given <= check.high else None
            elif kind is np.ndarray:
                value = None if self.device else check.array(given, key)
            elif torch is not None and (kind is torch.Tensor or kind is torch.nn.Parameter):
                value = check.tensor(given, key, device=self.device)
            else:
                return None
            if value is None or (check.alignment and value % check.alignment):
                return None
            if check.is_tensor and like is None:
                like = given
            values[check.index] = value
            if check.key:
                key[check.key] = _bits(value)
        return Match(tuple(key), values, like)


class _ArgumentCheck:
    """The fast check of one argument."""

    __slots__ = ("alignment", "dtype", "high", "index", "is_tensor", "key", "low", "negatable", "numpy", "rank",
                 "rules", "strided", "type", "written")  # fmt: skip

    def __init__(self, spec: ArgumentSpec, key: int, alignment: int) -> None:
        dtype = spec.param.dtype
        self.index, self.key, self.is_tensor = spec.index, key, spec.kind is Kind.TENSOR
        self.alignment = alignment if spec.kind in (Kind.TENSOR, Kind.POINTER) else 0
        self.type = {Kind.FLOAT: float, Kind.BOOL: bool}.get(spec.kind, int)
        self.low, self.high = (-math.inf, math.inf) if dtype.is_float else dtype.limits
        if spec.kind is Kind.POINTER:
            self.low = 1
        self.dtype, self.numpy, self.rank = dtype, dtype.numpy, len(spec.extents)
        self.strided, self.written, self.negatable = spec.strides is not None, spec.written, spec.may_be_negated
        self.rules = tuple((int(extent.rule), extent.value) for extent in spec.rules)

    def array(self, value: np.ndarray, key: list[int]) -> int | None:
        """The address of a NumPy array that satisfies the spec, else None."""
        steps: Sequence[int] = ()
        flags = value.flags
        if value.dtype is not self.numpy or (self.written and not flags.writeable):
            return None
        if self.strided:
            size = value.itemsize
            steps = [step // size for step in value.strides if step % size == 0]
        elif not flags.c_contiguous:
            return None
        fits = value.ndim == self.rank and self._match_extents(NUMPY, (*value.shape, *steps), key)
        address: int = value.__array_interface__["data"][0]
        return address if fits else None

    def tensor(self, value: Any, key: list[int], *, device: bool) -> int | None:
        """The address of a torch tensor that satisfies the spec, else None."""
        if value.dtype is not torch_dtype(self.dtype) or not (value.is_cuda if device else value.is_cpu):
            return None
        if str(value.layout) != "torch.strided" or not (self.strided or value.is_contiguous()):
            return None
        if self.negatable and value.is_neg():
            return None
        location = value.get_device() if device else 0
        given = (*value.shape, *value.stride()) if self.strided else value.shape
        fits = value.ndim == self.rank and self._match_extents(location, given, key)
        address: int = value.data_ptr()
        return address if fits else None

    def _match_extents(self, location: int, given: Sequence[int], key: list[int]) -> bool:
        """Whether extents and strides satisfy their rules; symbolic ones are added to the key."""
        if key[LOCATION] != location and key[LOCATION] != UNKNOWN or len(given) != len(self.rules):
            return False
        key[LOCATION] = location
        for (rule, expected), value in zip(self.rules, given, strict=True):
            if rule == _KEY:
                key[expected] = value
            elif value != (expected if rule == _CONSTANT else key[expected]):
                return False
        return True


_CONSTANT, _KEY = int(Rule.CONSTANT), int(Rule.KEY)  # members of an enumeration are slower to read


def _bits(value: int | float) -> int:
    """The 64 bits of a number, as a signed integer."""
    packed = struct.pack("<d", value) if isinstance(value, float) else struct.pack("<Q", value % 2**64)
    return int.from_bytes(packed, "little", signed=True)
