from typing import Any

import pytest
from fake_cuda import FakeCuda, cuda, device_code, driver, launch, signature, tensor  # noqa: F401

from tilelang.codegen.source import DeviceLaunch
from tilelang.errors import CompilerBug, ResourceError
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram


def program(*launches: DeviceLaunch, **fields: Any) -> CudaProgram:
    return CudaProgram(signature(tensor("A", 8)), device_code(*launches, **fields), FailureBoard())


def test_code_is_loaded_once_per_context(cuda: FakeCuda, driver: CudaDriver) -> None:
    made = program(launch(name="one"), launch(name="two"))
    driver.enter(0)
    first = made.functions(driver, 0)
    assert ["one", "two"] == [cuda.functions[function] for function in first]
    assert first == made.functions(driver, 0)
    assert 1 == len(cuda.modules)
    cuda.context = 4000
    assert first != made.functions(driver, 0)
    assert 2 == len(cuda.modules)


def test_loading_is_allowed_while_a_graph_is_recorded(cuda: FakeCuda, driver: CudaDriver) -> None:
    driver.enter(0)
    program(launch()).functions(driver, 0)
    first = cuda.calls.index("cuThreadExchangeStreamCaptureMode")
    assert first < cuda.calls.index("cuModuleLoadData")
    assert "cuThreadExchangeStreamCaptureMode" == cuda.calls[-1]


def test_more_shared_memory_than_the_device_has_is_refused(cuda: FakeCuda, driver: CudaDriver) -> None:
    driver.enter(0)
    cuda.shared = 101376
    with pytest.raises(ResourceError) as caught:
        program(launch(shared_bytes=101377)).functions(driver, 0)
    assert (
        "kernel: shared memory: 101377 bytes asked, 101376 available on cuda:0\n"
        "hint: reduce num_stages or the tiles"
    ) == str(caught.value)


def test_shared_memory_is_computed_from_names(cuda: FakeCuda, driver: CudaDriver) -> None:
    driver.enter(0)
    cuda.shared = 101376
    made = program(launch(shared_text="(1024 + (n * 4))"), launch(name="two"))
    assert {"n"} == made.used_names
    made.functions(driver, 0)
    assert 101376 in [value for _, value in cuda.attributes]  # whatever a launch asks for
    assert [1424, 1024] == made.shared_bytes({"n": 100}, driver, 0)
    with pytest.raises(RuntimeError, match="kernel: shared memory: 101380 bytes asked, 101376 available on cuda:0"):
        made.shared_bytes({"n": 25089}, driver, 0)


def test_more_threads_than_a_block_may_have_are_refused(driver: CudaDriver) -> None:
    driver.enter(0)
    with pytest.raises(ResourceError, match="kernel: 2048 threads per block asked, 1024 available"):
        program(launch(threads=(1024, 2, 1))).functions(driver, 0)


def test_clusters_that_no_device_has_are_refused(driver: CudaDriver) -> None:
    driver.enter(0)
    with pytest.raises(ResourceError, match="kernel: clusters of 32 blocks asked, at most 16 can run together"):
        program(launch(cluster=(8, 4, 1))).functions(driver, 0)
    with pytest.raises(ResourceError, match="kernel: the blocks of a grid with clusters cannot synchronize"):
        program(launch(cluster=(2, 1, 1), cooperative=True)).functions(driver, 0)


@pytest.mark.parametrize(("cluster", "axis", "size"), [((2, 1, 1), "x", 2), ((1, 3, 1), "y", 3), ((1, 1, 2), "z", 2)])
def test_a_grid_that_cannot_be_cut_into_clusters_is_refused(cluster: Any, axis: str, size: int) -> None:
    made = program(launch(grid=("M",), cluster=cluster))
    count = "5 blocks" if axis == "x" else "1 block"
    with pytest.raises(ResourceError, match=f"kernel: a grid of {count} along {axis} cannot be cut into clusters of {size}"):
        made.grids({"M": 5})
    assert [(0, 1, 1)] == program(launch(grid=("M",), cluster=(2, 1, 1))).grids({"M": 0})
    assert [(6, 1, 1)] == program(launch(grid=("M",), cluster=(2, 1, 1))).grids({"M": 6})


def test_grids_and_workspaces_are_computed_from_names() -> None:
    made = program(
        launch(grid=("((M + 127) // 128)", "n")), launch(name="two", grid=("min(M, 7)",)), workspaces=("(M * 4)",)
    )
    assert {"M", "n", "min"} == made.used_names
    assert [(8, 3, 1), (7, 1, 1)] == made.grids({"M": 1000, "n": 3})
    assert [4000] == made.workspaces({"M": 1000, "n": 3})


def test_a_negative_extent_is_an_empty_grid() -> None:
    assert [(0, 1, 1)] == program(launch(grid=("M - 5",))).grids({"M": 3})


@pytest.mark.parametrize(("grid", "axis"), [(("M", "1", "70000"), "z"), (("1", "65536"), "y"), (("2**31",), "x")])
def test_a_grid_that_no_device_can_start_is_refused(grid: tuple[str, ...], axis: str) -> None:
    with pytest.raises(ResourceError, match=f"blocks along {axis} asked, at most"):
        program(launch(grid=grid)).grids({"M": 3})


def test_a_grid_that_is_no_expression_is_our_fault() -> None:
    with pytest.raises(CompilerBug, match="no Python expression"):
        program(launch(grid=("M +",)))
