"""Each mistake in a program that programs catch: as which exception, with which words, and at which line.

The texts are regular expressions that published programs and tests search for. `# here` marks the line at fault.
"""

import textwrap
from pathlib import Path

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import TileLangError

HOPPER, AMPERE = {"kind": "cuda", "arch": "sm_90a"}, {"kind": "cuda", "arch": "sm_80"}

TILES = """\
s = T.alloc_shared((64, 64), "float32")
h = T.alloc_shared((64, 64), "float16")
f = T.alloc_fragment((64, 64), "float32")
row = T.alloc_fragment((64,), "float32")
"""
REDUCER = """\
r = T.alloc_reducer((64,), "float32")
out = T.alloc_fragment((64,), "float32")
"""
EPOCH = REDUCER + """\
T.reducer_init(r)
for i in T.Parallel(64):
    T.reducer_update(r[i], A[i, 0])
"""

# name: (body of a kernel, what it is caught as, its words)
IN_KERNELS: dict[str, tuple[str, tuple[type[Exception], ...], str]] = {
    "a product in a parallel loop": (
        TILES + "for i in T.Parallel(64):\n    T.gemm(h, h, f)  # here", (ValueError,), "T.Parallel"
    ),
    "a reduction in a parallel loop": (
        TILES + "for i in T.Parallel(64):\n    T.reduce_sum(f, row)  # here", (ValueError,), "T.Parallel"
    ),
    "a scan in a parallel loop": (
        TILES + "for i in T.Parallel(64):\n    T.cumsum(row)  # here", (ValueError,), "T.Parallel"
    ),
    "an initial value that is too large": (
        'v = T.alloc_var("float32", init=1e300)  # here', (ValueError,), "exceeds maximum of float32"
    ),
    "an initial value that is too small": (
        'v = T.alloc_var("int8", init=-300)  # here', (ValueError,), "minimum of int8"
    ),
    "two initial values": ('v = T.alloc_var("int32", 1, init=2)  # here', (TypeError,), "init"),
    "a reshape to another size": (
        TILES + "v = T.reshape(s, (3, 3))  # here", (AssertionError, ValueError), "T.reshape"
    ),
    "a view of another size": (TILES + "v = T.view(s, (3, 3))  # here", (AssertionError, ValueError), "T.view"),
    "a product whose M disagrees": (
        TILES + "T.gemm(h[:32, :], h, f)  # here", (AssertionError,), "M is 32 on one side and 64 on the other"
    ),
    "a product whose N disagrees": (
        TILES + "T.gemm(h, h[:, :32], f)  # here", (AssertionError,), "N is 32 on one side and 64 on the other"
    ),
    "a product whose K disagrees": (
        TILES + "T.gemm(h[:, :32], h, f)  # here", (AssertionError,), "K is 32 on one side and 64 on the other"
    ),
    "a copy between different shapes": (
        'T.copy(A, T.alloc_shared((32, 32), "float32"))  # here', (ValueError,), r"\(64, 64\) but .* is \(32, 32\)"
    ),
    "a layout of shared memory that is not injective": (
        TILES + "T.annotate_layout({s: T.Layout((64, 64), lambda i, j: (i // 2, j))})  # here",
        (ValueError,),
        "shared buffer `s`.*must be injective.*both map to physical coordinates",
    ),
    "a layout that is none": (TILES + "T.annotate_layout({s: 3})  # here", (ValueError,), "T.annotate_layout"),
    "a reducer of bits over floats": (
        'r = T.alloc_reducer((64,), "float32", op="bitand")  # here', (AssertionError,), "integer dtype"
    ),
    "an update of a reducer without an epoch": (
        REDUCER + "for i in T.Parallel(64):\n    T.reducer_update(r[i], A[i, 0])  # here",
        (ValueError,),
        "before T.reducer_init",
    ),
    "a read of a reducer": (
        REDUCER + "T.reducer_init(r)\nfor i in T.Parallel(64):\n    B[i, 0] = r[i]  # here",
        (ValueError,),
        "illegal read of reducer",
    ),
    "a store to a reducer": (
        REDUCER + "T.reducer_init(r)\nfor i in T.Parallel(64):\n    r[i] = 1  # here",
        (ValueError,),
        "illegal store to reducer",
    ),
    "two epochs at once": (
        REDUCER + "T.reducer_init(r)\nT.reducer_init(r)  # here", (ValueError,), "double T.reducer_init"
    ),
    "totals outside of the epoch": (
        REDUCER + "for k in T.serial(4):\n    T.reducer_init(r)\nT.finalize_reducer(r, out)  # here",
        (ValueError,),
        "not in the scope of its T.reducer_init",
    ),
    "an epoch that begins with another dtype": (
        REDUCER + "T.reducer_init(r, T.int32(3))  # here", (ValueError,), "does not match reducer"
    ),
    "totals in batches of none": (
        EPOCH + "T.finalize_reducer(r, out, batch=0)  # here", (ValueError,), "batch must be >= 1"
    ),
    "totals in batches that are too large": (
        EPOCH + "T.finalize_reducer(r, out, batch=65)  # here", (ValueError,), "exceeds total output elements"
    ),
    "totals in batches that do not fit": (
        EPOCH + "T.finalize_reducer(r, out, batch=7)  # here", (ValueError,), "must evenly divide"
    ),
    "a reduction in batches of none": (
        TILES + "T.reduce_sum(f, row, batch=0)  # here", (ValueError,), "batch must be >= 1"
    ),
    "a reduction of a dimension that is not there": (
        TILES + "T.reduce_sum(f, row, dim=5)  # here", (ValueError,), "no dimension 5"
    ),
    "a reduction into another shape": (TILES + "T.reduce_max(f, row[:32])  # here", (ValueError,), "T.reduce_max"),
    "a reduction of bits over floats": (TILES + "T.reduce_bitand(f, row)  # here", (ValueError,), "T.reduce_bitand"),
    "a scan along a dimension that is not there": (
        TILES + "T.cumsum(f, f, dim=5)  # here", (ValueError,), "no dimension 5"
    ),
    "a scan into another shape": (TILES + "T.cummax(f, row)  # here", (ValueError,), "T.cummax"),
    "an order that an atomic load lacks": (
        'B[0, 0] = T.atomic_load(A[0, 0], memory_order="release")  # here',
        (ValueError,),
        "atomic_load does not support memory_order",
    ),
    "an order that an atomic store lacks": (
        'T.atomic_store(B[0, 0], 1.0, memory_order="acquire")  # here',
        (ValueError,),
        "atomic_store does not support memory_order",
    ),
    "an order that no atomic has": (
        'T.atomic_add(B[0, 0], 1.0, memory_order="x")  # here', (ValueError,), "unknown memory_order 'x'"
    ),
    "the values before an atomic on a tile": (
        TILES + "T.atomic_add(B, f, return_prev=True)  # here", (NotImplementedError,), "return_prev"
    ),
    "a rounding that is unknown": (
        'B[0, 0] = T.cast(A[0, 0], "float16", round="up")  # here', (ValueError,), "Invalid round"
    ),
    "a saturation that is neither true nor false": (
        'B[0, 0] = T.cast(A[0, 0], "float16", sat=3)  # here', (ValueError,), "Invalid sat"
    ),
    "stochastic rounding without random bits": (
        'B[0, 0] = T.cast(A[0, 0], "float16", round="rs")  # here', (ValueError,), "rbits is required"
    ),
    "random bits for another rounding": (
        'B[0, 0] = T.cast(A[0, 0], "float16", round="rn", rbits=T.uint32(3))  # here',
        (ValueError,),
        "rbits is only valid",
    ),
    **{
        f"stochastic rounding to {dtype}": (
            f'B[0, 0] = T.cast(T.cast(A[0, 0], "{dtype}", round="rs", rbits=T.uint32(3)), "float32")  # here',
            (RuntimeError,),
            f"Stochastic rounding f32-to-{shown} requires sm_100a",
        )
        for dtype, shown in (("float16", "FP16"), ("bfloat16", "BF16"), ("float8_e5m2", "FP8"), ("float4_e2m1fn", "FP4"))
    },
    "a rounding mode that is unknown": (
        'B[0, 0] = T.ieee_add(A[0, 0], A[0, 0], "x")  # here', (ValueError,), "Invalid rounding mode"
    ),
    "a rounding mode that halves lack": (
        'B[0, 0] = T.ieee_mul(T.float16(A[0, 0]), T.float16(1), "rz")  # here',
        (),
        "Only rounding mode 'rn' is available for half precision",
    ),
    "a reciprocal root in double precision": (
        "B[0, 0] = T.ieee_frsqrt(T.float64(A[0, 0]))  # here", (), "frsqrt is not supported for float64"
    ),
    "packed arithmetic of two dtypes": (
        "v = T.add2(T.float32x2(A[0, 0], A[0, 1]), T.float16x2(1, 2))  # here", (ValueError,), "same dtype"
    ),
    "packed arithmetic of scalars": ("v = T.mul2(A[0, 0], A[0, 1])  # here", (TypeError,), "T.mul2"),
    "dot products of other dtypes": ("v = T.dp4a(1.5, 2.5, 3.5)  # here", (ValueError,), "dp4a requires"),
    "a fast function of integers": (
        "B[0, 0] = T.__exp(T.int8(A[0, 0]))  # here",
        (TypeError,),
        "T.__exp only supports floating-point inputs, but got int8",
    ),
    "a vote of floats": (
        "B[0, 0] = T.any_sync(A[0, 0])  # here", (TypeError,), "requires an integer or boolean predicate"
    ),
    "a lane of what is no expression": ('v = T.extract_lane("x", 0)  # here', (TypeError,), "expects a PrimExpr"),
    "a lane that is no constant": (
        "v = T.extract_lane(T.float32x2(A[0, 0], A[0, 1]), bx)  # here", (TypeError,), "compile-time integer"
    ),
    "a lane of a scalar": ("v = T.extract_lane(A[0, 0], 0)  # here", (ValueError,), "expects a vector expression"),
    "a lane that is not there": (
        "v = T.extract_lane(T.float32x2(A[0, 0], A[0, 1]), 2)  # here",
        (IndexError, TypeError, ValueError),
        "out of bounds",
    ),
    "a product of warpgroups that no instruction does": (
        TILES + "T.wgmma_gemm(s, s, f)  # here", (), "requires Hopper WGMMA lowering"
    ),
    "an asynchronous copy out of shared memory": (
        TILES + "T.async_copy(s, B)  # here", (), "only supports global->shared"
    ),
    "a slice with a step": ("B[0:8:2, 0] = 1  # here", (RuntimeError, ValueError), "a slice with a step"),
    "a loop whose step is zero": ("for i in T.serial(0, 8, 0):  # here\n    B[i, 0] = 1", (ValueError,), "step"),
    "two ways to unroll": (
        "for i in T.unroll(8, explicit=True, unroll_factor=2):  # here\n    B[i, 0] = 1", (ValueError,), "unroll_factor"
    ),
    "an order of blocks that is unknown": ('T.use_swizzle(4, order="x")  # here', (ValueError,), "order is 'x'"),
}

