"""The whole text of every message about kernels for GPUs: what a GPU cannot do, and what a call on one must bring."""

import re
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeTensor, FakeTorch, needs_nvrtc, torch  # noqa: F401

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.errors import ArgumentError, TileLangError
from tilelang.runtime.arguments import Devices, bind

SM_80 = {"kind": "cuda", "arch": "sm_80"}
SM_90 = {"kind": "cuda", "arch": "sm_90a"}
HEADER = """\
@T.prim_func
def main(A: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
"""


def body(text: str) -> str:
    return HEADER + textwrap.indent(text, "        ")


PRODUCT = """\
@T.prim_func
def main(A: T.Tensor((512, 512), "float16"), B: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 512), "float16")):
    with T.Kernel(1, threads=128) as bx:
        A_s = T.alloc_shared(({M}, {K}), "float16")
        B_s = T.alloc_shared(({K}, {M}), "float16")
        C_f = T.alloc_fragment(({M}, {M}), "float32")
        T.clear(C_f)
        for k in T.Pipelined(4, num_stages={stages}):
            T.copy(A[0, k * {K}], A_s)
            T.copy(B[k * {K}, 0], B_s)
            T.gemm(A_s, B_s, C_f)
        T.copy(C_f, C[0:{M}, 0:{M}])
"""

