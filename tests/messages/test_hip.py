"""The whole text of every message about kernels for AMD's GPUs: what a machine lacks, and what is not installed."""

import textwrap
from collections.abc import Callable

import pytest
from hip_kernels import has_clang

from tilelang import errors
from tilelang.errors import ProgramWarning, TileLangError
from tilelang.targets.amd.runtime import toolchain
from tilelang.targets.nvidia.machines import MACHINES

HEADER = """\
@T.prim_func
def main(A: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
"""


def body(text: str) -> str:
    return HEADER + textwrap.indent(text, "        ")


def statement(text: str, message: str, hint: str) -> tuple[type[TileLangError], str, str, str]:
    """A program of one statement that gfx942 cannot execute."""
    shown = f" --> kernel.py:7:9\n7 |         {text}\n  |         {'^' * len(text)}\n"
    return errors.NoLowering, "gfx942", body(f"{text}\nA[0, 0] = 1.0\n"), f"{message}\n{shown}hint: {hint}\n"


GEMM = """\
@T.prim_func
def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float32")):
    with T.Kernel(1, threads={threads}) as bx:
        A_s = T.alloc_shared(({M}, {K}), "float16")
        B_s = T.alloc_shared(({K}, {M}), "float16")
        C_f = T.alloc_fragment(({M}, {M}), "float32")
        T.clear(C_f)
        for k in T.Pipelined(4, num_stages=2):
            T.copy(A[0, k * {K}], A_s)
            T.copy(B[k * {K}, 0], B_s)
            T.gemm(A_s, B_s, C_f)
        T.copy(C_f, C[0:{M}, 0:{M}])
"""
SM_80_ON = ", ".join(name for name in MACHINES if name != "sm_75")
SM_90_ON = SM_80_ON.partition("sm_89, ")[2]