# whole functions, for what does not stand in a kernel
FUNCTIONS: dict[str, tuple[str, tuple[type[Exception], ...], str]] = {
    "no threads": (
        """\
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=0):  # here
                A[0] = 1
        """,
        (ValueError,),
        "threads must be positive",
    ),
    "four dimensions of a grid": (
        """\
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, 1, 1, 1):  # here
                A[0] = 1
        """,
        (ValueError,),
        "T.Kernel",
    ),
    "a shape of an output that is none": (
        """\
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            O = T.empty({})  # here
            with T.Kernel(1):
                O[0] = A[0]
            return O
        """,
        (TypeError,),
        "T.empty",
    ),
    "an output that is not returned": (
        """\
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            O = T.empty((4,))  # here
            with T.Kernel(1):
                O[0] = A[0]
        """,
        (RuntimeError,),
        "'O'",
    ),
    "a size that no parameter has": (
        """\
        @tilelang.jit
        def main(A):
            M, N = T.const("M, N")  # here
            A: T.Tensor((M,), "float32")
            with T.Kernel(1):
                A[0] = 1
        main = main.get_tir(T.Tensor((4,), "float32"))
        """,
        (RuntimeError,),
        "'N'",
    ),
    "a value for a reference": (
        """\
        @T.macro
        def clear(x: T.Ref):
            x = 0
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                clear(3)  # here
        """,
        (ValueError,),
        "passed by reference",
    ),
    "strides that are fewer than extents": (
        """\
        T.StridedTensor((4, 4), (1,))  # here
        """,
        (ValueError,),
        "2 extents .* but 1 strides",
    ),
    "an entry that a source lacks": (
        """\
        SOURCE = 'extern "C" __global__ void a(float* A) {} extern "C" __global__ void b(float* A) {}'
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            T.CUDASourceCodeKernel(1, source_code_or_path=SOURCE, entry_name="c")  # here
        """,
        (ValueError,),
        "Available entries: a, b",
    ),
    "leading extents of a layout": (
        """\
        T.Layout((8,), lambda i: i).expand(0)  # here
        """,
        (ValueError,),
        "below 1",
    ),
    "leading extents of a layout that are no ints": (
        """\
        T.Layout((8,), lambda i: i).expand("x")  # here
        """,
        (TypeError,),
        "Layout.expand",
    ),
    "a layout repeated zero times": (
        """\
        T.Layout((8,), lambda i: i).repeat(0, 0)  # here
        """,
        (ValueError,),
        "Layout.repeat",
    ),
    "a layout repeated along a dimension that is not there": (
        """\
        T.Layout((8,), lambda i: i).repeat(3, 2)  # here
        """,
        (ValueError,),
        "Layout.repeat",
    ),
}

