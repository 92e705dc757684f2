import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from fake_cuda import FakeCuda, FakeTensor, FakeTorch, cuda, driver, torch  # noqa: F401

from tilelang.runtime.arguments import Bound
from tilelang.runtime.arrays import ArrayView
from tilelang.targets.gpu.runtime.streams import current_stream, framework, stream_of, workspaces
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver


def view(stream: int | None) -> ArrayView:
    return ArrayView("somebody", None, "", (), (), 0, "cuda:0", True, True, None, stream)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(ptr=55), alloc=lambda size: SimpleNamespace(ptr=size + 1)
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


class CupyArray:
    __module__ = "cupy"


def test_torch_is_asked_for_the_stream_of_the_device(torch: FakeTorch, driver: CudaDriver) -> None:
    bound = Bound([], like=FakeTensor((4,), torch.float32, 3), device=3)
    assert 80 == current_stream(bound, driver)


def test_cupy_is_asked_for_its_stream(cupy: ModuleType, driver: CudaDriver) -> None:
    assert 55 == current_stream(Bound([], like=CupyArray(), device=0), driver)


def test_an_array_may_say_its_stream(driver: CudaDriver) -> None:
    assert 9 == current_stream(Bound([3, view(None), view(9)], like=object(), device=0), driver)


def test_otherwise_it_is_the_stream_that_waits_for_all_others(driver: CudaDriver) -> None:
    assert 1 == driver.default_stream == current_stream(Bound([view(None)], like=object(), device=0), driver)
    assert 1 == stream_of("", 0, driver)


def test_without_an_array_a_framework_that_uses_the_device_decides(torch: FakeTorch) -> None:
    assert "torch" == framework(None)
    torch.cuda.is_initialized = lambda: False
    assert "" == framework(None)


def test_workspaces_come_from_the_framework_of_the_arrays(
    torch: FakeTorch, cuda: FakeCuda, driver: CudaDriver, cupy: ModuleType
) -> None:
    with workspaces([64, 32], Bound([], like=FakeTensor((4,), torch.float32), device=0), 0, driver) as spaces:
        assert [((64,), 0), ((32,), 0)] == [(shape, device) for shape, _, device in torch.allocated]
        assert 2 == len(set(spaces))
    with workspaces([64], Bound([], like=CupyArray(), device=0), 0, driver) as spaces:
        assert [65] == spaces
    assert "cuMemAllocAsync" not in cuda.calls


def test_workspaces_of_other_arrays_come_from_the_driver_in_stream_order(
    cuda: FakeCuda, driver: CudaDriver
) -> None:
    with workspaces([64], Bound([], like=object(), device=0), 5, driver) as spaces:
        assert [0x7000] == spaces
        assert "cuMemFreeAsync" not in cuda.calls
    assert ["cuMemAllocAsync", "cuMemFreeAsync"] == cuda.calls[-2:]


def test_no_workspaces_ask_nobody(driver: CudaDriver) -> None:
    with workspaces([], Bound([], device=0), 0, driver) as spaces:
        assert [] == spaces
