"""Records for the checker; calls by them are tested in `test_fast_path.py` and `test_native_launch.py`."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from fake_cuda import scalar, signature, tensor

from tilelang.runtime.argument_table import NUMPY, UNKNOWN, ArgumentTable
from tilelang.runtime.arrays import Allocation
from tilelang.runtime.native_call import NativeCall, NativePlan, NotNative
from tilelang.targets.cpu.runtime.checker_builder import build

CHECKER = build()
pytestmark = pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler")


@dataclasses.dataclass
class Plan:
    """Never started."""

    workspaces: int = 0

    def native(self, checker: Any) -> NativePlan:
        return NativePlan(0, 0, print, workspaces=[Allocation(np.empty, (8, np.uint8))] * self.workspaces)


def made(table: ArgumentTable) -> NativeCall:
    assert CHECKER is not None
    return NativeCall(table, CHECKER, (lambda args: f"long {args}", lambda args: f"missed {args}"))


def test_unrecognized_calls_call_the_given_function() -> None:
    native = made(ArgumentTable(signature(tensor("A", 8))))
    assert ("long (3,)", "missed (4, 5)") == (native.call(3), native.attempt(4, 5))


def test_tables_have_a_maximal_size() -> None:
    with pytest.raises(NotNative):
        made(ArgumentTable(signature(tensor("A", 8), *(scalar(f"n{n}") for n in range(256)))))


def test_a_plan_with_too_many_allocations_is_refused() -> None:
    native = made(ArgumentTable(signature(tensor("A", 8))))
    assert native.add_plan((NUMPY,), Plan(16))
    with pytest.raises(NotNative):
        native.add_plan((NUMPY,), Plan(17))


def test_equal_plans_use_one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.runtime.native_call._FEW_PLANS", 2)
    native = made(ArgumentTable(signature(tensor("A", 8))))
    assert all(native.add_plan((NUMPY,), Plan(1)) for _ in range(5))
    assert [True, False] == [native.add_plan((NUMPY,), Plan(n)) for n in (2, 3)]


def test_arrays_on_devices_are_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    native = made(ArgumentTable(signature(tensor("A", 8)), device=True))
    assert [False, True] == [native.supports((home,)) for home in (NUMPY, UNKNOWN)]
    monkeypatch.setattr("tilelang.runtime.native_call.supports_numpy", lambda: False)
    assert not made(ArgumentTable(signature(tensor("A", 8)))).supports((NUMPY,))