# legal here, where published TileLang refuses them: programs with a meaning for the block run
LEGAL = {
    "a statement between parallel loops": (
        "for i in T.Parallel(64):\n    B[i, 0] = 1\n    for j in T.Parallel(64):\n        B[i, j] = A[i, j]"
    ),
    "a pipelined loop in a parallel one": (
        "for i in T.Parallel(64):\n    for j in T.Pipelined(4, num_stages=2):\n        B[i, j] = A[i, j]"
    ),
    "a local buffer indexed by a parallel variable": (
        'v = T.alloc_local((64,), "float32")\nfor i in T.Parallel(64):\n    v[i] = A[i, 0]\n'
        "for i in T.Parallel(64):\n    B[i, 0] = v[i]"
    ),
    "a sum over a dimension that threads share": (
        TILES + "T.copy(A, f)\nT.clear(row)\nfor k in T.serial(64):\n    for i in T.Parallel(64):\n"
        "        row[i] += f[i, k]\nT.copy(row, B[0, :])"
    ),
}


def kernel(body: str) -> str:
    return (
        "@T.prim_func\ndef main(A: T.Tensor((64, 64), 'float32'), B: T.Tensor((64, 64), 'float32')):\n"
        "    with T.Kernel(1, threads=128) as bx:\n" + textwrap.indent(body, " " * 8)
    )


