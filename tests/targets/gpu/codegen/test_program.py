"""What all languages of GPUs print alike of whole programs, and tell the host, in each of them."""

import pytest
from thread_kernels import buffer, index, kernel

import tilelang.language as T
from tilelang.codegen.source import KernelArgument
from tilelang.errors import CompilerBug
from tilelang.ir.expr import Load, as_expr
from tilelang.ir.stmt import Store
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.targets.amd.codegen import hip
from tilelang.targets.nvidia.codegen import cuda
from tilelang.targets.target import Target

in_each_language = pytest.mark.parametrize(
    ("emit", "target"),
    [(cuda.emit, Target("cuda", "sm_80")), (hip.emit, Target("hip", "gfx942"))],
    ids=["cuda", "hip"],
)


@in_each_language
def test_launches_have_kernels_and_arguments(emit, target):
    @T.prim_func
    def main(A: T.Tensor((T.dyn["n"],), "float32"), B: T.Tensor((4,), "float32"), scale: T.float32):
        n = A.shape[0]
        squares = T.alloc_global((n,), "float32")
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                squares[bx * 64 + i] = A[bx * 64 + i] * scale
        with T.Kernel(1, threads=64):
            B[0] = squares[0]

    source = emit(lowered(main, target, CompileOptions()))
    first, second = source.launches
    assert (target.kind, "main_kernel", ("(4 * n)",)) == (source.language, source.entry, source.workspaces)
    assert ("main_kernel", "main_kernel_1") == (first.name, second.name)
    tensor, workspace = KernelArgument("tensor", 0, "void*"), KernelArgument("workspace", 0, "void*")
    assert (tensor, workspace) == first.arguments[:2]
    assert KernelArgument("scalar", 2, "float") in first.arguments
    assert (KernelArgument("tensor", 1, "void*"), workspace) == second.arguments[:2]
    assert ((64, 1, 1), 0) == (first.threads, first.shared_bytes)
    assert {__file__} == {loc.file for loc in source.lines.values()}


@in_each_language
def test_threads_are_numbered_along_x_first(emit, target):
    thread, a = index("t"), buffer("A", (64,), "float32")
    body = [Store(a, (thread,), Load(a, (as_expr(0),), a.dtype))]
    (line,) = [
        line for line in emit(kernel("test", [a], body, threads=(4, 2, 8), thread=thread)).text.splitlines() if "int t =" in line
    ]
    axes = "threadIdx.{}" if target.kind == "cuda" else "(int)__builtin_amdgcn_workitem_id_{}()"
    x, y, z = map(axes.format, "xyz")
    # loops in HIP hide it from the compiler where registers are scarce
    const = "const " if target.kind == "cuda" else ""
    assert f"{const}int t = {x} + 4 * ({y} + 2 * {z});" == line.strip()


@in_each_language
def test_programs_of_tiles_are_not_printed(emit, target):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            A[0] = 0.0

    with pytest.raises(CompilerBug, match="codegen: 'main' is at tile level"):
        emit(main)