REFUSED = {  # a program, and what is said of it when it is compiled for sm_80
    "more shared memory than there is, with fewer stages that fit": (
        errors.ResourceError,
        PRODUCT.format(M=128, K=128, stages=4),
        """\
T.Kernel: a block needs 262144 bytes of shared memory, but sm_80 has 166912
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=128) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'A_s' takes 131072 bytes: 4 stages of 32768
 --> kernel.py:7:9
7 |         A_s = T.alloc_shared((128, 128), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'B_s' takes 131072 bytes: 4 stages of 32768
 --> kernel.py:8:9
8 |         B_s = T.alloc_shared((128, 128), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: num_stages=2 fits, with 131072 bytes
""",
    ),
    "more shared memory than there is, whatever the stages": (
        errors.ResourceError,
        body('S = T.alloc_shared((256, 512), "float16")\nT.copy(A, S[0:64, 0:64])\nT.copy(S[0:64, 0:64], A)\n'),
        """\
T.Kernel: a block needs 262144 bytes of shared memory, but sm_80 has 166912
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=128) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: 'S' takes 262144 bytes
 --> kernel.py:7:9
7 |         S = T.alloc_shared((256, 512), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: make the tiles 2 times smaller: they take 262144 bytes
""",
    ),
    "threads that are no whole warps": (
        errors.ResourceError, PRODUCT.format(M=64, K=32, stages=2).replace("threads=128", "threads=100"), """\
T.gemm: 100 threads are no whole number of warps of 32, among which GemmWarpPolicy.Square splits the tile
  --> kernel.py:14:13
14 |             T.gemm(A_s, B_s, C_f)
   |             ^^^^^^^^^^^^^^^^^^^^^
hint: in T.Kernel write threads=96 or threads=128
"""),
    "less than a warp": (
        errors.ResourceError,
        PRODUCT.format(M=16, K=32, stages=2).replace("threads=128", "threads=20").replace(
            "T.gemm(A_s, B_s, C_f)", "T.gemm(A_s, B_s, C_f, policy=T.GemmWarpPolicy.FullRow)"),
        """\
T.gemm: 20 threads are no whole number of warps of 32, among which GemmWarpPolicy.FullRow splits the tile
  --> kernel.py:14:13
14 |             T.gemm(A_s, B_s, C_f, policy=T.GemmWarpPolicy.FullRow)
   |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: in T.Kernel write threads=32
""",
    ),  # fmt: skip
    "too many threads": (errors.ProgramError, HEADER.replace("128", "2048") + "        A[0, 0] = 1.0\n", """\
T.Kernel: threads=2048 makes 2048 threads per block, needs 1 to 1024
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=2048) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write threads=128 or 256: a thread works on several elements of a tile
"""),
    "too many blocks along y": (
        errors.ResourceError, HEADER.replace("1, threads", "2, 65536, threads").replace("bx", "(bx, by)")
        + "        A[bx, by % 64] = 1.0\n", """\
T.Kernel: a grid of 65536 blocks along y, but at most 65535 can be started
 --> kernel.py:6:5
6 |     with T.Kernel(2, 65536, threads=128) as (bx, by):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: put the longest extent first in T.Kernel(...), or give each block more to do
"""),
    "too many blocks along z": (
        errors.ResourceError, HEADER.replace("1, threads", "1, 1, T.ceildiv(2**20, 8), threads")
        .replace("bx", "(bx, by, bz)") + "        A[bx, bz % 64] = 1.0\n", """\
T.Kernel: a grid of 131072 blocks along z, but at most 65535 can be started
 --> kernel.py:6:5
6 |     with T.Kernel(1, 1, T.ceildiv(2**20, 8), threads=128) as (bx, by, bz):
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: put the longest extent first in T.Kernel(...), or give each block more to do
"""),
    "a layout of another shape": (
        errors.ProgramValueError,
        body('S = T.alloc_shared((64, 64), "float16")\n'
             "T.annotate_layout({S: T.Layout((32, 64), lambda i, j: i * 64 + j)})\n"),
        """\
T.annotate_layout: 'S' is (64, 64) but its layout is (32, 64)
 --> kernel.py:8:9
8 |         T.annotate_layout({S: T.Layout((32, 64), lambda i, j: i * 64 + j)})
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: give the layout the shape of the buffer, (64, 64)
""",
    ),  # fmt: skip
    "a layout with two elements in one place": (
        errors.ProgramValueError,
        body('S = T.alloc_shared((64, 64), "float16")\n'
             "T.annotate_layout({S: T.Layout((64, 64), lambda i, j: i * 32 + j)})\n"),
        """\
T.annotate_layout: the layout of shared buffer `S` must be injective, but (0, 32) and (1, 0) both map to physical \
coordinates (32)
 --> kernel.py:8:9
8 |         T.annotate_layout({S: T.Layout((64, 64), lambda i, j: i * 32 + j)})
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: a layout gives every coordinate a place of its own
""",
    ),  # fmt: skip
    "a layout of a global tensor with gaps": (
        errors.ProgramValueError,
        body("T.annotate_layout({A: T.Layout((64, 64), lambda i, j: i * 65 + j)})\n"),
        """\
T.annotate_layout: the layout of global tensor `A` leads 4096 elements into a box of (4159,), but must be a bijection \
onto as many
 --> kernel.py:7:9
7 |         T.annotate_layout({A: T.Layout((64, 64), lambda i, j: i * 65 + j)})
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: a layout of a global tensor leaves no gaps
""",
    ),
    "a fragment's layout for a shared tile": (
        errors.ProgramValueError,
        body('S = T.alloc_shared((64, 64), "float16")\n'
             "T.annotate_layout({S: T.Fragment((64, 64), forward_fn=lambda i, j: (i, j))})\n"),
        """\
T.annotate_layout: 'S' is in shared memory, where no thread holds it
 --> kernel.py:8:9
8 |         T.annotate_layout({S: T.Fragment((64, 64), forward_fn=lambda i, j: (i, j))})
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write T.make_swizzled_layout(S) or T.Layout(shape, lambda i, j: ...)
""",
    ),  # fmt: skip
    "a fragment's layout for other threads": (
        errors.ProgramError,
        body('F = T.alloc_fragment((64, 64), "float16")\n'
             "T.annotate_layout({F: T.Fragment((64, 64), forward_fn=lambda i, j: (i * 4 + j // 16, j % 16))})\n"
             "T.copy(A, F)\nT.copy(F, A)\n"),
        """\
T.annotate_layout: the layout of 'F' is for 256 threads, but the kernel has 128
 --> kernel.py:7:9
7 |         F = T.alloc_fragment((64, 64), "float16")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: spread it over 128 threads, with copies if there are fewer elements
""",
    ),  # fmt: skip
    "an instruction that the GPU does not have": (
        errors.NoLowering,
        body('S = T.alloc_shared((64, 64), "float16")\nR = T.alloc_local((8,), "float16")\n'
             "T.ptx_stmatrix(False, 4, R[0], S[0, 0])\n"),
        """\
T.ptx_stmatrix: sm_80 cannot do that; it needs one of sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103a, sm_120, sm_120a
 --> kernel.py:9:9
9 |         T.ptx_stmatrix(False, 4, R[0], S[0, 0])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out
""",
    ),  # fmt: skip
    "clusters on a GPU that has none": (
        errors.NoLowering,
        HEADER.replace("threads=128", "threads=128, cluster_dims=(2, 1, 1)") + "        A[0, 0] = 1.0\n",
        """\
T.Kernel: cluster_dims=(2, 1, 1): sm_80 cannot do that; it needs one of sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103a, sm_120, sm_120a
 --> kernel.py:6:5
6 |     with T.Kernel(1, threads=128, cluster_dims=(2, 1, 1)) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: compile with target={'kind': 'cuda', 'arch': 'sm_90'}, or leave it out
""",
    ),
    "an operand of inline PTX that is not there": (
        errors.ProgramError,
        body('x = T.alloc_var("int32", init=3)\nT.inline_ptx("mul.lo.s32 %0, %1, %2;", [x], [x])\n'),
        """\
T.inline_ptx: the template names %2, but there are 2 operands
 --> kernel.py:8:9
8 |         T.inline_ptx("mul.lo.s32 %0, %1, %2;", [x], [x])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: outputs come first, then inputs; write %% for a percent sign
""",
    ),
}


