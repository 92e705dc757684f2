from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fake_cuda import needs_nvrtc

import tilelang
import tilelang.language as T
from tilelang.codegen.source import DeviceLaunch, Source
from tilelang.errors import DriverError, ProgramWarning
from tilelang.ir.func import PrimFunc
from tilelang.ir.specialization import Specialization
from tilelang.jit.device_runner import DeviceRunner, warn_of_losses
from tilelang.options import CompileOptions
from tilelang.targets.gpu.runtime.device_code import DeviceCode
from tilelang.targets.gpu.runtime.resources import Resources
from tilelang.targets.nvidia.runtime.cuda_driver import open_driver
from tilelang.targets.nvidia.runtime.nvrtc import Nvrtc

Make = Callable[..., PrimFunc]


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    open_driver.cache_clear()
    monkeypatch.setattr("tilelang.targets.nvidia.runtime.cuda_driver.ctypes.CDLL", absent)


@needs_nvrtc
def test_without_a_gpu_kernels_compile_but_cannot_be_called(vector_add: Make, no_driver: None) -> None:
    kernel = tilelang.compile(vector_add(100), target={"kind": "cuda", "arch": "sm_80"})
    assert "__global__" in kernel.get_kernel_source()
    assert ".target sm_80" in kernel.get_ptx()
    assert kernel.get_cubin().startswith(b"\x7fELF")
    assert kernel.resources.registers > 0
    assert 0 == kernel.resources.spill_bytes
    assert ["add_kernel"] == list(kernel.kernel_resources)
    assert () == kernel.warnings
    assert "# A: float32 tensor of shape (100,), dense\n" in kernel.get_host_source()
    one = np.ones(100, np.float32)
    for attempt in (lambda: kernel(one, one, one), kernel.synchronize):
        with pytest.raises(DriverError, match="no CUDA driver found: libcuda.so.1"):
            attempt()


@needs_nvrtc
def test_symbolic_sizes_are_compiled_for_multiples_of_128_first() -> None:
    N = T.dynamic("N")

    @T.prim_func
    def scale(A: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 256), threads=64) as bx:
            for i in T.Parallel(256):
                A[bx * 256 + i] *= 2

    kernel = tilelang.compile(scale, target="sm_80")
    assert "N_div128" in kernel.get_kernel_source()
    runner = kernel._runner
    assert isinstance(runner, DeviceRunner)
    general = runner._variant(Specialization())
    assert "N_div128" not in general.code.source.text
    assert ["N"] == [symbol.name for symbol in general.signature.symbols]
    assert general.grids({"N": 257}) == [(2, 1, 1)]
    special = runner._variant(runner.caller.variants.most_common)
    assert [(2, 1, 1)] == special.grids({"N_div128": 3})


@needs_nvrtc
def test_the_program_for_the_usual_calls_is_compiled_once_without_a_cache(
    vector_add: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    compiled: list[str] = []
    compile_text = Nvrtc.compile
    monkeypatch.setattr(Nvrtc, "compile", lambda self, text, *a, **k: compiled.append(text) or compile_text(self, text, *a, **k))
    kernel = tilelang.compile(vector_add(100), target="sm_80")
    runner = kernel._runner
    assert isinstance(runner, DeviceRunner)
    runner._variant(runner.caller.variants.most_common)
    assert [kernel.get_kernel_source()] == compiled


def compiled(launches: Sequence[DeviceLaunch], *said: str, **used: Resources) -> DeviceCode:
    source = Source("cuda", "", "main", launches=tuple(launches))
    return DeviceCode(source, "sm_80", "nvrtc", CompileOptions(), b"", used, said)


def test_spills_are_a_warning_with_bytes_and_the_largest_fragments(vector_add: Make) -> None:
    func = vector_add(128)
    sizes = (("a", 64), ("b", 512), ("c", 512), ("b", 512), ("d", 8), ("e", 256))
    spilling = DeviceLaunch("main_1", ("1",), (128, 1, 1), 0, (1, 1, 1), (), fragments=sizes)
    fitting = DeviceLaunch("main", ("1",), (128, 1, 1), 0, (1, 1, 1), (), fragments=sizes)
    code = compiled([fitting, spilling], main=Resources(32, 0, 0, 16), main_1=Resources(255, 0, 1948, 688))
    with pytest.warns(ProgramWarning) as caught:
        warn_of_losses(func, code)
    (message,) = [str(warning.message) for warning in caught]
    assert (
        "kernel 'add' spills registers: 688 bytes of each thread are in local memory, which is slow, and its code "
        "stores and loads 1948 bytes there\n"
        f"{func.loc.render()}\n"
        "note: bytes per thread of its fragments: 'b' 512, 'c' 512, 'e' 256, 'a' 64\n"
        "hint: use smaller tiles, more threads, or fewer live fragments"
    ) == message
    warn_of_losses(func, compiled([fitting], main=Resources(32, 0, 0, 16)))
