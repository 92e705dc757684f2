import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_cuda import needs_nvrtc

from tilelang.ir.func import PrimFunc
from tilelang.jit.device_runner import DeviceRunner
from tilelang.jit.host_runner import HostRunner
from tilelang.jit.reference_runner import ReferenceRunner
from tilelang.jit.runners import make_runner
from tilelang.jit.simulator_runner import SimulatorRunner
from tilelang.options import CompileOptions
from tilelang.runtime.parameters import Signature
from tilelang.targets.target import Target

Make = Callable[..., PrimFunc]
SM80 = Target("cuda", "sm_80")


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


_PROGRAM = """
import ctypes, sys
import tilelang
import tilelang.language as T

@T.prim_func
def twice(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            A[i] *= 2

opened = []
ctypes.CDLL = lambda name, *args, load=ctypes.CDLL, **kw: opened.append(str(name)) or load(name, *args, **kw)
kernel = tilelang.compile(twice, target=sys.argv[1])
loaded = {name.removeprefix("tilelang.") for name in sys.modules if name.startswith("tilelang.")}
print(*sorted(loaded), *opened)
"""
_COMPILER = ("analysis", "arith", "backends.cpu", "backends.cuda", "codegen.c", "lowering", "passes", "sim")


@pytest.mark.parametrize("target", ["cpu", pytest.param("sm_80", marks=needs_nvrtc)])
def test_a_kernel_in_the_cache_is_ready_without_the_compiler_and_the_driver(tmp_path: Path, target: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(_PROGRAM)
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script), target],
            env={**os.environ, "TILELANG_CACHE_DIR": str(tmp_path / "cache"), "TILELANG_CHECK": "0"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        said.append(done.stdout.split())
    first, second = ([name for name in words if name.startswith(_COMPILER)] for words in said)
    assert "passes.runner" in first
    assert [] == second
    libraries = [name for name in said[1] if ".so" in name]
    assert not [name for name in libraries if "nvrtc" in name or "libcuda" in name]
    others = "device" if target == "cpu" else "host"
    assert not [name for name in said[1] if name.startswith(f"jit.{others}")]
