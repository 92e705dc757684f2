from collections.abc import Iterator
from typing import Any

import pytest

from tilelang.targets.amd import present_device
from tilelang.targets.amd.present_device import present_arch
from tilelang.targets.target import Target, parse_target


@pytest.fixture(autouse=True)
def _no_nvidia(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tilelang.targets.nvidia.present_device.present_arch", lambda: None)
    monkeypatch.setattr(present_device, "_DEVICE_NODES", ("/dev/null",))
    present_arch.cache_clear()
    yield
    present_arch.cache_clear()


class _Library:
    """HIP with so many devices of one architecture, and a query that says where that stands in the record."""

    def __init__(self, arch: bytes, count: int = 1, place: int = 1160, status: int = 0, name: bytes = b"Instinct"):
        self._arch, self._count, self._place, self._status, self._name = arch, count, place, status, name

    def hipGetDeviceCount(self, count: Any) -> int:
        count._obj.value = self._count
        return 0 if self._count else 100

    def _query(self, properties: Any, device: int) -> int:
        record = properties._obj
        record[: len(self._name)] = self._name
        record[self._place : self._place + len(self._arch)] = self._arch
        return self._status


class _Recent(_Library):
    def hipGetDevicePropertiesR0600(self, properties: Any, device: int) -> int:
        return self._query(properties, device)


class _Old(_Library):
    def hipGetDeviceProperties(self, properties: Any, device: int) -> int:
        return self._query(properties, device)


@pytest.mark.parametrize(
    ("library", "arch"),
    [
        (_Recent(b"gfx942:sramecc+:xnack-"), "gfx942"),
        (_Old(b"gfx90a", place=396), "gfx90a"),
        (_Recent(b"gfx1201", name=b"gfx1100"), "gfx1201"),  # some devices are called by an architecture
    ],
)
def test_the_first_device_is_asked_of_hip(monkeypatch: pytest.MonkeyPatch, library: _Library, arch: str) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    assert Target("hip", arch) == parse_target("hip") == parse_target("auto")


@pytest.mark.parametrize(
    "library",
    [_Recent(b"gfx942", count=0), _Recent(b"gfx942", status=1), _Recent(b"gfx906"), _Recent(b""), _Library(b"gfx942")],
)
def test_a_library_without_a_known_device_is_no_device(monkeypatch: pytest.MonkeyPatch, library: _Library) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    assert present_arch() is None
    assert Target("cpu") == parse_target("auto")


def test_without_the_library_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def no_library(name: str) -> None:
        asked.append(name)
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", no_library)
    assert present_arch() is None and present_arch() is None
    assert len(set(asked)) == len(asked) > 1


def test_without_a_device_node_no_library_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(present_device, "_DEVICE_NODES", ("/dev/no such device",))
    monkeypatch.setattr(present_device, "open_library", lambda name: pytest.fail(f"{name} is searched"))
    assert present_arch() is None
