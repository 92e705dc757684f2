import ctypes
import ctypes.util
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tilelang.codegen.source import Source
from tilelang.errors import CompilerBug, ToolchainError
from tilelang.targets.cpu.runtime.host_compiler import build
from tilelang.targets.cpu.runtime.library import open_entry

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")

TEXT = """
#include <cstdint>
#ifdef _OPENMP
#include <omp.h>
extern "C" int32_t threads() { return omp_get_max_threads(); }
#else
extern "C" int32_t threads() { return 0; }
#endif
extern "C" int32_t mix(const float* p, int64_t n, double x) { return int32_t(p == nullptr ? n * x : -1); }
"""


def test_addresses_integers_and_floats_are_passed() -> None:
    entry = build(Source("cpp", TEXT, "mix"))
    assert 10 == entry.start(struct.pack("<Qqd", 0, 4, 2.5))
    assert -1 == entry.start(struct.pack("<Qqd", 64, 4, 2.5))
    assert -10 == entry.start(struct.pack("<Qqd", 0, -4, 2.5))
    start = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(entry.address)
    assert 10 == start(None, struct.pack("<Qqd", 0, 4, 2.5), None)


def test_the_number_of_threads_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    if build(Source("cpp", TEXT, "threads")).start(b"") == 0:
        pytest.skip("the compiler has no OpenMP")
    before = build(Source("cpp", TEXT, "threads")).start(b"")
    monkeypatch.setenv("TILELANG_NUM_THREADS", "3")
    assert 3 == build(Source("cpp", TEXT, "threads")).start(b"")
    monkeypatch.setenv("TILELANG_NUM_THREADS", str(before))
    build(Source("cpp", TEXT, "threads"))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(b"no library")
    with pytest.raises(ToolchainError, match="cannot load the compiled kernel"):
        open_entry(path, "f")


def test_a_missing_entry_is_a_compiler_bug() -> None:
    with pytest.raises(CompilerBug, match="absent"):
        build(Source("cpp", TEXT, "absent"))


def test_another_library_is_a_compiler_bug() -> None:
    with pytest.raises(CompilerBug, match="has no function 'tilelang_start'"):
        open_entry(Path(ctypes.util.find_library("m") or ""), "f")


_FORK = """
import os, signal
import numpy as np
import tilelang, tilelang.language as T

@T.prim_func
def fill(A: T.Tensor((64,), "int32")):
    with T.Kernel(64) as bx:
        A[bx] = bx

kernel = tilelang.compile(fill, target="cpu")
kernel(np.zeros(64, np.int32))
child = os.fork()
if child == 0:
    signal.alarm(20)
    a, b = np.zeros(64, np.int32), np.zeros(64, np.int32)
    kernel(a)
    tilelang.compile(fill, target="cpu", compile_flags="-O1")(b)  # opens another library
    os._exit(0 if (a == np.arange(64)).all() and (a == b).all() else 1)
_, status = os.waitpid(child, 0)
print("status", status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("variable", ["OMP_NUM_THREADS", "TILELANG_NUM_THREADS"])
def test_kernels_run_in_a_child_forked_after_one_ran_in_the_parent(variable: str) -> None:
    environment = {**os.environ, variable: "2"}
    result = subprocess.run([sys.executable, "-c", _FORK], capture_output=True, text=True, env=environment, check=True)
    assert "status 0\n" == result.stdout


_THREAD = """
import os, sys, threading
from tilelang.codegen.source import Source
from tilelang.targets.cpu.runtime.host_compiler import build

count = build(Source("cpp", sys.argv[1], "threads"))
thread = threading.Thread(target=lambda: print(count.start(b''), os.environ.get("OMP_NUM_THREADS")))
thread.start()
thread.join()
"""


def test_the_number_of_threads_is_applied_in_every_thread_of_the_process() -> None:
    environment = {**os.environ, "TILELANG_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", _THREAD, TEXT]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert result.stdout in ("3 2\n", "0 2\n")  # 0 without OpenMP
