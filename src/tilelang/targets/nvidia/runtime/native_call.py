"""The shortest way from torch tensors to launches: what `launcher.cpp` needs to know of one kernel.

Takes a `Signature`, a `Launcher` and what the long way found out; gives a function of the call's arguments. Invariant:
records are written whole before the launcher can see them and live as long as the function; they are never changed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from tilelang.codegen.source import KernelArgument
from tilelang.ir.expr import Expr, Var, int_const
from tilelang.ir.func import TensorParam
from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView, dlpack_type, torch_dtype
from tilelang.runtime.call_text import NoShortWay, declared_strides, missed
from tilelang.runtime.parameters import Signature
from tilelang.targets.nvidia.runtime.cuda_driver import Driver
from tilelang.targets.nvidia.runtime.device_fast_call import Caller, keyed_inputs, may_be_negated, refused_launch
from tilelang.targets.nvidia.runtime.device_program import DeviceProgram
from tilelang.targets.nvidia.runtime.launch_block import ARGUMENTS_OFFSET, LaunchFormat, Placed, make_block, size_of
from tilelang.targets.nvidia.runtime.native_launcher import TYPE_OFFSET, Exchange, Launcher
from tilelang.targets.nvidia.runtime.tensor_map import (
    NOT_INTERLEAVED,
    PROMOTION,
    SWIZZLE_CODES,
    ZEROS_OUTSIDE,
    TensorMaps,
    data_type,
)

CUDA_DEVICES = 2  # Source: dlpack.h, enum DLDeviceType, kDLCUDA

# as in launcher.cpp
_MAX_INPUTS, _MAX_KEY, _MAX_MADE, _MAX_ARGUMENTS, _MAX_BYTES = 64, 256, 16, 192, 4096
_EXACT, _FRESH, _SAME = range(3)
_TENSOR, _SIGNED, _UNSIGNED, _BOOL, _FLOAT32, _FLOAT64, _POINTER = range(7)
_LETTERS = {_POINTER: "qQ", _SIGNED: "bhiqBHIQ", _UNSIGNED: "bhiqBHIQ", _BOOL: "?bBiI", _FLOAT32: "f", _FLOAT64: "d"}

_WORD, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
_FEW_PLANS, _MANY_PLANS = 32, 1024  # of a kernel whose sizes are constant, and of others
_INITIAL_BITS = 2  # the table has this many times as many slots, as a power of two, as there are plans


class _Extent(ctypes.Structure):
    _fields_ = (("rule", _WORD), ("value", _WORD))


class _Input(ctypes.Structure):
    _fields_ = (
        *((name, _WORD) for name in ("kind", "dtype", "rank", "strided", "negatable", "keyed", "low")),
        ("high", ctypes.c_uint64), ("extents", _ADDRESS),
    )  # fmt: skip


class _Argument(ctypes.Structure):
    _fields_ = (("source", _WORD), ("offset", _WORD), ("size_bytes", _WORD))


class _Map(ctypes.Structure):
    _fields_ = (
        ("source", _WORD), ("offset", _WORD), ("address", ctypes.c_uint64), ("dims", _ADDRESS),
        ("strides", _ADDRESS), ("box", _ADDRESS), ("steps", _ADDRESS), ("rank", ctypes.c_uint32),
        *((name, ctypes.c_int) for name in ("dtype", "interleaved", "swizzle", "promotion", "outside")),
    )  # fmt: skip


class _Launch(ctypes.Structure):
    _fields_ = (
        ("config", _ADDRESS), ("function", _ADDRESS), ("arguments", _ADDRESS), ("argument_bytes", _WORD),
        ("argument_count", _WORD), ("filled_count", _WORD), ("map_count", _WORD), ("offsets", _ADDRESS),
        ("filled", _ADDRESS), ("maps", _ADDRESS), ("name", _ADDRESS),
    )  # fmt: skip


class _Recipe(ctypes.Structure):
    _fields_ = (("args", _ADDRESS), ("keywords", _ADDRESS))


class _Plan(ctypes.Structure):
    _fields_ = (
        ("key", _ADDRESS), ("context", _ADDRESS), ("failure", _ADDRESS), ("launch_count", _WORD),
        ("made_count", _WORD), ("returned_count", _WORD), ("launches", _ADDRESS), ("made", _ADDRESS),
    )  # fmt: skip


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("tensor_of", _ADDRESS), ("stream_of", _ADDRESS), ("context_of", _ADDRESS), ("launch", _ADDRESS),
        ("encode", _ADDRESS),
        ("device_kind", _WORD), ("type_offset", _WORD), ("tensor_type", _ADDRESS), ("parameter_type", _ADDRESS),
        ("integer_type", _ADDRESS), ("bool_type", _ADDRESS), ("float_type", _ADDRESS), ("input_count", _WORD),
        ("key_size", _WORD), ("slots", _WORD), ("inputs", _ADDRESS), ("table", _ADDRESS),
    )  # fmt: skip


class Plan(Protocol):
    """What the launcher needs of what the long way found out."""

    program: DeviceProgram
    placed: tuple[Placed | None, ...]
    symbols: tuple[int, ...]
    workspaces: tuple[int, ...]
    flag: int


class NativeCall:
    """The shortest way of one kernel.

    Args:
        signature: Of the kernel.
        program: Any of its programs.
        driver: Launches.
        caller: The long way.
        launcher: Checks and launches.
        exchange: How torch lends tensors.
        device_kind: On what the tensors are.

    Attributes:
        call: Takes the arguments of a call.
        attempt: The same, but with the result `MISSED` where `call` would go the long way.

    Raises:
        NoShortWay: The signature has something that only the long way knows.
    """

    def __init__(
        self,
        signature: Signature,
        program: DeviceProgram,
        driver: Driver,
        caller: Caller,
        launcher: Launcher,
        exchange: Exchange,
        device_kind: int = CUDA_DEVICES,
    ) -> None:
        torch = sys.modules["torch"]
        self._signature, self._launcher = signature, launcher
        self._kept: list[Any] = []  # what the records point to
        self._fresh: dict[int, list[int]] = {}  # the dims and strides of each tensor that are new parts of the key
        self._keyed_scalars = keyed_inputs(signature, program)[1]
        self._kinds = {i: _kind(signature, i) for i in range(len(signature.params))}
        if _TENSOR not in [self._kinds[i] for i in signature.inputs]:
            raise NoShortWay  # no argument says which device
        if any(signature.params[i].dtype.is_float for i in self._keyed_scalars):
            raise NoShortWay  # keys are integers
        self._known: dict[tuple[int, ...], Plan] = {}
        inputs = self._inputs()
        dynamic = self._key_size > 1
        self._room = _MANY_PLANS if dynamic else _FEW_PLANS
        slots = self._room << _INITIAL_BITS
        if len(inputs) > _MAX_INPUTS or self._key_size > _MAX_KEY:
            raise NoShortWay
        types = (torch.Tensor, torch.nn.Parameter)
        functions = ("cuCtxGetCurrent", "cuLaunchKernelEx", "cuTensorMapEncodeTiled")
        self._kernel = _Kernel(
            exchange.tensor_of, exchange.stream_of, *map(driver.address, functions), device_kind, TYPE_OFFSET,
            *map(id, types), id(int), id(bool), id(float), len(inputs), self._key_size, slots,
            self._array(_Input, inputs), self._array(_ADDRESS, [None] * slots),
        )  # fmt: skip
        address = ctypes.addressof(self._kernel)
        known = (
            refused_launch(caller), torch.empty, torch.Tensor.is_neg, None, self._kernel, self._kept, types,
        )  # fmt: skip
        self.call = launcher.function((address, caller.long_way, *known))
        self.attempt = launcher.function((address, missed, *known))

    def learn(self, plan: Plan, bound: Bound, context: int) -> bool:
        """Lets calls of torch tensors with the sizes of this one take the shortest way.

        Returns:
            False if there is no room; then a new one must be made.
        """
        key = self._key(bound)
        if self._known.get(key) is plan:
            return True
        if self._room == 0:
            return False
        record = self._plan(plan, bound, key, context)
        self._room -= 1
        self._known[key] = plan
        self._launcher.learn(ctypes.addressof(self._kernel), ctypes.addressof(record))
        return True

    def _array(self, kind: Any, values: Sequence[Any]) -> int | None:
        """The address of an array that lives as long as the function."""
        if not values:
            return None
        array = (kind * len(values))(*values)
        self._kept.append(array)
        return ctypes.addressof(array)

    def _object(self, value: object) -> int:
        self._kept.append(value)
        return id(value)

    # -- what a call must bring -----------------------------------------------------------------------------
    def _inputs(self) -> list[_Input]:
        signature = self._signature
        found: list[_Input] = []
        parts: dict[Var, int] = {}  # where the key has the value of a symbol
        self._key_size = 1  # the device
        for i in signature.inputs:
            param, kind = signature.params[i], self._kinds[i]
            if not isinstance(param, TensorParam):
                low, high = param.dtype.limits if param.dtype.is_int or param.dtype.is_bool else (0, 0)
                low = 0 if param.pointer else low
                keyed = i in self._keyed_scalars
                self._key_size += keyed
                found.append(_Input(kind=kind, keyed=keyed, low=int(low), high=int(high)))
                continue
            strides = declared_strides(signature, i)
            self._fresh[i] = []
            extents = [self._extent(i, n, expr, parts) for n, expr in enumerate((*param.shape, *strides))]
            code, bits = dlpack_type(param.dtype) or (0, 0)
            found.append(
                _Input(
                    kind=_TENSOR,
                    dtype=code | bits << 8 | 1 << 16,
                    rank=param.buffer.rank,
                    strided=bool(strides),
                    negatable=may_be_negated(param),
                    extents=self._array(_Extent, extents),
                )
            )
        return found

    def _extent(self, tensor: int, axis: int, expr: Expr, parts: dict[Var, int]) -> _Extent:
        value = int_const(expr)
        if value is not None:
            return _Extent(_EXACT, value)
        if isinstance(expr, Var):
            if expr in parts:
                return _Extent(_SAME, parts[expr])
            parts[expr] = self._key_size
        self._key_size += 1
        self._fresh[tensor].append(axis)
        return _Extent(_FRESH, 0)

    def _key(self, bound: Bound) -> tuple[int, ...]:
        key = [bound.device or 0]
        for i in self._signature.inputs:
            value = bound.values[i]
            if isinstance(value, ArrayView):
                given = (*value.shape, *(value.strides or ()))
                key += [given[axis] for axis in self._fresh[i]]
            elif i in self._keyed_scalars:
                key.append(_signed(int(value)))
        return tuple(key)

    # -- what is launched -----------------------------------------------------------------------------------
    def _plan(self, plan: Plan, bound: Bound, key: tuple[int, ...], context: int) -> _Plan:
        torch = sys.modules["torch"]
        signature = self._signature
        place = torch.device("cpu" if bound.device is None else f"cuda:{bound.device}")
        recipes = []
        for i in signature.outputs:
            view = bound.values[i]
            assert isinstance(view, ArrayView)
            recipes.append(self._recipe(view.shape, torch_dtype(signature.params[i].dtype), place))
        recipes += [self._recipe((size,), torch.uint8, place) for size in plan.workspaces]
        placed = [part for part in plan.placed if part is not None]
        block = make_block(placed)
        launches = []
        for part, slot in zip(placed, block.slots, strict=True):
            sources = [self._source(argument.kind, argument.index) for argument in part.launch.arguments]
            letters = part.format.letters
            values = [
                _nothing(letter) if source is not None else self._fixed(plan, part, bound, argument)
                for argument, source, letter in zip(part.launch.arguments, sources, letters, strict=True)
            ]
            part.format.write(block, slot, 0, values)
            launches.append(self._launch(part, slot.config.value or 0, part.format, sources, bound))
        if len(recipes) > _MAX_MADE:
            raise NoShortWay
        record = _Plan(
            self._array(_WORD, key), context, plan.flag or None, len(launches), len(recipes), len(signature.outputs),
            self._array(_Launch, launches), self._array(_Recipe, recipes),
        )  # fmt: skip
        self._kept += [record, block, plan]
        return record

    def _recipe(self, shape: tuple[int, ...], dtype: object, place: object) -> _Recipe:
        keywords = {"dtype": dtype, "device": place}
        return _Recipe(self._object((shape,)), self._object(keywords))

    def _launch(
        self, placed: Placed, config: int, layout: LaunchFormat, sources: Sequence[int | None], bound: Bound
    ) -> _Launch:
        if len(sources) > _MAX_ARGUMENTS or layout.argument_bytes > _MAX_BYTES:
            raise NoShortWay
        filled, encoded = [], []
        for argument, source, letter, offset in zip(
            placed.launch.arguments, sources, layout.letters, layout.offsets, strict=True
        ):
            if argument.kind == "tensor_map":
                encoded.append(self._map(placed.maps[argument.index], offset, bound))
            if source is None:
                continue
            if argument.kind == "scalar" and letter not in _LETTERS[self._kinds[argument.index]]:
                raise NoShortWay
            filled.append(_Argument(source, offset, size_of(letter)))
        return _Launch(
            config, placed.function, config + ARGUMENTS_OFFSET, layout.argument_bytes, len(sources), len(filled),
            len(encoded), self._array(_WORD, layout.offsets), self._array(_Argument, filled),
            self._array(_Map, encoded), self._object(placed.launch.name),
        )  # fmt: skip

    def _map(self, maps: TensorMaps, offset: int, bound: Bound) -> _Map:
        """What the launcher encodes anew where the tensor lies elsewhere."""
        text = maps.shape.text
        if text.pixels:
            raise NoShortWay  # the launcher knows the arguments of `cuTensorMapEncodeTiled`
        self._kept.append(maps)
        arrays = (ctypes.addressof(array) for array in (maps.dims, maps.strides, maps.box, maps.steps))
        return _Map(
            self._source("tensor", text.tensor), offset, bound.address(text.tensor), *arrays, len(text.box),
            data_type(text.dtype), NOT_INTERLEAVED, SWIZZLE_CODES[text.swizzle], PROMOTION, ZEROS_OUTSIDE,
        )  # fmt: skip

    def _source(self, kind: str, index: int) -> int | None:
        """Which value of a call an argument is: inputs, then outputs, then workspaces; None if it never changes."""
        inputs, outputs = self._signature.inputs, self._signature.outputs
        if kind == "workspace":
            return len(inputs) + len(outputs) + index
        if kind not in ("tensor", "scalar"):
            return None
        return inputs.index(index) if index in inputs else len(inputs) + outputs.index(index)

    def _fixed(self, plan: Plan, placed: Placed, bound: Bound, argument: KernelArgument) -> int | bytes:
        """What an argument is until a call changes it."""
        match argument.kind:
            case "symbol":
                return plan.symbols[argument.index]
            case "failure":
                return plan.flag
            case "tensor_map":
                maps = placed.maps[argument.index]
                return maps[bound.address(maps.shape.text.tensor)]
        raise NoShortWay


def _kind(signature: Signature, index: int) -> int:
    """How the launcher reads a parameter.

    Raises:
        NoShortWay: It cannot.
    """
    param = signature.params[index]
    dtype = param.dtype
    if dtype.lanes > 1 or dtype.bits < 8:
        raise NoShortWay
    if isinstance(param, TensorParam):
        if dlpack_type(dtype) is None or torch_dtype(dtype) is None:
            raise NoShortWay
        return _TENSOR
    if param.pointer:
        return _POINTER
    if dtype.is_float:
        if dtype.bits not in (32, 64) or dtype == "tfloat32":
            raise NoShortWay
        return _FLOAT32 if dtype.bits == 32 else _FLOAT64
    return _BOOL if dtype.is_bool else _SIGNED if dtype.limits[0] < 0 else _UNSIGNED


def _nothing(letter: str) -> int | float:
    return 0.0 if letter in "fd" else 0


def _signed(value: int) -> int:
    """The same 64 bits as a signed number."""
    return (value + 2**63) % 2**64 - 2**63
