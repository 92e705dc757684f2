import ctypes
from collections.abc import Iterator

import pytest
from fake_hip import FakeHip, hip, hip_driver  # noqa: F401

from tilelang.errors import DriverError
from tilelang.targets.amd.runtime import hip_driver as module
from tilelang.targets.amd.runtime.hip_driver import HipDriver, open_driver
from tilelang.targets.amd.runtime.hip_library import find_library


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """`open_driver`, anew."""
    open_driver.cache_clear()
    yield monkeypatch
    open_driver.cache_clear()


def test_a_machine_without_a_driver_says_what_still_works(opened: pytest.MonkeyPatch) -> None:
    opened.setattr(module, "open_library", lambda name: None)
    with pytest.raises(DriverError) as caught:
        open_driver()
    assert (
        "no HIP driver found: libamdhip64 is in no package of this Python, not below ROCM_PATH, and not among the "
        "system's libraries"
    ) == caught.value.message
    assert (
        "run on a machine with an AMD GPU and ROCm; without one, execution_backend='simulator' runs the kernel on the "
        "CPU, and get_kernel_source(), get_sass() and the compiled code are there"
    ) == caught.value.hint


def test_the_library_is_opened_and_started(opened: pytest.MonkeyPatch) -> None:
    library = FakeHip()
    opened.setattr(module, "open_library", lambda name: library if name == "amdhip64" else None)
    assert (6, 2) == open_driver().version
    assert ["hipInit", "hipDriverGetVersion"] == library.calls


@pytest.mark.skipif(find_library("amdhip64") is None, reason="needs libamdhip64")
def test_the_real_library_is_opened_on_a_machine_without_a_gpu(opened: pytest.MonkeyPatch) -> None:
    """What a real one says, whatever it is: a device that works, none, or one that is too old."""
    try:
        assert open_driver().device_count() > 0
    except DriverError as error:
        assert "hipErrorNoDevice" in error.message or "hipErrorInvalidDevice" in error.message or "too old" in error.message
        assert error.hint


@pytest.mark.parametrize(("version", "name"), [(50_221_153, "5.2"), (50_731_921, "5.7")])
def test_a_driver_that_is_too_old_is_refused(version: int, name: str) -> None:
    with pytest.raises(DriverError) as caught:
        HipDriver(FakeHip(version=version))
    assert f"the HIP driver is too old: it is of ROCm {name}, and 6.0 or newer is needed" == caught.value.message


def test_a_driver_that_lacks_a_function_is_too_old(opened: pytest.MonkeyPatch) -> None:
    class Old(FakeHip):
        @property
        def hipModuleLaunchCooperativeKernel(self) -> None:  # type: ignore[override]
            raise AttributeError("undefined symbol: hipModuleLaunchCooperativeKernel")

    opened.setattr(module, "open_library", lambda name: Old())
    with pytest.raises(DriverError, match="too old: undefined symbol: hipModuleLaunchCooperativeKernel"):
        open_driver()


@pytest.mark.parametrize("status", [100, 101])
def test_a_machine_without_a_device_says_what_to_check(status: int) -> None:
    library = FakeHip()
    library.failing["hipInit"] = status
    with pytest.raises(DriverError) as caught:
        HipDriver(library)
    assert f"hipInit failed with hipError{status} ({status}): so it is" == caught.value.message
    assert caught.value.hint.startswith("check `rocminfo`, that this user may open /dev/kfd")


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (2, "free device memory"), (701, "use fewer threads or registers"), (720, "T.sync_grid needs all blocks"),
        (700, "the device cannot be used by this process any more"), (719, "the device cannot be used"), (999, ""),
    ],
)  # fmt: skip
def test_a_failure_says_what_to_do(hip: FakeHip, hip_driver: HipDriver, status: int, hint: str) -> None:
    hip.failing["hipDeviceSynchronize"] = status
    with pytest.raises(DriverError, match=rf"hipDeviceSynchronize failed with hipError{status} \({status}\): so it is") as caught:
        hip_driver.synchronize()
    assert caught.value.hint.startswith(hint)
    assert bool(hint) == bool(caught.value.hint)


def test_code_that_the_driver_cannot_read_names_its_version(hip: FakeHip, hip_driver: HipDriver) -> None:
    hip.failing["hipModuleLoadData"] = 209
    with pytest.raises(DriverError) as caught:
        hip_driver.load(b"")
    assert "the driver of ROCm 6.2 cannot read this code for this device; update ROCm" == caught.value.hint


def test_a_device_says_its_name_architecture_and_memory(hip_driver: HipDriver) -> None:
    assert ("Imaginary Instinct", "gfx942", 65536, 1) == (
        hip_driver.name(0), hip_driver.arch(0), hip_driver.max_shared_bytes(0), hip_driver.device_count()
    )  # fmt: skip


def test_a_thread_uses_a_device_only_inside() -> None:
    library = FakeHip(devices=2)
    driver = HipDriver(library)
    assert 0 == driver.current_device() == driver.current_context()
    with driver.inside(1) as context:
        assert 1 == context == library.device
    assert 0 == library.device
    assert 2 == library.calls.count("hipSetDevice")
    with driver.inside(0):
        pass
    assert 2 == library.calls.count("hipSetDevice")


def test_pinned_memory_is_coherent_and_seen_by_every_device(hip: FakeHip, hip_driver: HipDriver) -> None:
    assert bytes(16) == ctypes.string_at(hip_driver.pin(16), 16)
    assert [(16, 0x40000000 | 2 | 1)] == hip.pinned


def test_nothing_is_asked_for_dynamic_shared_memory(hip: FakeHip, hip_driver: HipDriver) -> None:
    before = len(hip.calls)
    hip_driver.prepare(1000, None, 65536)  # type: ignore[arg-type]
    assert before == len(hip.calls)
