import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda

import tilelang.testing as door
from tilelang.errors import ArgumentError, DriverError, OptionError
from tilelang.targets.gpu.runtime.device_runtime import DeviceRuntime
from tilelang.targets.gpu.runtime.failures import FailureBoard
from tilelang.targets.nvidia.present_device import present_arch
from tilelang.targets.nvidia.runtime.cuda_driver import CudaDriver, open_driver
from tilelang.targets.nvidia.runtime.cuda_program import CudaProgram


def test_a_seed_makes_random_numbers_repeat() -> None:
    door.set_random_seed(5)
    first = (random.random(), np.random.rand())
    door.set_random_seed(5)
    assert first == (random.random(), np.random.rand())


def test_main_runs_the_tests_of_the_calling_file(tmp_path: Path) -> None:
    file = tmp_path / "test_mine.py"
    file.write_text(
        "import tilelang.testing\ndef test_good(): pass\ndef test_bad(): assert False\n"
        "if __name__ == '__main__': tilelang.testing.main()\n"
    )
    result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 1 == result.returncode
    assert "1 failed, 1 passed" in result.stdout


def test_tensors_are_compared() -> None:
    torch = pytest.importorskip("torch")
    a = torch.zeros(1000)
    b = a.clone()
    b[7] = 1
    door.torch_assert_close(a, b)
    with pytest.raises(AssertionError, match=r"1 of 1000 elements differ .* LHS 0.0, RHS 1.0"):
        door.torch_assert_close(a, b, max_mismatched_ratio=0)
    with pytest.raises(AssertionError, match="LHS has dtype torch.float32, RHS has dtype torch.float16"):
        door.torch_assert_close(a, a.half())
    with pytest.raises(AssertionError, match="NaN is not equal to NaN"):
        door.torch_assert_close(a / 0, a / 0, equal_nan=False)


@door.requires_cuda
def test_on_cuda() -> None:
    assert present_arch() is not None


@door.requires_rocm()
def test_on_rocm() -> None:
    raise AssertionError


@door.requires_cuda_compute_version_ge(9, 0)
def test_on_hopper() -> None:
    assert open_driver().capability(0) >= (9, 0)


@door.requires_llvm
def test_a_test_for_the_cpu_runs() -> None:
    assert door.__all__ == sorted(door.__all__)


def test_arrays_stay_where_kernels_of_the_cpu_and_of_the_simulator_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.zeros(3), np.ones(3)
    assert door.to_device(a, target="cpu") is a
    monkeypatch.setenv("TILELANG_EXECUTION_BACKEND", "simulator")
    first, second = door.to_device(a, b, target="cuda")
    assert first is a
    assert second is b
    first, second = door.to_host(a, b)
    assert first is a
    assert second is b


def test_tensors_of_torch_come_back_as_numpy_arrays() -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    back = door.to_host(values.T)
    assert "bfloat16" == back.dtype.name
    np.testing.assert_array_equal([[0, 3], [1, 4], [2, 5]], back.astype(np.float32))


def test_arrays_of_every_dtype_go_to_a_gpu_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    make, places = torch.tensor, []

    def tensor(data: Any, device: str) -> Any:
        places.append(device)
        return make(data)

    monkeypatch.setattr(torch, "tensor", tensor)
    for dtype in (np.float16, np.bool_, np.int64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        for shape in ((2, 3), (), (0, 4)):
            array = (np.arange(np.prod(shape, dtype=int)) % 2).reshape(shape).astype(dtype)
            there = door.to_device(array, target="cuda")
            assert isinstance(there, torch.Tensor)
            assert shape == tuple(there.shape)
            back = door.to_host(there)
            assert dtype == back.dtype
            np.testing.assert_array_equal(array, back)
    assert {"cuda"} == set(places)
    with pytest.raises(ArgumentError, match="to_device: torch has no dtype int4"):
        door.to_device(np.zeros(2, ml_dtypes.int4), target="cuda")


def test_a_gpu_without_a_framework_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DriverError) as caught:
        door.to_device(np.zeros(3), target={"kind": "cuda", "arch": "sm_80"})
    assert (
        "to_device: kernels are compiled for cuda:sm_80, and nothing can hold arrays on the GPU: neither torch nor "
        "CuPy is installed\nhint: pip install torch, or set TILELANG_DEFAULT_TARGET=cpu to run on the CPU"
    ) == str(caught.value)


