"""The whole text of every message about what Hopper has and other GPUs have not, and about how it is used wrongly."""

import textwrap
from collections.abc import Callable

import pytest

from tilelang import errors
from tilelang.errors import TileLangError

HEADER = """\
@T.prim_func
def main(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 250), "float16"), C: T.Tensor((256, 256), "float32")):
    with T.Kernel(1, threads={threads}) as bx:
"""

REFUSED = {  # a kernel's body, and what is said of it when it is compiled for a GPU
    "products of warpgroups on another GPU": (
        errors.NoLowering,
        "sm_80",
        """\
x = T.alloc_shared((64, 64), "float16")
c = T.alloc_fragment((64, 64), "float32")
T.wgmma_gemm(x, x, c)
""",
        """\
T.wgmma_gemm: sm_80 cannot do that; it needs one of sm_90a
 --> kernel.py:9:9
9 |         T.wgmma_gemm(x, x, c)
  |         ^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or leave it out
""",
    ),
    "the copy engine on another GPU": (
        errors.NoLowering,
        "sm_80",
        """\
x = T.alloc_shared((64, 64), "float16")
full = T.alloc_barrier(1)
T.tma_copy(A[0, 0], x, barrier=full)
""",
        """\
T.tma_copy: sm_80 cannot do that; it needs one of sm_90, sm_90a, sm_100, sm_100a, sm_103a, sm_120, sm_120a
 --> kernel.py:9:9
9 |         T.tma_copy(A[0, 0], x, barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out
""",
    ),
    "moving registers on another GPU": (
        errors.NoLowering,
        "sm_120a",
        """\
T.set_max_nreg(24, False)
""",
        """\
set_max_registers_dec_24: sm_120a cannot do that; it needs one of sm_90a
 --> kernel.py:7:9
7 |         T.set_max_nreg(24, False)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or leave it out
""",
    ),
    "waiting for products on another GPU": (
        errors.NoLowering,
        "sm_80",
        """\
T.wait_wgmma(0)
""",
        """\
wgmma_wait_0: sm_80 cannot do that; it needs one of sm_90a
 --> kernel.py:7:9
7 |         T.wait_wgmma(0)
  |         ^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90a'}, or leave it out
""",
    ),
    "clusters on another GPU": (
        errors.NoLowering,
        "sm_80",
        """\
r = T.block_rank_in_cluster()
A[r, 0] = 1.0
""",
        """\
cluster_rank: sm_80 cannot do that; it needs one of sm_90, sm_90a, sm_100, sm_100a, sm_103a, sm_120, sm_120a
 --> kernel.py:7:9
7 |         r = T.block_rank_in_cluster()
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out
""",
    ),
    "a load that nothing counts": (
        errors.ProgramError,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
T.tma_copy(A[0, 0], x)
""",
        """\
T.tma_copy: there is no barrier to count the bytes that come to 'x'
 --> kernel.py:8:9
8 |         T.tma_copy(A[0, 0], x)
  |         ^^^^^^^^^^^^^^^^^^^^^^
hint: allocate full = T.alloc_barrier(1), write T.tma_copy(..., barrier=full), let one thread arrive there, and wait for it before the tile is read
""",
    ),
    "a store with a barrier": (
        errors.ProgramError,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
full = T.alloc_barrier(1)
T.tma_copy(x, A[0, 0], barrier=full)
""",
        """\
T.tma_copy: a barrier counts the bytes of copies from global to shared memory, but this one is from 'x' (shared.dyn) to 'A' (global)
 --> kernel.py:9:9
9 |         T.tma_copy(x, A[0, 0], barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: leave the barrier out
""",
    ),
    "a tile in registers": (
        errors.ProgramError,
        "sm_90a",
        """\
x = T.alloc_fragment((64, 64), "float16")
full = T.alloc_barrier(1)
T.tma_copy(x, A[0, 0])
""",
        """\
T.tma_copy: the copy engine moves tiles between global and shared memory, but this one is from 'x' (local.fragment) to 'A' (global)
 --> kernel.py:9:9
9 |         T.tma_copy(x, A[0, 0])
  |         ^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy
""",
    ),
    "a tensor that no map describes": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
full = T.alloc_barrier(1)
T.tma_copy(B[0, 0], x, barrier=full)
""",
        """\
T.tma_copy: a stride of the tensor is not proven to be a multiple of 16 bytes
 --> kernel.py:9:9
9 |         T.tma_copy(B[0, 0], x, barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy, which does it another way where it must
""",
    ),
    "a load that converts": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float32")
full = T.alloc_barrier(1)
T.tma_copy(A[0, 0], x, barrier=full)
""",
        """\
T.tma_copy: does not convert float16 to float32
 --> kernel.py:9:9
9 |         T.tma_copy(A[0, 0], x, barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy, which does it another way where it must
""",
    ),
    "a part of a tile": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
full = T.alloc_barrier(1)
T.tma_copy(A[0:64, 0:32], x[:, 0:32], barrier=full)
""",
        """\
T.tma_copy: the tile is a part of its buffer
 --> kernel.py:9:9
9 |         T.tma_copy(A[0:64, 0:32], x[:, 0:32], barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy, which does it another way where it must
""",
    ),
    "rows that are no whole chunks": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 12), "float16")
full = T.alloc_barrier(1)
T.tma_copy(A[0, 0], x, barrier=full)
""",
        """\
T.tma_copy: rows of 24 bytes are no multiple of 16
 --> kernel.py:9:9
9 |         T.tma_copy(A[0, 0], x, barrier=full)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.copy, which does it another way where it must
""",
    ),
    "too few rows": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((32, 64), "float16")
y = T.alloc_shared((64, 64), "float16")
c = T.alloc_fragment((32, 64), "float32")
with T.ws(0):
    T.wgmma_gemm(x, y, c)
""",
        """\
T.wgmma_gemm: M is 32, no multiple of 64
  --> kernel.py:11:13
11 |             T.wgmma_gemm(x, y, c)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: write T.gemm, which does it another way where it must
""",
    ),
    "dtypes that no instruction has": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float64")
c = T.alloc_fragment((64, 64), "float64")
with T.ws(0):
    T.wgmma_gemm(x, x, c)
""",
        """\
T.wgmma_gemm: warpgroups multiply no float64 with sums in float64
  --> kernel.py:10:13
10 |             T.wgmma_gemm(x, x, c)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: write T.gemm, which does it another way where it must
""",
    ),
    "an operand in registers": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