def compiled(text: str, folder: Path, target: object = HOPPER) -> None:
    file = folder / "kernel.py"
    file.write_text(text)
    names: dict[str, object] = {"__name__": "kernel", "T": T, "tilelang": tilelang}
    exec(compile(text, str(file), "exec"), names)
    if "main" in names:
        tilelang.lower(names["main"], target)  # type: ignore[arg-type]


def check(text: str, kinds: tuple[type[Exception], ...], words: str, folder: Path, target: object = HOPPER) -> None:
    error = refusal(lambda: compiled(text, folder, target), kinds, words)
    assert [n for n, line in enumerate(text.splitlines(), 1) if "# here" in line] == [line_of(error)]
    assert "# here" in str(error)


def line_of(error: TileLangError) -> int:
    place = error.loc or error._calling_line
    assert place is not None
    return place.line


@pytest.mark.parametrize("mistake", IN_KERNELS)
def test_a_mistake_in_a_kernel_is_caught_as_programs_catch_it(mistake: str, tmp_path: Path) -> None:
    body, kinds, words = IN_KERNELS[mistake]
    check(kernel(body), kinds, words, tmp_path)


@pytest.mark.parametrize("mistake", FUNCTIONS)
def test_a_mistake_around_a_kernel_is_caught_as_programs_catch_it(
    mistake: str, tmp_path: Path, calling_line: None
) -> None:
    text, kinds, words = FUNCTIONS[mistake]
    check(textwrap.dedent(text), kinds, words, tmp_path)


def test_a_product_of_warpgroups_on_another_gpu_is_refused(tmp_path: Path) -> None:
    body = TILES + "T.wgmma_gemm(h, h, f)  # here"
    check(kernel(body), (RuntimeError,), "requires Hopper WGMMA lowering", tmp_path, AMPERE)


@pytest.mark.parametrize("program", LEGAL)
def test_what_has_a_meaning_for_the_block_compiles(program: str, tmp_path: Path) -> None:
    compiled(kernel(LEGAL[program]), tmp_path)