def test_marks_let_tests_run_where_the_gpu_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def anything() -> None: ...

    def use(cuda: FakeCuda) -> None:
        runtime = DeviceRuntime(lambda: CudaDriver(cuda), CudaProgram, FailureBoard())
        monkeypatch.setattr("tilelang.targets.nvidia.runtime.device_runtime.RUNTIME", runtime)

    use(FakeCuda(capability=(8, 9)))
    assert door.requires_cuda(anything) is anything
    assert door.requires_cuda()(anything) is anything
    assert door.requires_cuda_compute_version_ge(8, 6)(anything) is anything
    assert door.requires_cuda_compute_version_gt(8, 9)(anything).pytestmark
    use(FakeCuda(devices=0))
    assert door.requires_cuda(anything).pytestmark


def test_every_comparison_of_capabilities_is_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_capability", lambda: None)
    for mode in ("ge", "gt", "le", "lt", "eq"):

        def anything() -> None: ...

        marked = getattr(door, f"requires_cuda_compute_version_{mode}")(8)(anything)
        (mark,) = marked.pytestmark
        assert f"needs CUDA with compute capability {mode} 8.0" == mark.kwargs["reason"]
    with pytest.raises(OptionError, match="unknown mode 'ne'"):
        door.requires_cuda_compute_version(8, mode="ne")


MARKS = [
    getattr(door, name)
    for name in (
        *("requires_cuda", "requires_cuda_or_cdna", "requires_rocm", "requires_cdna", "requires_gfx950"),
        *("requires_metal", "requires_llvm"),
    )
]


@pytest.mark.parametrize("mark", MARKS)
def test_marks_are_written_bare_and_with_parentheses_above_parameters(mark: object) -> None:
    def test() -> None: ...

    parametrized = pytest.mark.parametrize("n", [1, 2])(test)
    for marked in (mark(parametrized), mark()(parametrized), mark(support_required="compile-only")(parametrized)):
        assert "parametrize" in {m.name for m in marked.pytestmark}


def reasons(mark: object) -> list[str]:
    """Why a test with this mark is skipped."""

    def test() -> None: ...

    return [found.kwargs["reason"] for found in getattr(mark(test), "pytestmark", ()) if found.name == "skip"]


def test_a_package_is_needed_by_name() -> None:
    assert [] == reasons(door.requires_package("numpy", "json"))
    assert ["needs no_such_package"] == reasons(door.requires_package("numpy", "no_such_package"))


def test_a_gpu_of_either_vendor_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_capability", lambda: (9, 0))
    assert [] == reasons(door.requires_cuda_or_cdna)
    monkeypatch.setattr(door, "_capability", lambda: None)
    monkeypatch.setattr(door, "_rocm_arch", lambda: None)
    assert ["needs a CUDA or CDNA device"] == reasons(door.requires_cuda_or_cdna())
    monkeypatch.setattr(door, "_rocm_arch", lambda: "gfx90a")
    assert [] == reasons(door.requires_cuda_or_cdna)


@pytest.mark.parametrize(
    ("arch", "rocm", "cdna", "gfx950"),
    [
        (None, ["needs a device of ROCm"], ["needs a CDNA device"], ["needs a gfx950 device"]),
        ("gfx1100", [], ["needs a CDNA device"], ["needs a gfx950 device"]),
        ("gfx942", [], [], ["needs a gfx950 device"]),
        ("gfx950", [], [], []),
    ],
)
def test_marks_for_devices_of_rocm(
    monkeypatch: pytest.MonkeyPatch, arch: str | None, rocm: list[str], cdna: list[str], gfx950: list[str]
) -> None:
    monkeypatch.setattr(door, "_rocm_arch", lambda: arch)
    marks = (door.requires_rocm, door.requires_cdna, door.requires_gfx950)
    assert [rocm, cdna, gfx950] == [reasons(mark) for mark in marks]


def test_comparing_tensors_that_agree_gives_true() -> None:
    assert door.torch_assert_close(np.ones(3, np.float32), np.ones(3, np.float32)) is True


def regression_pair() -> None:
    door.process_func(lambda scale: 1.5 * scale, "first", scale=2)
    door.process_func(regression_single)


def regression_single() -> float:
    return 0.25


def test_latencies_of_a_file_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    door.regression()
    assert (
        "regression: regression_pair\nregression: regression_single\n"
        "| kernel | latency |\n|---|---|\n| first | 3 |\n| regression_single | 0.25 |\n"
    ) == capsys.readouterr().out
    with pytest.raises(ValueError, match="no function whose name begins with bench_"):
        door.regression(["bench_"])
    with pytest.raises(ValueError, match="'slow' gives 0, not a latency above zero"):
        door.process_func(lambda: 0, "slow")
