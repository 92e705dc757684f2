from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilelang.targets.nvidia.present_device import present_arch
from tilelang.targets.target import Target, parse_target


@pytest.fixture(autouse=True)
def _no_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a GPU, whatever this one has."""
    monkeypatch.setattr("ctypes.CDLL", _no_library)
    monkeypatch.setattr("tilelang.targets.nvidia.present_device._KERNEL_MODULE", Path("/nowhere"))
    present_arch.cache_clear()
    yield
    present_arch.cache_clear()


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def test_the_first_device_is_asked_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: _Driver())  # without the functions of the management library
    assert Target("cuda", "sm_89") == parse_target("auto")


class _Driver:
    """libcuda with one device of capability 8.9."""

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device: Any, index: int) -> int:
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        value._obj.value = {75: 8, 76: 9}[attribute]
        return 0


class _Management:
    """NVML with devices of these capabilities; those at `divided` are in MIG mode."""

    def __init__(self, *capabilities: tuple[int, int], divided: tuple[int, ...] = (), status: int = 0) -> None:
        self._capabilities, self._divided, self._status = capabilities, divided, status

    def nvmlInit_v2(self) -> int:
        return self._status

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self._capabilities)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, device: Any) -> int:
        device._obj.value = index + 1
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, device: Any, major: Any, minor: Any) -> int:
        major._obj.value, minor._obj.value = self._capabilities[device.value - 1]
        return 0

    def nvmlDeviceGetMigMode(self, device: Any, now: Any, later: Any) -> int:
        now._obj.value = device.value - 1 in self._divided
        return 0


@pytest.mark.parametrize(
    ("visible", "management", "arch"),
    [
        (None, _Management((9, 0)), "sm_90a"),
        (None, _Management((8, 0), (8, 0)), "sm_80"),
        ("1,0", _Management((8, 0), (8, 0)), "sm_80"),
        # where only the driver knows, it is asked; its device is of capability 8.9
        (None, _Management((9, 0), (8, 0)), "sm_89"),
        (None, _Management((9, 0), divided=(0,)), "sm_89"),
        (None, _Management((9, 0), status=999), "sm_89"),
        (None, _Management(), "sm_89"),
        ("", _Management((9, 0)), "sm_89"),
        ("1", _Management((9, 0)), "sm_89"),
        ("GPU-47f1096e", _Management((9, 0)), "sm_89"),
    ],
)
def test_cuda_is_started_only_where_devices_differ_or_hide(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, management: _Management, arch: str
) -> None:
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr("ctypes.CDLL", lambda name: management if "ml" in name else _Driver())
    assert Target("cuda", arch) == parse_target("cuda")


@pytest.fixture
def kernel_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the driver shows of one GPU in the file system, and an empty cache folder."""
    device = tmp_path / "gpus" / "0000:00:06.0" / "information"
    device.parent.mkdir(parents=True)
    device.write_text("Model: \t NVIDIA H200\nGPU UUID: \t GPU-1\n")
    (tmp_path / "version").write_text("580\n")
    monkeypatch.setattr("tilelang.targets.nvidia.present_device._KERNEL_MODULE", tmp_path)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return device


def _answer(monkeypatch: pytest.MonkeyPatch, management: _Management) -> Target:
    """What "cuda" means to a new process."""
    monkeypatch.setattr("ctypes.CDLL", lambda name: management if "ml" in name else _Driver())
    present_arch.cache_clear()
    return parse_target("cuda")


def test_devices_are_asked_once_per_cache_folder(monkeypatch: pytest.MonkeyPatch, kernel_module: Path) -> None:
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    silent = _Management((8, 0))  # nobody hears what it would say
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, silent)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert Target("cuda", "sm_80") == _answer(monkeypatch, silent)
    kernel_module.write_text(kernel_module.read_text().replace("GPU-1", "GPU-2"))
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"seen": null}', "null", "3"])
def test_a_damaged_record_of_devices_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, kernel_module: Path, damage: str
) -> None:
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    (kernel_module.parents[2] / "cache" / "devices.json").write_text(damage)
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))


def test_devices_that_differ_and_answers_of_the_driver_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, kernel_module: Path
) -> None:
    assert Target("cuda", "sm_89") == _answer(monkeypatch, _Management())
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    other = kernel_module.parents[1] / "1" / "information"
    other.parent.mkdir()
    other.write_text("Model: \t NVIDIA A100\n")
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))
    assert Target("cuda", "sm_89") == _answer(monkeypatch, _Management((8, 0), (9, 0)))


def test_without_a_cache_devices_are_asked_each_time(monkeypatch: pytest.MonkeyPatch, kernel_module: Path) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert Target("cuda", "sm_90a") == _answer(monkeypatch, _Management((9, 0)))
    assert Target("cuda", "sm_80") == _answer(monkeypatch, _Management((8, 0)))
    assert not (kernel_module.parents[2] / "cache").exists()


def test_a_management_library_without_a_driver_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: _Management((9, 0)) if "ml" in name else _no_library(name))
    assert Target("cpu") == parse_target("auto")


def test_a_driver_that_does_not_start_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        def cuInit(self, flags: int) -> int:
            return 100

    monkeypatch.setattr("ctypes.CDLL", lambda name: Driver())
    assert Target("cpu") == parse_target("auto")
