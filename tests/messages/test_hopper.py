"""The whole text of every message about what Hopper has and other GPUs have not, and about how it is used wrongly."""

import textwrap
from collections.abc import Callable

import pytest

from tilelang.errors import NoLowering, ProgramError, ProgramValueError, ResourceError, TileLangError

HEADER = """\
@T.prim_func
def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 250), "float16"), C: T.Tensor((256, 256), "float32")):
    with T.Kernel(1, threads={threads}) as bx:
"""
FIRST_LINE = 7  # of the body, in the file that `staged_error` writes
X = 'x = T.alloc_shared((64, 64), "float16")'
SUMS = 'c = T.alloc_fragment((64, 64), "float32")'
FULL = "full = T.alloc_barrier(1)"
GROUP = "with T.ws(0):"
COPY = "write T.copy, which does it another way where it must"
REQUIRED = "; T.wgmma_gemm requires Hopper WGMMA lowering"
GEMM = "write T.gemm, which does it another way where it must"
SM_90A = "compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or leave it out"
SM_90 = "compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out"
SINCE_90 = "sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103a, sm_120, sm_120a"

# The statements of a kernel, of which the last one is refused; the GPU; what is said; and the hint.
REFUSED = {
    "products of warpgroups on another GPU": (
        (X, SUMS, "T.wgmma_gemm(x, x, c)"),
        "sm_80",
        NoLowering,
        "T.wgmma_gemm: sm_80 cannot do that; it needs one of sm_90a",
        SM_90A + REQUIRED,
    ),
    "the copy engine on another GPU": (
        (X, FULL, "T.tma_copy(A[0, 0], x, barrier=full)"),
        "sm_80",
        NoLowering,
        f"T.tma_copy: sm_80 cannot do that; it needs one of {SINCE_90}",
        SM_90,
    ),
    "moving registers on another GPU": (
        ("T.set_max_nreg(24, False)",),
        "sm_120a",
        NoLowering,
        "T.set_max_nreg: sm_120a cannot do that; it needs one of sm_90a",
        SM_90A,
    ),
    "waiting for products on another GPU": (
        ("T.wait_wgmma(0)",),
        "sm_80",
        NoLowering,
        "T.wait_wgmma: sm_80 cannot do that; it needs one of sm_90a",
        SM_90A,
    ),
    "clusters on another GPU": (
        ("r = T.block_rank_in_cluster()",),
        "sm_80",
        NoLowering,
        f"T.block_rank_in_cluster: sm_80 cannot do that; it needs one of {SINCE_90}",
        SM_90,
    ),
    "a load that nothing counts": (
        (X, "T.tma_copy(A[0, 0], x)"),
        "sm_90a",
        ProgramError,
        "T.tma_copy: there is no barrier to count the bytes that come to 'x'",
        "allocate full = T.alloc_barrier(1), write T.tma_copy(..., barrier=full), let one thread arrive there, and wait for it before the tile is read",
    ),
    "a store with a barrier": (
        (X, FULL, "T.tma_copy(x, A[0, 0], barrier=full)"),
        "sm_90a",
        ProgramError,
        "T.tma_copy: a barrier counts the bytes of copies from global to shared memory, but this one is from 'x' (shared.dyn) to 'A' (global)",
        "leave the barrier out",
    ),
    "a tile in registers": (
        ('x = T.alloc_fragment((64, 64), "float16")', FULL, "T.tma_copy(x, A[0, 0])"),
        "sm_90a",
        ProgramError,
        "T.tma_copy: TMA copies tiles between global and shared memory, but this copy is from 'x' (local.fragment) to 'A' (global)",
        "write T.copy",
    ),
    "a tensor that no map describes": (
        (X, FULL, "T.tma_copy(B[0, 0], x, barrier=full)"),
        "sm_90a",
        NoLowering,
        "T.tma_copy: a stride of the tensor is not proven to be a multiple of 16 bytes",
        COPY,
    ),
    "a load that converts": (
        ('x = T.alloc_shared((64, 64), "float32")', FULL, "T.tma_copy(A[0, 0], x, barrier=full)"),
        "sm_90a",
        NoLowering,
        "T.tma_copy: does not convert float16 to float32",
        COPY,
    ),
    "a part of a tile": (
        (X, FULL, "T.tma_copy(A[0:64, 0:32], x[:, 16:48], barrier=full)"),
        "sm_90a",
        NoLowering,
        "T.tma_copy: the tile is a part of its buffer",
        COPY,
    ),
    "rows that are no whole chunks": (
        ('x = T.alloc_shared((64, 12), "float16")', FULL, "T.tma_copy(A[0, 0], x, barrier=full)"),
        "sm_90a",
        NoLowering,
        "T.tma_copy: rows of 24 bytes are no multiple of 16",
        COPY,
    ),
    "a depth that is no whole number of steps": (
        (
            'x = T.alloc_shared((64, 40), "float16")',
            'y = T.alloc_shared((40, 64), "float16")',
            SUMS,
            GROUP,
            "    T.wgmma_gemm(x, y, c)",
        ),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: K is 40, no multiple of 16",
        GEMM + REQUIRED,
    ),
    "dtypes that no instruction has": (
        ('x = T.alloc_shared((64, 64), "float64")', 'c = T.alloc_fragment((64, 64), "float64")', GROUP, "    T.wgmma_gemm(x, x, c)"),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: wgmma does not multiply float64 with an accumulator of float64",
        GEMM + REQUIRED,
    ),
    "an operand in registers": (
        (X, 'y = T.alloc_fragment((64, 64), "float16")', SUMS, GROUP, "    T.wgmma_gemm(x, y, c)"),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: B is in scope local.fragment",
        GEMM + REQUIRED,
    ),
    "sums in shared memory": (
        (X, 'c = T.alloc_shared((64, 64), "float32")', GROUP, "    T.wgmma_gemm(x, x, c)"),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: C is in scope shared.dyn",
        GEMM + REQUIRED,
    ),
    "an order that only 16 bits have": (
        ('x = T.alloc_shared((64, 64), "int8")', 'c = T.alloc_fragment((64, 64), "int32")', GROUP, "    T.wgmma_gemm(x, x, c)"),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: B of int8 is not contiguous along K",
        GEMM + REQUIRED,
    ),
    "columns that are no multiple": (
        (
            'a = T.alloc_shared((64, 20), "float16")',
            'b = T.alloc_fragment((64, 20), "float32")',
            X,
            "T.wgmma_gemm(x, a, b)",
        ),
        "sm_90a",
        NoLowering,
        "T.wgmma_gemm: N is 20, no multiple of 8",
        GEMM + REQUIRED,
    ),
    "registers of half a warpgroup": (
        ("thread = T.get_thread_binding()", "if thread < 64:", "    T.set_max_nreg(24, False)"),
        "sm_90a",
        ProgramError,
        "T.set_max_nreg: threads 0 to 63 come here, no whole warpgroups of 128",
        "let all threads of a warpgroup come here, as in `with T.ws(0):`",
    ),
    "more arrivals than a barrier counts": (
        ("full = T.alloc_barrier([1, 1048576])",),
        "sm_90a",
        ProgramValueError,
        "T.alloc_barrier: expected counts of arrivals from 1 to 1048575, got [1, 1048576]",
        "count the arrivals that complete a phase: 128 where each of 128 threads arrives, 1 where one thread does or "
        "copies alone complete it; [128, 1] makes two barriers",
    ),
    "several blocks where there is one": (
        (X, FULL, "T.tma_copy(A[0, 0], x, barrier=full, cluster_mask=3)"),
        "sm_90a",
        ProgramValueError,
        "T.tma_copy: cluster_mask is 0b11, but the bits of a cluster of 1 are 1 to 0b1",
        "write T.Kernel(..., cluster_dims=2)",
    ),
    "a block that the cluster does not have": (
        (FULL, "T.barrier_arrive(full, 1)"),
        "sm_90a",
        ProgramError,
        "T.barrier_arrive: there is no block 1 in a cluster of 1",
        "write T.Kernel(..., cluster_dims=2)",
    ),
    "registers that are no multiple": (
        ("T.set_max_nreg(100, True)",),
        "sm_90a",
        ProgramError,
        "T.set_max_nreg: 100 registers, but a thread can have multiples of 8 from 24 to 256",
        "write 96",
    ),
    "more registers than there are": (
        ("T.set_max_nreg(264, True)",),
        "sm_90a",
        ProgramError,
        "T.set_max_nreg: 264 registers, but a thread can have multiples of 8 from 24 to 256",
        "write 256",
    ),
    "warpgroups that ask for too much together": (
        ("with T.ws(2):", "    T.set_max_nreg(32, False)", "with T.ws(0, 1):", "    T.set_max_nreg(240, True)"),
        "sm_90a",
        ResourceError,
        "T.set_max_nreg: the warpgroups of the block ask for 240 + 240 + 32 = 512 registers of a thread, but have 504 together: 168 each",
        "ask for 8 fewer; producers need 24 to 40",
    ),
    "more registers called fewer": (
        (GROUP, "    T.set_max_nreg(176, False)"),
        "sm_90a",
        ProgramError,
        "T.set_max_nreg: a thread has 168 registers here, so that 176 are more",
        "write T.set_max_nreg(176, True)",
    ),
    "a block of no whole warpgroups": (
        ("T.set_max_nreg(24, False)",),
        "sm_90a",
        ProgramError,
        "T.set_max_nreg: the block has 288 threads, no whole warpgroups of 128",
        "write threads=384",
    ),
    "groups that cannot be left pending": (
        ("T.wait_wgmma(8)",),
        "sm_90a",
        ProgramError,
        "T.wait_wgmma: 8 groups cannot be left pending",
        "write 0 to 7",
    ),
    "a product of some threads": (
        (X, SUMS, "if T.get_thread_binding() == 0:", "    T.gemm(x, x, c)"),
        "sm_90a",
        NoLowering,
        "T.gemm: needs all threads of the block or of a group, but only some of them execute it",
        "take it out of the branch or loop that depends on the thread index",
    ),
    "more bytes than a barrier counts": (
        (FULL, "T.mbarrier_expect_tx(full, 1 << 20)"),
        "sm_90a",
        ProgramError,
        "T.mbarrier_expect_tx: 1048576 bytes, but a barrier counts 0 to 1048575",
        "",
    ),
    "global memory of another block": (
        ("x = T.cluster_load(A[0, 0], 1)",),
        "sm_90a",
        ProgramError,
        "T.cluster_load: 'A' is in scope 'global', but blocks reach each other's shared memory only",
        "allocate it with T.alloc_shared",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_said(case: str, staged_error: Callable[..., TileLangError]) -> None:
    statements, arch, kind, message, hint = REFUSED[case]
    threads = 288 if case == "a block of no whole warpgroups" else 384
    program = HEADER.format(threads=threads) + textwrap.indent("\n".join(statements), "        ")
    error = staged_error(program, {"kind": "cuda", "arch": arch}, "simulator")
    text = "        " + statements[-1]
    refused, line = text.strip(), str(FIRST_LINE + len(statements) - 1)
    column = len(text) - len(refused)
    margin = " " * len(line)
    assert str(error).split("\n") == [
        message,
        f"{margin}--> kernel.py:{line}:{column + 1}",
        f"{line} | {text}",
        f"{margin} | {' ' * column}{'^' * len(refused)}",
        *([f"hint: {hint}"] if hint else []),
    ]
    assert type(error) is kind


def test_tiles_that_do_not_fit_are_listed_with_their_bytes(staged_error: Callable[..., TileLangError]) -> None:
    statements = """\
a = T.alloc_shared((4, 128, 64), "float16")
b = T.alloc_shared((4, 64, 256), "float16")
staging = T.alloc_shared((128, 256), "float16")
full = T.alloc_barrier([1] * 4)
T.fill(a, 0)
T.fill(b, 0)
T.tma_copy(staging, A[0:128, 0:256])
T.copy(a[0, :, :], A[0:128, 0:64])
T.copy(b[0, :, :], A[0:64, 0:256])
"""
    error = staged_error(
        HEADER.format(threads=384) + textwrap.indent(statements, "        "), {"kind": "cuda", "arch": "sm_90a"}, "simulator"
    )
    assert str(error) == """\
T.Kernel: a block needs 262176 bytes of shared memory, but sm_90a has 232448
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=384) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'b' takes 131072 bytes
 --> kernel.py:8:9
8 |         b = T.alloc_shared((4, 64, 256), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'a' takes 65536 bytes
 --> kernel.py:7:9
7 |         a = T.alloc_shared((4, 128, 64), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'staging' takes 65536 bytes
 --> kernel.py:9:9
9 |         staging = T.alloc_shared((128, 256), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'full' takes 32 bytes
  --> kernel.py:10:9
10 |         full = T.alloc_barrier([1] * 4)
   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the tiles 2 times smaller: they take 262176 bytes"""
    assert type(error) is ResourceError
