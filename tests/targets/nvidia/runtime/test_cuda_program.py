from typing import Any

import pytest
from fake_cuda import FakeCuda, cuda, device_code, driver, launch, map_text, scalar, signature, tensor  # noqa: F401

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import DriverError
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram


def program(*launches: DeviceLaunch, **fields: Any) -> CudaProgram:
    return CudaProgram(signature(tensor("A", 8)), device_code(*launches, **fields), FailureBoard())


@pytest.mark.parametrize(
    ("arch", "capability", "fits"),
    [
        ("sm_80", (8, 6), True), ("sm_80", (8, 0), True), ("sm_86", (8, 0), False), ("sm_90a", (9, 0), True),
        ("sm_90", (9, 0), True), ("sm_90a", (10, 0), False), ("sm_80", (9, 0), False), ("sm_120", (12, 1), True),
        ("sm_120a", (12, 1), False), ("sm_100a", (10, 3), False),
    ],
)  # fmt: skip
def test_code_runs_on_devices_of_its_family(arch: str, capability: tuple[int, int], fits: bool) -> None:
    driver = CudaDriver(FakeCuda(capability=capability))
    driver.enter(0)
    made = program(launch(), arch=arch)
    if fits:
        made.functions(driver, 0)
    else:
        with pytest.raises(DriverError, match=f"kernel: compiled for {arch}, which device cuda:0"):
            made.functions(driver, 0)


def test_the_message_for_another_device_names_its_architecture() -> None:
    driver = CudaDriver(FakeCuda(capability=(8, 9)))
    driver.enter(0)
    with pytest.raises(DriverError) as caught:
        program(launch()).functions(driver, 0)
    assert (
        "kernel: compiled for sm_90a, which device cuda:0 of compute capability 8.9 cannot run\n"
        "hint: compile with target={'kind': 'cuda', 'arch': 'sm_89'}"
    ) == str(caught.value)


def test_large_clusters_are_asked_for(cuda: FakeCuda, driver: CudaDriver) -> None:
    driver.enter(0)
    for cluster, asked in (((8, 1, 1), []), ((4, 2, 2), [14])):
        cuda.attributes.clear()
        program(launch(cluster=cluster)).functions(driver, 0)
        assert [8, *asked] == [which for which, _ in cuda.attributes]


def test_tensor_maps_are_computed_from_names() -> None:
    text = map_text(dims=("K", "M"), strides=("K * 2",))
    made = program(launch(maps=(text,), name="one"), launch(name="two"))
    assert {"M", "K"} == made.used_names
    (one,), two = made.tensor_maps({"M": 3, "K": 8})
    assert ([], text, (8, 3), (16,)) == (two, one.text, one.dims, one.strides)


def test_maps_are_128_bytes_at_multiples_of_64() -> None:
    arguments = (("scalar", 1, "int"), ("tensor_map", 0, "tl_tensor_map"), ("tensor", 0, "void*"))
    s = signature(tensor("A", 8), scalar("n"))
    (layout,) = CudaProgram(s, device_code(launch(*arguments, maps=(map_text(),))), FailureBoard()).formats
    assert (("i", "128s", "Q"), (0, 64, 192)) == (layout.letters, layout.offsets)
