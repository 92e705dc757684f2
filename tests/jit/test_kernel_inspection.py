from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc

import tilelang
import tilelang.language as T
from tilelang.errors import OptionError
from tilelang.ir.func import PrimFunc
from tilelang.jit.kernel import JITKernel
from tilelang.jit.kernel_inspection import Lowered
from tilelang.targets.gpu.runtime.resources import Resources

Make = Callable[..., PrimFunc]


def test_sources_are_shown(vector_add: Make, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = JITKernel(vector_add(100), out_idx=-1)
    source, host = kernel.get_kernel_source(), kernel.get_host_source()
    assert 'extern "C" int32_t add(' in source
    assert "# A: float32 tensor of shape (100,), dense\n" in host
    assert (source, host) == (kernel.kernel_source, kernel.host_source)
    assert f"{source}\n{host}" == kernel.get_kernel_source(kernel_only=False)
    shown = {"kernel": f"{source}\n", "host": f"{host}\n", "both": f"{source}\n{host}\n"}
    for which, expected in shown.items():
        kernel.show_source(which)
        assert expected == capsys.readouterr().out
        kernel.print_source_code(which)
        assert expected == capsys.readouterr().out
    with pytest.raises(OptionError) as caught:
        kernel.show_source("device")
    assert ("show_source: unknown source 'device'", "one of kernel, host, both") == (
        caught.value.message,
        caught.value.hint,
    )


def test_sources_are_written(vector_add: Make, tmp_path: Path) -> None:
    kernel = JITKernel(vector_add(100), out_idx=-1)
    kernel.export_sources(str(tmp_path / "a" / "kernel.cpp"), tmp_path / "b" / "host.py")
    assert kernel.kernel_source == (tmp_path / "a" / "kernel.cpp").read_text()
    assert kernel.host_source == (tmp_path / "b" / "host.py").read_text()
    kernel.print_source_code(file=tmp_path / "c.cpp")
    assert kernel.kernel_source == (tmp_path / "c.cpp").read_text()
    with pytest.raises(ValueError, match="export_sources: nothing to write"):
        kernel.export_sources()


def test_a_compiled_kernel_can_be_written_as_a_library(vector_add: Make, tmp_path: Path) -> None:
    JITKernel(vector_add(100)).export_library(str(tmp_path / "new" / "add.so"))
    assert (tmp_path / "new" / "add.so").read_bytes().startswith(b"\x7fELF")
    with pytest.raises(OptionError, match="export_library: execution_backend 'reference' compiles nothing"):
        JITKernel(vector_add(100), execution_backend="reference").export_library(tmp_path / "add.so")


def test_what_was_compiled_is_an_artifact(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(100))
    artifact = kernel.artifact
    assert isinstance(artifact, Lowered)
    assert (kernel.kernel_source, None) == (artifact.kernel_source, artifact.host_mod)
    assert [("A", "float32", [100])] == [(p.name, p.dtype, p.shape) for p in artifact.params[:1]]
    assert artifact.device_mod is not None
    assert "# thread level" in artifact.ir


def test_resource_usage_and_machine_code_need_a_gpu_program(vector_add: Make) -> None:
    kernel = JITKernel(vector_add(100))
    assert ({}, None, None, None) == (kernel.resource_usage, kernel.n_regs, kernel.n_spills, kernel.n_max_threads)
    for name in ("get_ptx", "get_cubin", "show_ptx", "show_sass"):
        with pytest.raises(OptionError, match="the kernel is not compiled for a GPU: target 'cpu'"):
            getattr(kernel, name)()


@needs_nvrtc
def test_resource_usage_of_a_gpu_program(
    vector_add: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = JITKernel(vector_add(100), target="sm_80")
    ((name, used),) = kernel.resource_usage.items()
    assert "add_kernel" == name
    assert (kernel.resources.registers, 0, 128) == (used.n_regs, used.n_spills, used.n_max_threads)
    assert (used.n_regs, used.n_spills, used.n_max_threads) == (kernel.n_regs, kernel.n_spills, kernel.n_max_threads)
    kernel.export_library(tmp_path / "add.cubin")
    assert kernel.get_cubin() == (tmp_path / "add.cubin").read_bytes()
    kernel.export_ptx(tmp_path / "add.ptx")
    kernel.show_ptx()
    assert ".entry add_kernel(" in (tmp_path / "add.ptx").read_text()
    assert ".entry add_kernel(" in capsys.readouterr().out


@needs_nvrtc
def test_every_launch_is_a_kernel_that_is_named_after_the_function() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i]
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                A[bx * 32 + i] = B[bx * 32 + i] * 2

    kernel = tilelang.compile(main, target="sm_80")
    assert ["main_kernel", "main_kernel_1"] == list(kernel.resource_usage)
    for name, threads in (("main_kernel", 64), ("main_kernel_1", 32)):
        assert f'extern "C" __global__ void __launch_bounds__({threads}) {name}(' in kernel.kernel_source


def test_a_program_is_serialized_if_any_of_its_kernels_is(monkeypatch: pytest.MonkeyPatch, vector_add: Make) -> None:
    kernel = JITKernel(vector_add(100))
    for serialized in (False, True):
        each = {"first": Resources(40, 0, 0, 0), "second": Resources(32, 0, 8, 0, serialized)}
        monkeypatch.setattr(JITKernel, "kernel_resources", each)
        assert (40, 8, serialized) == (kernel.resources.registers, kernel.resources.spill_bytes, kernel.resources.serialized)
