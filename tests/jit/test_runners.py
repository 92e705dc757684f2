from collections.abc import Callable

import numpy as np
import pytest
from fake_cuda import needs_nvrtc

import tilelang
import tilelang.language as T
from tilelang.errors import DriverError, OptionError
from tilelang.ir.facts import Facts
from tilelang.ir.func import PrimFunc
from tilelang.jit.runners import DeviceRunner, HostRunner, ReferenceRunner, make_runner
from tilelang.jit.simulator_runner import SimulatorRunner
from tilelang.options import CompileOptions
from tilelang.runtime.cuda_driver import open_driver
from tilelang.runtime.parameters import Signature
from tilelang.target import Target

Make = Callable[..., PrimFunc]
SM80 = Target("cuda", "sm_80")


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    open_driver.cache_clear()
    monkeypatch.setattr("tilelang.runtime.cuda_driver.ctypes.CDLL", absent)


@pytest.mark.parametrize(
    ("target", "backend", "kind"),
    [
        (Target("cpu"), "cc", HostRunner),
        (Target("cpu"), "reference", ReferenceRunner),
        (SM80, "reference", ReferenceRunner),
        (SM80, "simulator", SimulatorRunner),
        pytest.param(SM80, "nvrtc", DeviceRunner, marks=needs_nvrtc),
    ],
)
def test_every_execution_backend_has_its_runner(vector_add: Make, target: Target, backend: str, kind: type) -> None:
    func = vector_add(100)
    assert kind is type(make_runner(func, Signature.of(func), target, CompileOptions(), backend))


@pytest.mark.parametrize("backend", ["simulator", "reference"])
def test_interpreters_of_gpu_programs_take_and_give_host_arrays(vector_add: Make, backend: str) -> None:
    kernel = tilelang.compile(vector_add(100), out_idx=-1, target="sm_80", execution_backend=backend)
    a = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(2 * a, kernel(a, a))


@needs_nvrtc
def test_without_a_gpu_there_are_source_and_machine_code_but_no_calls(vector_add: Make, no_driver: None) -> None:
    kernel = tilelang.compile(vector_add(100), target={"kind": "cuda", "arch": "sm_80"})
    assert "__global__" in kernel.get_kernel_source()
    assert ".target sm_80" in kernel.get_ptx()
    assert kernel.get_cubin().startswith(b"\x7fELF")
    assert kernel.resources.registers > 0
    assert 0 == kernel.resources.spill_bytes
    assert ["add_kernel"] == list(kernel.kernel_resources)
    assert () == kernel.warnings
    assert "long_way(args)" in kernel.get_host_source()
    one = np.ones(100, np.float32)
    for attempt in (lambda: kernel(one, one, one), kernel.synchronize):
        with pytest.raises(DriverError, match="no CUDA driver found: libcuda.so.1"):
            attempt()


@needs_nvrtc
def test_symbolic_sizes_are_compiled_for_multiples_of_16_first() -> None:
    N = T.dynamic("N")

    @T.prim_func
    def scale(A: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 256), threads=64) as bx:
            for i in T.Parallel(256):
                A[bx * 256 + i] *= 2

    kernel = tilelang.compile(scale, target="sm_80")
    assert "N_div16" in kernel.get_kernel_source()
    runner = kernel._runner
    assert isinstance(runner, DeviceRunner)
    general = runner._variant(Facts())
    assert "N_div16" not in general.code.source.text
    assert ["N"] == [symbol.name for symbol in general.signature.symbols]
    assert general.grids({"N": 257}) == [(2, 1, 1)]
    special = runner._variant(runner.caller.variants.usual)
    assert [(2, 1, 1)] == special.grids({"N_div16": 17})


def test_what_only_gpus_have_is_refused_on_the_cpu(vector_add: Make) -> None:
    kernel = tilelang.compile(vector_add(8), target="cpu")
    for asked, attempt in {
        "get_ptx": kernel.get_ptx,
        "get_sass": kernel.get_sass,
        "get_cubin": kernel.get_cubin,
        "resources": lambda: kernel.resources,
        "warnings": lambda: kernel.warnings,
    }.items():
        with pytest.raises(OptionError) as caught:
            attempt()
        assert (
            f"{asked}: the kernel is not compiled for a GPU: target 'cpu', execution_backend 'cc'"
        ) == caught.value.message