REFUSED = {  # the error, a machine, a program, and what is said of it
    "more LDS than there is": (
        errors.ResourceError, "gfx942", GEMM.format(threads=512, M=64, K=512), """\
T.Kernel: a block needs 131072 bytes of shared memory, but gfx942 has 65536
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=512) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'A_s' takes 65536 bytes
 --> kernel.py:7:9
7 |         A_s = T.alloc_shared((64, 512), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'B_s' takes 65536 bytes
 --> kernel.py:8:9
8 |         B_s = T.alloc_shared((512, 64), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the tiles 2 times smaller: they take 131072 bytes
"""),
    "more LDS than the largest has": (
        errors.ResourceError, "gfx950", GEMM.format(threads=512, M=256, K=256), """\
T.Kernel: a block needs 262144 bytes of shared memory, but gfx950 has 163840
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=512) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'A_s' takes 131072 bytes
 --> kernel.py:7:9
7 |         A_s = T.alloc_shared((256, 256), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'B_s' takes 131072 bytes
 --> kernel.py:8:9
8 |         B_s = T.alloc_shared((256, 256), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the tiles 2 times smaller: they take 262144 bytes
"""),
    "threads that are no whole waves of 64": (
        errors.ResourceError, "gfx942", GEMM.format(threads=96, M=64, K=32), """\
T.gemm: 96 threads are no whole number of warps of 64, among which GemmWarpPolicy.Square splits the tile
  --> kernel.py:14:13
14 |             T.gemm(A_s, B_s, C_f)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: in T.Kernel write threads=64 or threads=128
"""),
    "threads that are no whole waves of 32": (
        errors.ResourceError, "gfx1100", GEMM.format(threads=48, M=64, K=32), """\
T.gemm: 48 threads are no whole number of warps of 32, among which GemmWarpPolicy.Square splits the tile
  --> kernel.py:14:13
14 |             T.gemm(A_s, B_s, C_f)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: in T.Kernel write threads=32 or threads=64
"""),
    "more threads in a grid than a launch may have": (
        errors.ResourceError, "gfx942", HEADER.replace("1, threads", "2**25, threads") + "        A[0, 0] = 1.0\n", """\
T.Kernel: a grid of 33554432 blocks of 128 threads along x, but at most 4294967295 threads along an axis can be started
 --> kernel.py:6:5
6 |     with T.Kernel(2**25, threads=128) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: divide the blocks among the axes of T.Kernel(...), or give each block more to do
"""),
    "a transaction barrier": statement(
        "b = T.alloc_barrier(1)",
        f"T.alloc_barrier: gfx942 cannot do that; it needs one of {SM_80_ON}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_80'}, or let T.Pipelined wait for copies, and T.sync_threads() for threads",
    ),
    "a wait for copies of another vendor": statement(
        "T.ptx_wait_group(0)",
        f"T.ptx_wait_group: gfx942 cannot do that; it needs one of {SM_80_ON}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_80'}, or write T.copy in loops of T.Pipelined, which waits for it",
    ),
    "a fence of matrix instructions of another vendor": statement(
        "T.warpgroup_arrive()",
        "T.warpgroup_arrive: gfx942 cannot do that; it needs one of sm_90a",
        "compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or write T.gemm, which waits for itself",
    ),
    "registers by hand": statement(
        "T.set_max_nreg(24, 0)",
        "T.set_max_nreg: gfx942 cannot do that; it needs one of sm_90a",
        "compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or leave it out: all waves of a block have the same registers",
    ),
    "a barrier of a cluster": statement(
        "T.cluster_sync()",
        f"T.cluster_sync: gfx942 cannot do that; it needs one of {SM_90_ON}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or let blocks meet in global memory: T.sync_grid() waits for all of them",
    ),
    "a fence between proxies": statement(
        "T.fence_proxy_async()",
        f"T.fence_proxy_async: gfx942 cannot do that; it needs one of {SM_90_ON}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out: it orders what the copy engine does",
    ),
    "tensor memory": statement(
        "T.alloc_tmem((128, 128), 'float32')",
        "T.alloc_tmem: there is no lowering for gfx942, nor for another target of this version",
        "write T.gemm: the compiler chooses the matrix instruction",
    ),
    "an election among 64 lanes": statement(
        "T.shuffle_elect(64)",
        "T.shuffle_elect: names lanes by the bits of a uint32, but a warp of gfx942 has 64 lanes",
        "write T.get_lane_idx() == 0, which holds in one lane of a warp",
    ),
    "a barrier of some lanes of 64": statement(
        "T.sync_warp(0xff)",
        "T.sync_warp: names lanes by the bits of a uint32, but a warp of gfx942 has 64 lanes",
        "write T.sync_warp() without a mask, for all lanes of a warp",
    ),
    "assembly of another vendor": statement(
        "T.inline_ptx('membar.gl;')",
        f"T.inline_ptx: gfx942 cannot do that; it needs one of {', '.join(MACHINES)}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_75'}, or call a C++ function of T.import_source by T.call_extern",
    ),
    "a store with a hint": statement(
        "T.stg(A[0, 0], 1.0, hint='evict_first')",
        f"T.stg: gfx942 cannot do that; it needs one of {', '.join(MACHINES)}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_75'}, or write the element itself, as in A[i] = B[j]: hints and "
        "caches decide nothing about results",
    ),
    "a clock": (
        errors.NoLowering, "gfx942", body("A[0, 0] = T.cast(T.clock64(), 'float16')\n"), f"""\
T.clock64: gfx942 cannot do that; it needs one of {', '.join(MACHINES)}
 --> kernel.py:7:9
7 |         A[0, 0] = T.cast(T.clock64(), 'float16')
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={{'kind': 'cuda', 'arch': 'sm_75'}}, or measure whole kernels: kernel.get_profiler().do_bench()
"""),
    "a gemm by one lowering of another vendor": (
        errors.NoLowering, "gfx942", GEMM.replace("T.gemm(", "T.wgmma_gemm(").format(threads=128, M=64, K=32), """\
T.wgmma_gemm: gfx942 cannot do that; it needs one of sm_90a
  --> kernel.py:14:13
14 |             T.wgmma_gemm(A_s, B_s, C_f)
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or write T.gemm; T.wgmma_gemm requires Hopper WGMMA lowering
"""),
    "clusters of blocks": (
        errors.NoLowering, "gfx942",
        HEADER.replace("(1, threads=128", "(2, threads=128, cluster_dims=(2, 1, 1)") + "        A[0, 0] = 1.0\n", f"""\
T.Kernel: cluster_dims=(2, 1, 1): gfx942 cannot do that; it needs one of {SM_90_ON}
 --> kernel.py:6:5
6 |     with T.Kernel(2, threads=128, cluster_dims=(2, 1, 1)) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={{'kind': 'cuda', 'arch': 'sm_90'}}, or leave cluster_dims out
"""),
    "a named barrier": statement(
        "T.sync_threads(1, 64)",
        f"T.sync_threads: gfx942 cannot do that; it needs one of {', '.join(MACHINES)}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_75'}, or write T.sync_threads() for all threads, or T.sync_warp() for those of a warp",
    ),
    "a named barrier of half a wave": statement(
        "T.sync_threads(1, 32)",
        f"T.sync_threads: gfx942 cannot do that; it needs one of {', '.join(MACHINES)}",
        "compile with target={'kind': 'cuda', 'arch': 'sm_75'}, or write T.sync_threads() for all threads, or T.sync_warp() for those of a warp",
    ),
    "a shuffle by a mask of 32 lanes": (
        errors.NoLowering, "gfx942", body("A[0, 0] = T.shfl_xor(A[0, 0], 1)\n"), """\
T.shfl_xor: names lanes by the bits of a uint32, but a warp of gfx942 has 64 lanes
 --> kernel.py:7:9
7 |         A[0, 0] = T.shfl_xor(A[0, 0], 1)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.reduce_sum, T.cumsum and the like on tiles, which suit warps of any size, or width=64 for shuffles among 64 lanes
"""),
    "a group of several waves": (
        errors.NoLowering, "gfx942", HEADER.replace("128", "256") + """\
        S = T.alloc_shared((128,), "float16")
        with T.ws(0):
            t = T.get_thread_binding()
            S[t] = A[0, t % 64]
            A[1, t % 64] = S[127 - t]
""", """\
T.ws: a group of 128 threads has no barrier on AMD GPUs, which join all threads of a block or those of one wave
  --> kernel.py:11:13
11 |             A[1, t % 64] = S[127 - t]
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: let groups of one wave share memory, or write T.sync_threads between groups
"""),
}  # fmt: skip