CLUSTERS = {  # a kernel with clusters, and what is said of it when it is compiled for sm_90a
    "more blocks than run together": (errors.ResourceError, "32", "(8, 4)", "        A[0, 0] = 1.0\n", """\
T.Kernel: cluster_dims=(8, 4, 1) makes clusters of 32 blocks, but at most 16 can run together
 --> kernel.py:6:5
6 |     with T.Kernel(32, threads=128, cluster_dims=(8, 4)) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write cluster_dims=2 or another number up to 8, which every GPU with clusters can start
"""),
    "a grid that cannot be cut": (errors.ProgramError, "5", "2", "        A[0, 0] = 1.0\n", """\
T.Kernel: a grid of 5 blocks along x cannot be cut into clusters of 2
 --> kernel.py:6:5
6 |     with T.Kernel(5, threads=128, cluster_dims=2) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: round the grid up to a multiple, and let the blocks beyond the end do nothing
"""),
    "clusters along a dimension that the grid does not have": (
        errors.ProgramError, "4", "(1, 2)", "        A[0, 0] = 1.0\n", """\
T.Kernel: a grid of 1 block along y cannot be cut into clusters of 2
 --> kernel.py:6:5
6 |     with T.Kernel(4, threads=128, cluster_dims=(1, 2)) as bx:
  |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: round the grid up to a multiple, and let the blocks beyond the end do nothing
"""),
    "a meeting of all blocks": (errors.NoLowering, "4", "2", "        T.sync_grid()\n        A[0, 0] = 1.0\n", """\
T.sync_grid: the blocks of a grid with clusters cannot synchronize
 --> kernel.py:7:9
7 |         T.sync_grid()
  |         ^^^^^^^^^^^^^
hint: leave cluster_dims out, or end the kernel here and begin another one
"""),
}  # fmt: skip


@pytest.mark.parametrize("case", CLUSTERS)
def test_clusters_that_no_gpu_can_start(case: str, staged_error: Callable[..., TileLangError]) -> None:
    kind, grid, cluster, statements, message = CLUSTERS[case]
    head = HEADER.replace("T.Kernel(1, threads=128)", f"T.Kernel({grid}, threads=128, cluster_dims={cluster})")
    error = staged_error(head + statements, SM_90, "simulator")
    assert message.rstrip("\n") == str(error)
    assert type(error) is kind


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_gpu_cannot_do(case: str, staged_error: Callable[..., TileLangError]) -> None:
    kind, program, message = REFUSED[case]
    error = staged_error(program, SM_80, "simulator")
    assert message.rstrip("\n") == str(error)
    assert type(error) is kind


