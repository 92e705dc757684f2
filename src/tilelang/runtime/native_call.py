"""What `call_checker.cpp` needs of one kernel: its table and its plans, as records in memory.

Takes an `ArgumentTable`, a `Checker` and what `bind` accepted; gives a function of the call's arguments. Invariant:
records are written whole before the checker can see them and live as long as the function; they are never changed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.records import record
from tilelang.runtime.argument_rows import HOME, Kind, Row
from tilelang.runtime.argument_table import NUMPY, UNKNOWN, ArgumentTable, Key
from tilelang.runtime.arrays import Allocation, dlpack_type, torch_dtype
from tilelang.runtime.checker import HEAD_BYTES, Checker, Exchange, exchange_of, numpy_is_known

HOST_MEMORY, CUDA_DEVICES = 1, 2  # Source: dlpack.h, enum DLDeviceType
_MAX_VALUES, _MAX_KEY, _MAX_MADE = 256, 256, 16  # as in call_checker.cpp
_WORD, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
_FEW_PLANS, _MANY_PLANS = 32, 1024  # of a kernel whose sizes are constant, and of others
_SLOTS_PER_PLAN = 4


class NotNative(Exception):
    """The checker cannot take this: the walk in Python can."""


class _Extent(ctypes.Structure):
    _fields_ = (("rule", _WORD), ("value", _WORD))


class _Row(ctypes.Structure):
    _fields_ = (
        *((name, _WORD) for name in ("kind", "slot", "key", "alignment", "low")), ("high", ctypes.c_uint64),
        *((name, _WORD) for name in ("rank", "strided", "written", "negatable", "dlpack_dtype")),
        ("numpy_dtype", _ADDRESS), ("element_bytes", _WORD), ("extents", _ADDRESS),
    )  # fmt: skip


class _Recipe(ctypes.Structure):
    _fields_ = (("slot", _WORD), ("function", _ADDRESS), ("args", _ADDRESS), ("keywords", _ADDRESS))


class _Plan(ctypes.Structure):
    _fields_ = (
        ("key", _ADDRESS), ("start", _ADDRESS), ("state", _ADDRESS), ("failed", _ADDRESS), ("first_symbol", _WORD),
        ("symbol_count", _WORD), ("symbols", _ADDRESS), ("made_count", _WORD), ("returned_count", _WORD),
        ("made", _ADDRESS),
    )  # fmt: skip


class _Kernel(ctypes.Structure):
    _fields_ = (
        ("tensor_of", _ADDRESS), ("stream_of", _ADDRESS), ("device_kind", _WORD), ("head_bytes", _WORD),
        ("array_type", _ADDRESS), ("tensor_type", _ADDRESS), ("parameter_type", _ADDRESS), ("integer_type", _ADDRESS),
        ("bool_type", _ADDRESS), ("float_type", _ADDRESS), ("row_count", _WORD), ("key_size", _WORD), ("slots", _WORD),
        ("rows", _ADDRESS), ("table", _ADDRESS),
    )  # fmt: skip


@record
class NativePlan:
    """How calls with one key are started in machine code.

    Attributes:
        start: The address of a function of a state, the values of a call and a stream.
        state: The address that it takes.
        failed: Takes what the function answers other than 0, and raises.
        symbols: The values behind those of the parameters.
        outputs: How they are made, in the order of return.
        workspaces: How they are made; their addresses are behind the symbols.
        kept: What lives as long as the plan.
    """

    start: int
    state: int
    failed: Callable[[int], Any]
    symbols: Sequence[int] = ()
    outputs: Sequence[Allocation] = ()
    workspaces: Sequence[Allocation] = ()
    kept: list[Any] = field(default_factory=list)


class NativeCall:
    """A kernel's calls in machine code.

    Args:
        table: Of the kernel's arguments.
        checker: Checks them.
        missed: Take the arguments of calls that are not recognized: of `call`, and of `attempt`.
        exchange: How torch lends tensors; asked of torch where it is not given.
        device_kind: On what tensors are.

    Attributes:
        call: Takes the arguments of a call.
        attempt: The same, with the other answer to calls that are not recognized.
        takes_torch: Whether torch lends it tensors.

    Raises:
        NotNative: The table is larger than the checker's.
    """

    def __init__(
        self,
        table: ArgumentTable,
        checker: Checker,
        missed: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        exchange: Exchange | None = None,
        device_kind: int | None = None,
    ) -> None:
        torch: Any = sys.modules.get("torch")
        self._table, self._checker = table, checker
        self._kept: list[Any] = []  # what the records point to
        self._known: dict[Key, Any] = {}
        if exchange is None and torch is not None:
            exchange = exchange_of(torch.Tensor)
        self.takes_torch = exchange is not None
        self._room = _MANY_PLANS if table.key_size > 1 else _FEW_PLANS
        slots = self._room * _SLOTS_PER_PLAN
        if len(table.signature.params) + len(table.signature.symbols) > _MAX_VALUES or table.key_size > _MAX_KEY:
            raise NotNative
        kind = device_kind or (CUDA_DEVICES if table.device else HOST_MEMORY)
        arrays = np.ndarray if not table.device and numpy_is_known() else None
        types = (torch.Tensor, torch.nn.Parameter) if exchange is not None else (None, None)
        tensor_of, stream_of = (None, None) if exchange is None else (exchange.tensor_of, exchange.stream_of)
        objects = [None if one is None else id(one) for one in (arrays, *types, int, bool, float)]
        self._kernel = _Kernel(
            tensor_of, stream_of if table.device else None, kind, HEAD_BYTES, *objects, len(table.rows),
            table.key_size, slots, self._array(_Row, [self._row(row) for row in table.rows]),
            self._array(_ADDRESS, [None] * slots),
        )  # fmt: skip
        self._takes_arrays = arrays is not None
        is_negated = None if torch is None else torch.Tensor.is_neg
        known = (is_negated, None, self._kernel, self._kept, types)
        address = ctypes.addressof(self._kernel)
        self.call, self.attempt = (checker.function((address, one, *known)) for one in missed)

    def takes(self, key: Key) -> bool:
        """Whether the checker sees arrays of a call's framework."""
        home = key[HOME]
        return home == UNKNOWN or (self._takes_arrays if home == NUMPY else self.takes_torch)

    def learn(self, key: Key, plan: Any) -> bool:
        """Lets calls with a key be started as a plan's `native` says.

        Returns:
            False if there is no room; then a new one must be made.

        Raises:
            NotNative: Such calls cannot be started in machine code.
        """
        if self._known.get(key) == plan:
            return True
        if self._room == 0:
            return False
        memory = self._plan(key, plan.native(self._checker))
        self._room -= 1
        self._known[key] = plan
        self._checker.learn(ctypes.addressof(self._kernel), ctypes.addressof(memory))
        return True

    # -- records --------------------------------------------------------------------------------------------
    def _array(self, kind: Any, values: Sequence[Any]) -> int | None:
        """The address of an array that lives as long as the function."""
        if not values:
            return None
        made = (kind * len(values))(*values)
        self._kept.append(made)
        return ctypes.addressof(made)

    def _object(self, value: Any) -> int | None:
        """The address of an object that lives as long as the function."""
        if value is None:
            return None
        self._kept.append(value)
        return id(value)

    def _row(self, row: Row) -> _Row:
        dtype = row.param.dtype
        head = (row.kind, row.index, self._table.keys.get(row.index, 0), self._table.alignment(row))
        if row.kind is not Kind.TENSOR:
            low, high = (0, 0) if dtype.is_float else dtype.limits
            return _Row(*head, 1 if row.kind is Kind.POINTER else low, high)
        code, bits = dlpack_type(dtype) or (0, 0)
        lent = -1 if torch_dtype(dtype) is None or not bits else code | bits << 8 | 1 << 16
        extents = self._array(_Extent, [(extent.rule, extent.value) for extent in row.rules])
        return _Row(
            *head, 0, 0, len(row.extents), row.strides is not None, row.written, row.may_be_negated, lent,
            self._object(dtype.numpy), dtype.numpy.itemsize, extents,
        )  # fmt: skip

    def _plan(self, key: Key, plan: NativePlan) -> _Plan:
        signature = self._table.signature
        first_symbol = len(signature.params)
        first_workspace = first_symbol + len(plan.symbols)
        slots = [*signature.outputs, *range(first_workspace, first_workspace + len(plan.workspaces))]
        if len(slots) > _MAX_MADE or first_workspace + len(plan.workspaces) > _MAX_VALUES:
            raise NotNative
        made = [
            _Recipe(slot, self._object(one.function), self._object(one.args), self._object(one.keywords or None))
            for slot, one in zip(slots, (*plan.outputs, *plan.workspaces), strict=True)
        ]
        memory = _Plan(
            self._array(_WORD, key), plan.start, plan.state, self._object(plan.failed), first_symbol,
            len(plan.symbols), self._array(_WORD, plan.symbols), len(made), len(plan.outputs),
            self._array(_Recipe, made),
        )  # fmt: skip
        self._kept += [memory, plan]
        return memory
