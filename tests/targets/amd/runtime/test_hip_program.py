from typing import Any

import pytest
from fake_cuda import launch, signature, tensor
from fake_hip import FakeHip, hip, hip_code, hip_driver  # noqa: F401

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import DriverError, ResourceError
from tilelang.targets.amd.runtime.hip_driver import HipDriver
from tilelang.targets.amd.runtime.hip_program import HipProgram
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.gpu.runtime.resources import Resources


def program(*launches: DeviceLaunch, **fields: Any) -> HipProgram:
    return HipProgram(signature(tensor("A", 8)), hip_code(*launches, **fields), FailureBoard())


def test_code_is_loaded_once_per_device(hip: FakeHip, hip_driver: HipDriver) -> None:
    made = program(launch(name="one"), launch(name="two"))
    first = made.functions(hip_driver, 0)
    assert ["one", "two"] == [hip.functions[function] for function in first]
    assert first == made.functions(hip_driver, 0)
    assert [b"code object"] == hip.modules
    with hip_driver.inside(1):
        assert first != made.functions(hip_driver, 1)


@pytest.mark.parametrize(
    ("arch", "name", "hint"),
    [
        (b"gfx90a:sramecc+:xnack-", "gfx90a", "compile with target={'kind': 'hip', 'arch': 'gfx90a'}"),
        (b"gfx906", "gfx906", ""),
        (b"", "device of unknown architecture", ""),
    ],
)
def test_another_device_is_refused_by_name(arch: bytes, name: str, hint: str) -> None:
    with pytest.raises(DriverError) as caught:
        program(launch()).functions(HipDriver(FakeHip(arch=arch)), 0)
    assert f"kernel: compiled for gfx942, which device rocm:0, a {name}, cannot run" == caught.value.message
    assert hint == caught.value.hint


def test_dynamic_shared_memory_and_what_the_kernel_declares_share_the_limit(hip: FakeHip, hip_driver: HipDriver) -> None:
    made = program(launch(name="k", shared_bytes=32768))
    made.code.resources["k"] = Resources(64, 32768 + 32768, 0, 0)
    made.functions(hip_driver, 0)
    beyond = program(launch(name="k", shared_bytes=32768))
    beyond.code.resources["k"] = Resources(64, 32768 + 32769, 0, 0)
    with pytest.raises(ResourceError) as caught:
        beyond.functions(hip_driver, 0)
    assert "kernel: shared memory: 65537 bytes asked, 65536 available on rocm:0" == caught.value.message
    computed = program(launch(name="k", shared_bytes=0, shared_text="n * 4"))
    computed.code.resources["k"] = Resources(64, 1024, 0, 0)
    assert [64512] == computed.shared_bytes({"n": 16128}, hip_driver, 0)
    with pytest.raises(ResourceError, match="shared memory: 65540 bytes asked"):
        computed.shared_bytes({"n": 16129}, hip_driver, 0)


def test_more_threads_than_a_block_may_have_are_refused(hip_driver: HipDriver) -> None:
    with pytest.raises(ResourceError, match="kernel: 2048 threads per block asked, 1024 available"):
        program(launch(threads=(1024, 2, 1))).functions(hip_driver, 0)


def test_there_are_no_clusters(hip_driver: HipDriver) -> None:
    with pytest.raises(ResourceError, match="kernel: clusters of 2 blocks asked, at most 1 can run together"):
        program(launch(cluster=(2, 1, 1))).functions(hip_driver, 0)


def test_the_threads_along_an_axis_are_limited() -> None:
    made = program(launch(grid=("M",), threads=(256, 1, 1)))
    assert [(2**24 - 1, 1, 1)] == made.grids({"M": 2**24 - 1})
    with pytest.raises(ResourceError) as caught:
        made.grids({"M": 2**24})
    assert (
        "kernel: a grid of 16777216 blocks of 256 threads along x asked, at most 4294967295 threads along an axis can be "
        "started"
    ) == caught.value.message
