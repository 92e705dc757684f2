"""The records that `call_checker.cpp` reads for one kernel: its table of arguments and its plans.

Invariant: records are complete before the checker can access them, are never changed, and live as long as the function.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.records import record
from tilelang.runtime.argument_specs import LOCATION, ArgumentSpec, Kind
from tilelang.runtime.argument_table import NUMPY, UNKNOWN, ArgumentTable, Key
from tilelang.runtime.arrays import Allocation, dlpack_type, is_torch_for_rocm, torch_dtype
from tilelang.runtime.checker import HEAD_BYTES, Checker, DlpackExchange, dlpack_exchange, supports_numpy

HOST_MEMORY, CUDA_DEVICES, ROCM_DEVICES = 1, 2, 10  # Source: dlpack.h, enum DLDeviceType
_MAX_VALUES, _MAX_KEY, _MAX_ALLOCATIONS = 256, 256, 16  # as in call_checker.cpp
_WORD, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
_FEW_PLANS, _MANY_PLANS = 32, 1024  # of a kernel whose sizes are constant, and of others
_SLOTS_PER_PLAN = 4


class NotNative(Exception):
    """Raised for calls that the checker does not support; they are checked in Python."""


class _Extent(ctypes.Structure):
    _fields_ = (("rule", _WORD), ("value", _WORD))


class _ArgumentSpec(ctypes.Structure):
    _fields_ = (
        *((name, _WORD) for name in ("kind", "slot", "key", "alignment", "low")), ("high", ctypes.c_uint64),
        *((name, _WORD) for name in ("rank", "strided", "written", "negatable", "dlpack_dtype")),
        ("numpy_dtype", _ADDRESS), ("element_bytes", _WORD), ("extents", _ADDRESS),
    )  # fmt: skip


class _Allocation(ctypes.Structure):
    _fields_ = (("slot", _WORD), ("function", _ADDRESS), ("args", _ADDRESS), ("keywords", _ADDRESS))


class _Plan(ctypes.Structure):
    _fields_ = (
        ("key", _ADDRESS), ("start", _ADDRESS), ("state", _ADDRESS), ("failed", _ADDRESS), ("first_symbol", _WORD),
        ("symbol_count", _WORD), ("symbols", _ADDRESS), ("allocation_count", _WORD), ("returned_count", _WORD),
        ("allocations", _ADDRESS),
    )  # fmt: skip


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("tensor_of", _ADDRESS), ("stream_of", _ADDRESS), ("device_kind", _WORD), ("head_bytes", _WORD),
        ("array_type", _ADDRESS), ("tensor_type", _ADDRESS), ("parameter_type", _ADDRESS), ("integer_type", _ADDRESS),
        ("bool_type", _ADDRESS), ("float_type", _ADDRESS), ("spec_count", _WORD), ("key_size", _WORD), ("slots", _WORD),
        ("specs", _ADDRESS), ("table", _ADDRESS),
    )  # fmt: skip


@record
class NativePlan:
    """Starts calls with one key from machine code.

    Attributes:
        start: The address of a function of a state, the values of a call and a stream.
        state: The address that it takes.
        failed: Raises for a result of the function other than 0.
        symbols: The values after those of the parameters.
        outputs: Allocations of the outputs, in the order of return.
        workspaces: Allocations of the workspaces; their addresses follow the symbols.
        keep_alive: Objects that live as long as the plan.
    """

    start: int
    state: int
    failed: Callable[[int], Any]
    symbols: Sequence[int] = ()
    outputs: Sequence[Allocation] = ()
    workspaces: Sequence[Allocation] = ()
    keep_alive: list[Any] = field(default_factory=list)


class NativeCall:
    """The calls of a kernel in machine code.

    Args:
        table: The fast checks of the kernel's arguments.
        checker: The loaded checker.
        missed: Called with the arguments of calls that are not recognized: for `call`, and for `attempt`.
        exchange: torch's DLPack functions; found by default.
        device_kind: The DLPack device type of tensors.

    Attributes:
        call: Executes a call.
        attempt: The same, with the other function for calls that are not recognized.
        supports_torch: Whether it supports torch tensors.

    Raises:
        NotNative: The table is larger than the checker's.
    """

    def __init__(
        self,
        table: ArgumentTable,
        checker: Checker,
        missed: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        exchange: DlpackExchange | None = None,
        device_kind: int | None = None,
    ) -> None:
        torch: Any = sys.modules.get("torch")
        self._table, self._checker = table, checker
        self._keep_alive: list[Any] = []  # what the records point to
        self._plans: dict[Key, Any] = {}
        if exchange is None and torch is not None:
            exchange = dlpack_exchange(torch.Tensor)
        self.supports_torch = exchange is not None
        self._free_slots = _MANY_PLANS if table.key_size > 1 else _FEW_PLANS
        slots = self._free_slots * _SLOTS_PER_PLAN
        if len(table.signature.params) + len(table.signature.symbols) > _MAX_VALUES or table.key_size > _MAX_KEY:
            raise NotNative
        gpus = ROCM_DEVICES if is_torch_for_rocm() else CUDA_DEVICES
        kind = device_kind or (gpus if table.device else HOST_MEMORY)
        arrays = np.ndarray if not table.device and supports_numpy() else None
        types = (torch.Tensor, torch.nn.Parameter) if exchange is not None else (None, None)
        tensor_of, stream_of = (None, None) if exchange is None else (exchange.tensor_of, exchange.stream_of)
        objects = [None if one is None else id(one) for one in (arrays, *types, int, bool, float)]
        self._kernel = _Kernel(
            tensor_of, stream_of if table.device else None, kind, HEAD_BYTES, *objects, len(table.specs),
            table.key_size, slots, self._array(_ArgumentSpec, [self._spec(spec) for spec in table.specs]),
            self._array(_ADDRESS, [None] * slots),
        )  # fmt: skip
        self._supports_arrays = arrays is not None
        is_negated = None if torch is None else torch.Tensor.is_neg
        state = (is_negated, None, self._kernel, self._keep_alive, types)
        address = ctypes.addressof(self._kernel)
        self.call, self.attempt = (checker.function((address, slow_path, *state)) for slow_path in missed)

    def supports(self, key: Key) -> bool:
        """Whether the checker supports the arrays of a key."""
        location = key[LOCATION]
        return location == UNKNOWN or (self._supports_arrays if location == NUMPY else self.supports_torch)

    def add_plan(self, key: Key, plan: Any) -> bool:
        """Adds a plan for calls with a key.

        Returns:
            False if the table is full; then a new one must be made.

        Raises:
            NotNative: Such calls cannot be started in machine code.
        """
        if self._plans.get(key) == plan:
            return True
        if self._free_slots == 0:
            return False
        memory = self._plan(key, plan.native(self._checker))
        self._free_slots -= 1
        self._plans[key] = plan
        self._checker.add_plan(ctypes.addressof(self._kernel), ctypes.addressof(memory))
        return True

    # -- records --------------------------------------------------------------------------------------------
    def _array(self, kind: Any, values: Sequence[Any]) -> int | None:
        """The address of an array that lives as long as the function."""
        if not values:
            return None
        array = (kind * len(values))(*values)
        self._keep_alive.append(array)
        return ctypes.addressof(array)

    def _object(self, value: Any) -> int | None:
        """The address of an object that lives as long as the function."""
        if value is None:
            return None
        self._keep_alive.append(value)
        return id(value)

    def _spec(self, spec: ArgumentSpec) -> _ArgumentSpec:
        dtype = spec.param.dtype
        head = (spec.kind, spec.index, self._table.keys.get(spec.index, 0), self._table.alignment(spec))
        if spec.kind is not Kind.TENSOR:
            low, high = (0, 0) if dtype.is_float else dtype.limits
            return _ArgumentSpec(*head, 1 if spec.kind is Kind.POINTER else low, high)
        code, bits = dlpack_type(dtype) or (0, 0)
        dlpack_dtype = -1 if torch_dtype(dtype) is None or not bits else code | bits << 8 | 1 << 16
        extents = self._array(_Extent, [(extent.rule, extent.value) for extent in spec.rules])
        return _ArgumentSpec(
            *head, 0, 0, len(spec.extents), spec.strides is not None, spec.written, spec.may_be_negated, dlpack_dtype,
            self._object(dtype.numpy), dtype.numpy.itemsize, extents,
        )  # fmt: skip

    def _plan(self, key: Key, plan: NativePlan) -> _Plan:
        signature = self._table.signature
        first_symbol = len(signature.params)
        first_workspace = first_symbol + len(plan.symbols)
        slots = [*signature.outputs, *range(first_workspace, first_workspace + len(plan.workspaces))]
        if len(slots) > _MAX_ALLOCATIONS or first_workspace + len(plan.workspaces) > _MAX_VALUES:
            raise NotNative
        allocations = [
            _Allocation(slot, self._object(one.function), self._object(one.args), self._object(one.keywords or None))
            for slot, one in zip(slots, (*plan.outputs, *plan.workspaces), strict=True)
        ]
        memory = _Plan(
            self._array(_WORD, key), plan.start, plan.state, self._object(plan.failed), first_symbol,
            len(plan.symbols), self._array(_WORD, plan.symbols), len(allocations), len(plan.outputs),
            self._array(_Allocation, allocations),
        )  # fmt: skip
        self._keep_alive += [memory, plan]
        return memory
