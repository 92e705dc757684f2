import importlib
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cuda import needs_nvrtc

from tilelang.errors import ToolchainError
from tilelang.targets.nvidia.runtime import nvrtc
from tilelang.targets.nvidia.runtime.nvrtc import find_nvrtc, identity, open_nvrtc

KERNEL = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 2.0f; }'


@pytest.fixture
def forgotten() -> Any:
    """Forgets what was found, before and after a test."""
    for function in (find_nvrtc, open_nvrtc):
        function.cache_clear()
    yield
    for function in (find_nvrtc, open_nvrtc):
        function.cache_clear()


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"])
def test_a_kernel_is_compiled_for_a_gpu_that_is_not_there(arch: str) -> None:
    made = open_nvrtc().compile(KERNEL, arch)
    assert made.code is not None
    assert made.code.startswith(b"\x7fELF")
    assert f"--gpu-architecture={arch} " in made.command


@needs_nvrtc
def test_ptx_is_text_for_the_architecture() -> None:
    made = open_nvrtc().compile(KERNEL, "sm_90a", ptx=True)
    assert made.code is not None
    assert b".target sm_90a" in made.code


@needs_nvrtc
def test_the_same_code_is_made_without_declarations_of_the_runtime() -> None:
    found = open_nvrtc()
    assert found.compile(KERNEL, "sm_90a").code == found.compile(KERNEL, "sm_90a", minimal=True).code
    with_runtime = f"typedef cudaStream_t stream; {KERNEL}"
    assert found.compile(with_runtime, "sm_90a").code is not None
    assert found.compile(with_runtime, "sm_90a", minimal=True).code is None
    old = nvrtc.Nvrtc(found.library, (12, 3), found.numbers)
    assert old.compile(with_runtime, "sm_90a", minimal=True).code is not None


@needs_nvrtc
def test_what_is_rejected_has_a_log_and_no_code() -> None:
    made = open_nvrtc().compile("__global__ void k() { y = 1; }", "sm_80")
    assert made.code is None
    assert 'kernel.cu(1): error: identifier "y" is undefined' in made.log


@needs_nvrtc
def test_an_architecture_that_it_does_not_know_is_named() -> None:
    old = nvrtc.Nvrtc(open_nvrtc().library, (12, 1), (80, 90))
    with pytest.raises(ToolchainError) as caught:
        old.compile(KERNEL, "sm_100a")
    assert "NVRTC 12.1 cannot compile for sm_100a; it supports sm_80, sm_90" == caught.value.message
    assert caught.value.hint.startswith("newer: pip install nvidia-cuda-nvrtc")


def test_a_machine_without_nvrtc_says_what_to_install(
    forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(nvrtc, "_by_pathfinder", lambda: None)
    monkeypatch.setattr(nvrtc, "_ROOTS", ())
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("ctypes.CDLL", absent)
    with pytest.raises(ToolchainError) as caught:
        open_nvrtc()
    assert (
        "no NVRTC found: it is in no package of this Python, not below CUDA_HOME, and not among the system's libraries\n"
        "hint: pip install nvidia-cuda-nvrtc (NVRTC of CUDA 13), or `pip install nvidia-cuda-nvrtc-cu12` for drivers of "
        "CUDA 12, or set CUDA_HOME to a CUDA toolkit, or compile with execution_backend='nvcc'"
    ) == str(caught.value)


def test_an_nvrtc_that_is_too_old_is_refused(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def nvrtcVersion(self, major: Any, minor: Any) -> int:
            major._obj.value, minor._obj.value = 11, 0
            return 0

    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: "/somewhere/libnvrtc.so.11")
    monkeypatch.setattr("ctypes.CDLL", lambda path: Old())
    with pytest.raises(ToolchainError) as caught:
        open_nvrtc()
    assert (
        f"NVRTC 11.0 (/somewhere/libnvrtc.so.11) is too old: 11.8 or newer is needed\nhint: {nvrtc.INSTALL}"
    ) == str(caught.value)


def test_an_nvrtc_that_cannot_be_opened_says_why(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: "/nowhere/libnvrtc.so.13")
    with pytest.raises(ToolchainError, match="NVRTC: cannot open /nowhere/libnvrtc.so.13: .*cannot open shared object"):
        open_nvrtc()


def test_wheels_are_looked_for_first(forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path)])
    assert str(library) == find_nvrtc()
    assert identity().startswith(f"{library} 0 ")


def test_the_pathfinder_is_asked_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = SimpleNamespace(load_nvidia_dynamic_lib=lambda name: SimpleNamespace(abs_path=f"/opt/lib{name}.so"))
    monkeypatch.setattr(importlib, "import_module", lambda name: finder)
    assert "/opt/libnvrtc.so" == nvrtc._by_pathfinder()


def test_a_toolkit_below_cuda_home_is_found(forgotten: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "lib64" / "libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(nvrtc, "_by_pathfinder", lambda: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert str(library) == find_nvrtc()


@needs_nvrtc
def test_naming_the_compiler_does_not_open_it() -> None:
    program = (
        "from tilelang.targets.nvidia.runtime import nvrtc; nvrtc.identity()\n"
        "assert 'libnvrtc' not in open('/proc/self/maps').read()"
    )
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


@needs_nvrtc
def test_the_interpreter_lock_is_free_while_it_compiles() -> None:
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    open_nvrtc().compile(KERNEL, "sm_90a")
    during = ticks - before
    done.set()
    thread.join()
    assert during > 2


@needs_nvrtc
def test_short_names_of_integers_need_no_headers_of_a_host() -> None:
    text = "#include <sys/types.h>\n" + KERNEL.replace("{", "{ uint a = 1; ushort b = a; ulong c = b; (void)c; ", 1)
    assert open_nvrtc().compile(text, "sm_90a").code


@needs_nvrtc
@pytest.mark.parametrize("header", ["cstdint", "stdint.h"])
def test_the_names_of_integers_need_no_headers_of_a_host(header: str) -> None:
    space = "std::" if header == "cstdint" else ""
    text = f"#include <{header}>\ntypedef long long int64_t;\n" + KERNEL.replace(
        "{", f"{{ {space}uint64_t seen = 1; static_assert(sizeof({space}uint8_t) + sizeof(seen) == 9); (void)seen; ", 1
    )
    assert open_nvrtc().compile(text, "sm_90a").code


@needs_nvrtc
def test_functions_of_memory_have_the_names_of_the_standard_library() -> None:
    text = "#include <cstring>\n#include <cstddef>\n" + KERNEL.replace(
        "{", "{ struct Two { int a, b; }; static_assert(offsetof(Two, b) == sizeof(int)); std::memset(x, 0, 4); ", 1
    )
    assert open_nvrtc().compile(text, "sm_90a").code