# -- the user's own code -------------------------------------------------------------------------------------
OWN_CODE = {
    "PTX that does not assemble": (
        'x = T.alloc_var("int32", init=3)\nT.inline_ptx("mul.low.s32 %0, %1, 5;", [x], [x])\nA[0, 0] = T.float16(x)\n',
        """\
inline PTX of kernel 'main_kernel' does not assemble: Unknown field '.s32'; Parsing error near '%r1': syntax error
    mul.low.s32 %r1, %r2, 5;
 --> kernel.py:8:9
8 |         T.inline_ptx("mul.low.s32 %0, %1, 5;", [x], [x])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: check the template of T.inline_ptx against the PTX ISA; the compiler put registers for its operands
""",
    ),
    "PTX that needs another GPU": (
        'T.inline_ptx("setmaxnreg.dec.sync.aligned.u32 64;")\nA[0, 0] = 1.0\n',
        """\
inline PTX of kernel 'main_kernel' does not assemble: Instruction 'setmaxnreg.dec' not supported on .target 'sm_80'
    setmaxnreg.dec.sync.aligned.u32 64;
 --> kernel.py:7:9
7 |         T.inline_ptx("setmaxnreg.dec.sync.aligned.u32 64;")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: check the template of T.inline_ptx against the PTX ISA; the compiler put registers for its operands
""",
    ),
    "a function that is nowhere": (
        'A[0, 0] = T.call_extern("float32", "activation", A[0, 1])\n',
        """\
nvrtc: rejected kernel 'main_kernel', which uses code of your own: generated line 44: identifier "activation" is undefined
    const float call = (float)(activation((float)A[1]));
 --> kernel.py:7:9
7 |         A[0, 0] = T.call_extern("float32", "activation", A[0, 1])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: check the names, types and includes of what T.import_source, T.call_extern or T.inline_ptx was given
""",
    ),
    "source that is no C++": (
        'T.import_source("__device__ float f(float x) { return 2 * y; }")\n'
        'A[0, 0] = T.call_extern("float32", "f", A[0, 1])\n',
        """\
nvrtc: rejected kernel 'main_kernel', which uses code of your own: generated line 41: identifier "y" is undefined
    __device__ float f(float x) { return 2 * y; }
 --> kernel.py:5:1
5 | def main(A: T.Tensor((64, 64), "float16")):
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: check the names, types and includes of what T.import_source, T.call_extern or T.inline_ptx was given
""",
    ),
}


@needs_nvrtc
@pytest.mark.parametrize("case", OWN_CODE)
def test_code_of_the_user_that_does_not_compile(case: str, staged_error: Callable[..., TileLangError]) -> None:
    program, message = OWN_CODE[case]
    error = staged_error(body(program), SM_80)
    text = re.sub(r"/\S*/(kernel\.cu)", r"\1", str(error))
    text, _, note = text.partition("note: ")
    assert note.startswith("the generated source is kernel.cu; the command was\nnvrtc --gpu-architecture=sm_80")
    assert message.rstrip("\n") == f"{text}{note[note.index('hint: '):]}"
    assert isinstance(error, errors.ToolchainError)