y = T.alloc_fragment((64, 64), "float16")
c = T.alloc_fragment((64, 64), "float32")
with T.ws(0):
    T.wgmma_gemm(x, y, c)
""",
        """\
T.wgmma_gemm: B is in scope local.fragment
  --> kernel.py:11:13
11 |             T.wgmma_gemm(x, y, c)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: write T.gemm, which does it another way where it must
""",
    ),
    "sums in shared memory": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
c = T.alloc_shared((64, 64), "float32")
with T.ws(0):
    T.wgmma_gemm(x, x, c)
""",
        """\
T.wgmma_gemm: C is in scope shared.dyn
  --> kernel.py:10:13
10 |             T.wgmma_gemm(x, x, c)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: write T.gemm, which does it another way where it must
""",
    ),
    "an order that only 16 bits have": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "int8")
c = T.alloc_fragment((64, 64), "int32")
with T.ws(0):
    T.wgmma_gemm(x, x, c)
""",
        """\
T.wgmma_gemm: B of int8 is not contiguous along K
  --> kernel.py:10:13
10 |             T.wgmma_gemm(x, x, c)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: write T.gemm, which does it another way where it must
""",
    ),
    "registers that are no multiple": (
        errors.ProgramError,
        "sm_90a",
        """\
T.set_max_nreg(100, True)
""",
        """\
T.set_max_nreg: 100 registers, but a thread can have multiples of 8 from 24 to 256
 --> kernel.py:7:9
7 |         T.set_max_nreg(100, True)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write 96
""",
    ),
    "more registers than there are": (
        errors.ProgramError,
        "sm_90a",
        """\
T.set_max_nreg(264, True)
""",
        """\
T.set_max_nreg: 264 registers, but a thread can have multiples of 8 from 24 to 256
 --> kernel.py:7:9
