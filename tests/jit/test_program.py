import gc
import json
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilelang.language as T
from tilelang.codegen.source import DeviceLaunch, KernelArgument, Source, TensorMapText
from tilelang.dtypes import as_dtype
from tilelang.errors import DeviceAssertError
from tilelang.ir.func import PrimFunc
from tilelang.jit import program
from tilelang.jit.kernel import JITKernel
from tilelang.jit.program import compile_program, generate_source, package_fingerprint, snapshots
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

Make = Callable[..., PrimFunc]
CPU = Target("cpu")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(program, "_PROGRAMS", {})
    return tmp_path / "cache"


def test_the_same_function_is_compiled_once_in_a_process(vector_add: Make) -> None:
    first = compile_program(vector_add(100), CPU, CompileOptions())
    assert first is compile_program(vector_add(100), CPU, CompileOptions())
    assert first is not compile_program(vector_add(101), CPU, CompileOptions())
    assert first is not compile_program(vector_add(100), CPU, CompileOptions(compile_flags=("-O1",)))


def test_passes_run_once_per_cache_folder(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_program(vector_add(100), CPU, CompileOptions())
    monkeypatch.setattr(program, "_PROGRAMS", {})
    monkeypatch.setattr("tilelang.passes.runner.run_passes", None)
    assert first.source == compile_program(vector_add(100), CPU, CompileOptions()).source


def test_a_damaged_source_is_generated_again(vector_add: Make, folder: Path) -> None:
    source = generate_source(vector_add(100), CPU, CompileOptions())
    (kept,) = folder.rglob("*.source")
    kept.write_bytes(kept.read_bytes().replace(b"extern", b"intern"))
    assert source == generate_source(vector_add(100), CPU, CompileOptions())
    assert b"extern" in kept.read_bytes()


def test_without_the_cache_everything_is_done_again(
    vector_add: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilelang.environment._CacheSwitch.enabled", False)
    first = compile_program(vector_add(100), CPU, CompileOptions())
    assert first is not compile_program(vector_add(100), CPU, CompileOptions())
    assert not folder.exists()


def test_locations_are_restored_from_the_cache(asserting: PrimFunc, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = compile_program(asserting, CPU, CompileOptions()).source
    monkeypatch.setattr(program, "_PROGRAMS", {})
    kept = compile_program(asserting, CPU, CompileOptions()).source
    assert fresh.asserts == kept.asserts
    assert dict(fresh.lines) == dict(kept.lines)
    with pytest.raises(DeviceAssertError, match="too large"):
        JITKernel(asserting)(np.full(4, 99, np.float32), np.zeros(4, np.float32))


def test_a_line_that_changed_in_place_is_shown_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def source(comment: str) -> str:
        text = (
            "import tilelang.language as T\n@T.prim_func\ndef main(A: T.Tensor((4,), 'int32')):\n"
            f"    with T.Kernel(1):\n        A[0] = 1  # {comment}\n"
        )
        Path("kernel.py").write_text(text)
        linecache.clearcache()
        names: dict[str, PrimFunc] = {}
        exec(compile(text, "kernel.py", "exec"), names)
        return generate_source(names["main"], CPU, CompileOptions()).text

    assert "# first" in source("first")
    assert "# other" in source("other")


def test_snapshots_start_with_the_input(vector_add: Make) -> None:
    func = vector_add(100)
    shots = snapshots(func, CPU, CompileOptions())
    assert ("input", func) == (shots[0].name, shots[0].func)
    assert len(shots) > 2


def test_what_is_asked_behind_a_compilation_needs_no_pass(vector_add: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = JITKernel(vector_add(100), target="cpu")
    with monkeypatch.context() as patch:
        patch.setattr("tilelang.passes.runner.run_passes", None)
        assert "add, kernel 1" in kernel.explain()
        assert kernel.show_ir().startswith("# input\n")
    other = JITKernel(vector_add(101), target="cpu")
    assert "101" in other.show_ir() and "101" not in kernel.show_ir()


def test_the_package_has_a_stable_fingerprint() -> None:
    assert package_fingerprint() == package_fingerprint()
    assert 64 == len(package_fingerprint())


_FRESH = """
import json, sys
import numpy as np
import tilelang
import tilelang.language as T
from tilelang import jit

@jit(out_idx=[-1])
def matmul(M, N, K, block_M=64, block_N=64, block_K=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_s = T.alloc_shared((block_M, block_K), "float32")
            B_s = T.alloc_shared((block_K, block_N), "float32")
            C_f = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_s)
                T.copy(B[k * block_K, bx * block_N], B_s)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C[by * block_M, bx * block_N])
    return main

kernel = matmul(100, 90, 80)
a, b = np.random.rand(100, 80).astype(np.float32), np.random.rand(80, 90).astype(np.float32)
np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-4)
compiler = sorted(name for name in sys.modules if name.startswith(("tilelang.passes.tile", "tilelang.targets.cpu.codegen.cpp")))
print(json.dumps(compiler))
"""


def test_a_cached_kernel_is_ready_at_once_in_a_fresh_process(tmp_path: Path) -> None:
    file = tmp_path / "fresh.py"
    file.write_text(_FRESH)
    runs = []
    for _ in range(2):
        result = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
        assert "" == result.stderr
        runs.append(json.loads(result.stdout))
    # the compiler proper was not even loaded; benchmarks/cpu.py measures how long it takes
    assert all(compiler == [] for compiler in runs[1:])


def test_many_processes_compile_the_same_kernel_at_once(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "fresh.py"
    file.write_text(_FRESH)
    processes = [subprocess.Popen([sys.executable, str(file)], stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [0] * 3 == [process.wait() for process in processes]
    assert 1 == len(list(folder.rglob("*.so")))
    assert [] == list(folder.rglob(".new-*"))


def test_device_launches_are_restored_from_the_cache(vector_add: Make) -> None:
    func, options = vector_add(100), CompileOptions()
    fresh = generate_source(func, Target("cuda", "sm_80"), options)
    assert ("add_kernel",) == tuple(launch.name for launch in fresh.launches)
    assert fresh == generate_source(func, Target("cuda", "sm_80"), options)


def test_launches_have_the_sizes_of_their_fragments() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 32), "float16")
            T.fill(tile, 1)
            T.copy(tile, A)

    (launch,) = generate_source(main, Target("cuda", "sm_80"), CompileOptions()).launches
    assert (("tile", 32),) == launch.fragments


def test_sources_round_trip_through_json() -> None:
    launch = DeviceLaunch(
        "k", ("M", "2"), (32, 2, 1), 99, (2, 1, 1), (KernelArgument("tensor", 0, "void*"),), cooperative=True,
        tensor_maps=(TensorMapText(0, as_dtype("float16"), ("K", "M"), ("K * 2",), (64, 32), 128),), fragments=(("a", 64), ("b", 4)),
    )  # fmt: skip
    source = Source("cuda", "text", "k", launches=(launch,), workspaces=("4 * M",), has_user_code=True)
    assert source == program._source_from_json(program._source_as_json(source))


def test_the_architecture_is_part_of_the_key(vector_add: Make, folder: Path) -> None:
    for arch in ("sm_80", "sm_90a"):
        generate_source(vector_add(100), Target("cuda", arch), CompileOptions())
    assert 2 == len(list(folder.rglob("*.source")))


@pytest.mark.parametrize("was_on", [True, False])
def test_compiling_restores_the_garbage_collector(
    vector_add: Make, monkeypatch: pytest.MonkeyPatch, was_on: bool
) -> None:
    seen: list[bool] = []

    def fail(*_: object, **__: object) -> PrimFunc:
        seen.append(gc.isenabled())
        raise DeviceAssertError("stop here")

    monkeypatch.setattr("tilelang.passes.runner.run_passes", fail)
    if not was_on:
        gc.disable()
    try:
        with pytest.raises(DeviceAssertError):
            compile_program(vector_add(100), CPU, CompileOptions())
        assert seen == [False]
        assert gc.isenabled() is was_on
    finally:
        gc.enable()