# -- running -------------------------------------------------------------------------------------------------
RUNNING = {
    "a barrier that some threads do not reach": (
        errors.BarrierDivergence,
        "simulator",
        "tx = T.get_thread_binding()\nif tx < 5:\n    T.sync_threads()\nA[0, 0] = 1.0\n",
        """\
barrier 0: only lanes 0-4 of warp 0 reach it
 --> kernel.py:9:13
9 |             T.sync_threads()
  |             ^^^^^^^^^^^^^^^^
hint: all threads of a warp must arrive together: move the barrier out of the branch or loop whose condition differs between threads
""",
    ),
    "the index of a thread on the reference interpreter": (
        errors.NoLowering,
        "reference",
        "tx = T.get_thread_binding()\nA[0, tx % 64] = 1.0\n",
        """\
the thread index: is for single GPU threads, and the reference interpreter runs a block as one program
 --> kernel.py:8:9
8 |         A[0, tx % 64] = 1.0
  |         ^^^^^^^^^^^^^^^^^^^
hint: run it with execution_backend='simulator' and target={'kind': 'cuda', 'arch': 'sm_90a'}
""",
    ),
    "an instruction of threads on the reference interpreter": (
        errors.NoLowering,
        "reference",
        'x = T.alloc_var("float32", init=3.0)\nA[0, 0] = T.shfl_xor(x, 1)\n',
        """\
T.shfl_xor: is for single GPU threads, and the reference interpreter runs a block as one program
 --> kernel.py:8:9
8 |         A[0, 0] = T.shfl_xor(x, 1)
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: run it with execution_backend='simulator' and target={'kind': 'cuda', 'arch': 'sm_90a'}
""",
    ),
    "inline PTX on the simulator": (
        errors.NoLowering,
        "simulator",
        'x = T.alloc_var("int32", init=3)\nT.inline_ptx("mul.lo.s32 %0, %1, 5;", [x], [x])\nA[0, 0] = T.float16(x)\n',
        """\
T.inline_ptx: inline PTX cannot be simulated
 --> kernel.py:8:9
8 |         T.inline_ptx("mul.lo.s32 %0, %1, 5;", [x], [x])
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
hint: write it with the operators of the language, or run it on a GPU
""",
    ),
    "an assertion": (
        errors.DeviceAssertError,
        "simulator",
        'T.device_assert(A[0, 0] > 0, "a positive number")\nA[0, 0] = 1.0\n',
        """\
a positive number
 --> kernel.py:7:9
7 |         T.device_assert(A[0, 0] > 0, "a positive number")
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
note: in thread 0 of block (0,)
""",
    ),
}


@pytest.mark.parametrize("case", RUNNING)
def test_what_goes_wrong_while_a_kernel_runs(case: str, staged_error: Callable[..., TileLangError]) -> None:
    kind, backend, program, message = RUNNING[case]
    error = staged_error(body(program), SM_80, backend, [np.zeros((64, 64), np.float16)])
    assert message.rstrip("\n") == str(error)
    assert type(error) is kind


# -- arguments -----------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def scale() -> Any:
    @T.prim_func
    def scale(A: T.Tensor((8, 4), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i, j in T.Parallel(8, 4):
                B[i, j] = A[i, j] * 2

    return tilelang.compile(scale, target=SM_80, execution_backend="simulator").signature


CALLS = {
    "a NumPy array": (lambda torch: np.zeros((8, 4), np.float32), """\
scale: 'B' is in host memory, expected memory of a CUDA device
hint: pass torch.from_numpy(B).cuda(); the kernel was compiled for sm_80
"""),
    "a tensor of the host": (lambda torch: torch.real.zeros(8, 4), """\
scale: 'B' is in host memory, expected memory of a CUDA device
hint: pass B.cuda(); the kernel was compiled for sm_80
"""),
    "a tensor of another GPU": (lambda torch: FakeTensor((8, 4), torch.float32, 1), """\
scale: 'B' is on device cuda:1, but 'A' is on cuda:0
hint: pass tensors that are all on one device
"""),
    "a wrong dtype": (lambda torch: FakeTensor((8, 4), torch.float16), """\
scale: 'B' has dtype torch.float16, expected float32
hint: write B = B.to(torch.float32) before the call, and pass that
"""),
    "a wrong shape": (lambda torch: FakeTensor((4, 8), torch.float32), """\
scale: 'B' has shape (4, 8), expected (8, 4)
"""),
    "a transposed tensor": (lambda torch: FakeTensor((8, 4), torch.float32, strides=(1, 8)), """\
scale: 'B' is not contiguous: its strides are (1, 8), expected (4, 1)
hint: write B = B.contiguous() before the call, and pass that, or declare the parameter with T.StridedTensor
"""),
    "a tensor between two addresses": (lambda torch: FakeTensor((8, 4), torch.float32).shifted(2), """\
scale: 'B' starts at an address that is not a multiple of the size of float32
hint: write B = B.clone() before the call, and pass that
"""),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_a_call_must_bring(case: str, scale: Any, torch: FakeTorch) -> None:
    make, message = CALLS[case]
    with pytest.raises(ArgumentError) as caught:
        bind(scale, (FakeTensor((8, 4), torch.float32), make(torch)), Devices("sm_80", lambda pointer: 0, lambda: 0))
    caught.value.loc = None
    assert message.rstrip("\n") == str(caught.value)