7 |         T.set_max_nreg(264, True)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write 256
""",
    ),
    "warpgroups that ask for too much together": (
        errors.ResourceError,
        "sm_90a",
        """\
with T.ws(2):
    T.set_max_nreg(32, False)
with T.ws(0, 1):
    T.set_max_nreg(240, True)
""",
        """\
T.set_max_nreg: the warpgroups of the block ask for 240 + 240 + 32 = 512 registers of a thread, but have 504 together: 168 each
  --> kernel.py:10:13
10 |             T.set_max_nreg(240, True)
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: ask for 8 fewer; those that bring tiles need 24 to 40
""",
    ),
    "fewer registers called more": (
        errors.ProgramError,
        "sm_90a",
        """\
with T.ws(0):
    T.set_max_nreg(160, True)
""",
        """\
T.set_max_nreg: a thread has 168 registers here, so that 160 are fewer
 --> kernel.py:8:13
8 |             T.set_max_nreg(160, True)
  |             ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.set_max_nreg(160, False)
""",
    ),
    "a block of no whole warpgroups": (
        errors.ProgramError,
        "sm_90a",
        """\
T.set_max_nreg(24, False)
""",
        """\
T.set_max_nreg: the block has 288 threads, no whole warpgroups of 128
 --> kernel.py:7:9
7 |         T.set_max_nreg(24, False)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write threads=384
""",
    ),
    "products that cannot be under way": (
        errors.ProgramError,
        "sm_90a",
        """\
T.wait_wgmma(8)
""",
        """\
T.wait_wgmma: 8 products cannot be under way
 --> kernel.py:7:9
7 |         T.wait_wgmma(8)
  |         ^^^^^^^^^^^^^^^
hint: write 0 to 7
""",
    ),
    "a single thread": (
        errors.NoLowering,
        "sm_90a",
        """\
x = T.alloc_shared((64, 64), "float16")
full = T.alloc_barrier(1)
if T.get_thread_binding() == 0:
    T.tma_copy(A[0, 0], x, barrier=full)
""",
        """\
T.tma_copy: needs all threads of the block or of a group, but stands where only some of them come
  --> kernel.py:10:13
10 |             T.tma_copy(A[0, 0], x, barrier=full)
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: take it out of the branch or loop that depends on the thread index
""",
    ),
    "more shared memory than there is": (
        errors.ResourceError,
        "sm_90a",
        """\
a = T.alloc_shared((4, 128, 64), "float16")
b = T.alloc_shared((4, 64, 256), "float16")
staging = T.alloc_shared((128, 256), "float16")
full = T.alloc_barrier([1] * 4)
T.fill(a, 0)
T.fill(b, 0)
T.tma_copy(staging, A[0:128, 0:256])
T.copy(a[0, :, :], A[0:128, 0:64])
T.copy(b[0, :, :], A[0:64, 0:256])
""",
        """\
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
hint: make the tiles 2 times smaller: they take 262176 bytes
""",
    ),
    "more bytes than a barrier counts": (
        errors.ProgramError,
        "sm_90a",
        """\
full = T.alloc_barrier(1)
T.mbarrier_expect_tx(full, 1 << 20)
""",
        """\
T.mbarrier_expect_tx: 1048576 bytes, but a barrier counts 0 to 1048575
 --> kernel.py:8:9
8 |         T.mbarrier_expect_tx(full, 1 << 20)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    "global memory of another block": (
        errors.ProgramError,
        "sm_90a",
        """\
x = T.cluster_load(A[0, 0], 1)
""",
        """\
T.cluster_load: 'A' is in scope 'global', but blocks reach each other's shared memory only
 --> kernel.py:7:9
7 |         x = T.cluster_load(A[0, 0], 1)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: allocate it with T.alloc_shared
""",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_said(case: str, staged_error: Callable[..., TileLangError]) -> None:
    kind, arch, statements, message = REFUSED[case]
    threads = 288 if case == "a block of no whole warpgroups" else 384
    program = HEADER.format(threads=threads) + textwrap.indent(statements, "        ")
    error = staged_error(program, {"kind": "cuda", "arch": arch}, "simulator")
    assert message.rstrip("\n") == str(error)
    assert type(error) is kind