@pytest.mark.parametrize("executor", ["clang", "simulator"] if has_clang() else ["simulator"])
@pytest.mark.parametrize("case", REFUSED)
def test_program(case: str, executor: str, staged_error: Callable[..., TileLangError]) -> None:
    kind, arch, text, expected = REFUSED[case]
    error = staged_error(text, {"kind": "hip", "arch": arch}, executor)
    assert kind is type(error)
    assert expected.rstrip("\n") == str(error)


def test_a_gemm_by_single_threads_is_warned_of(run_as_file: Callable[..., None]) -> None:
    text = GEMM.replace("float16", "float8_e4m3fn").format(threads=256, M=64, K=32)
    with pytest.warns(ProgramWarning) as caught:
        run_as_file(text, {"kind": "hip", "arch": "gfx90a"}, "simulator")
    assert """\
T.gemm: gfx90a multiplies no float8_e4m3fn with sums in float32 by matrix instructions, but by gemm.fma
  --> kernel.py:14:13
14 |             T.gemm(A_s, B_s, C_f)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: convert the tiles to float16 by T.copy, which holds them exactly, and multiply those""" == str(caught[0].message)


def test_without_a_toolchain_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, staged_error: Callable[..., TileLangError]
) -> None:
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.setattr(toolchain, "_candidates", lambda *environment: iter(()))
    toolchain._found.cache_clear()
    try:
        error = staged_error(body("A[0, 0] = 1.0\n"), {"kind": "hip", "arch": "gfx942"})
    finally:
        toolchain._found.cache_clear()
    assert errors.ToolchainError is type(error)
    assert """\
no clang found that compiles for AMD GPUs: none is below HIP_CLANG_PATH and ROCM_PATH, in the package ziglang, or on the PATH
 --> kernel.py:5:1
5 | def main(A: T.Tensor((64, 64), "float16")):
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: pip install 'ziglang>=0.17' (clang 22 and lld), or `apt install clang-19 lld-19` or newer, or install ROCm""" == str(error)
