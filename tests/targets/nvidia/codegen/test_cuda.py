"""Whole programs as CUDA: random kernels compute what the reference interpreter does; the host's arguments are right."""

import dataclasses

import numpy as np
import pytest
from cuda_host import needs_compiler, run_source, sequential_source
from device_text import ARCHITECTURES, compile_cuda, needs_cuda_compiler
from harness import assert_same, run_reference_on_copies
from programs import random_program
from tensor_copies import tensor_map
from thread_kernels import buffer, index, kernel, staged_copy

import tilelang.language as T
from tilelang.codegen.source import KernelArgument, TensorMapText
from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Load, Var, as_expr, cast
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.specialization import INDEX_BITS
from tilelang.ir.stmt import Alloc, Bind, CallStmt, If, LaunchHints, Seq, Store
from tilelang.targets.gpu.isa.extern import call_extern
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.tma import tma_load


@pytest.mark.slow(every=24)
@needs_compiler
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("symbolic", [False, True])
def test_random_kernels_agree_with_the_reference_and_overflow_nowhere(seed, symbolic, capfd):
    program = random_program(300 + seed, launches=4, symbolic=symbolic)
    expected = run_reference_on_copies(program.func, program.arguments)
    actual = [np.array(a) for a in program.arguments]
    symbols = {s.name: n for p, a in zip(program.func.params, actual) for s, n in zip(p.buffer.shape, a.shape) if symbolic}
    run_source(program.func, sequential_source(program.func), actual, symbols)
    assert "" == capfd.readouterr().err
    for want, got in zip(expected, actual, strict=True):
        assert_same(want, got)


@needs_compiler
def test_launches_run_in_order_with_a_workspace_between_them():
    @T.prim_func
    def main(A: T.Tensor((T.dyn["n"],), "float32"), B: T.Tensor((1,), "float32")):
        n = A.shape[0]
        squares = T.alloc_global((n,), "float32")
        with T.Kernel(T.ceildiv(n, 4)) as bx:
            for i in T.Parallel(4):
                squares[bx * 4 + i] = A[bx * 4 + i] * A[bx * 4 + i]
        with T.Kernel(1):
            total = T.alloc_var("float32", init=0.0)
            for k in T.serial(n):
                total += squares[k]
            B[0] = total

    source = sequential_source(main)
    assert ["main_kernel", "main_kernel_1"] == [launch.name for launch in source.launches]
    assert ("(4 * n)",) == source.workspaces
    first, second = source.launches
    assert [("tensor", 0), ("workspace", 0), ("symbol", 0)] == [(a.kind, a.index) for a in first.arguments]
    assert [("tensor", 1), ("workspace", 0), ("symbol", 0)] == [(a.kind, a.index) for a in second.arguments]
    assert "const float* __restrict__ squares" in source.text  # in the kernel that only reads it
    arguments = [np.arange(7, dtype=np.float32), np.zeros(1, np.float32)]
    run_source(main, source, arguments, {"n": 7})
    assert [91.0] == arguments[1].tolist()


@needs_compiler
def test_scalars_arrive_in_their_dtype():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), x: T.float32, n: T.int32, flag: T.bool, unused: T.int64):
        with T.Kernel(n + 4):
            A[0] = x
            A[1] = T.cast(n, "float32")
            A[2] = T.if_then_else(flag, 1.0, 2.0)

    source = sequential_source(main)
    (launch,) = source.launches
    kinds = [(a.kind, a.index, a.ctype) for a in launch.arguments]
    assert [("tensor", 0, "void*"), ("scalar", 1, "float"), ("scalar", 2, "int32_t"), ("scalar", 3, "bool")] == kinds
    assert ("(n + 4)",) == launch.grid
    arguments = [np.zeros(4, np.float32), 0.5, -3, True, 0]
    run_source(main, source, arguments)
    assert [0.5, -3.0, 1.0, 0.0] == arguments[0].tolist()


def test_scalars_of_narrow_floats_are_rounded_on_arrival():
    @T.prim_func
    def main(A: T.Tensor((1,), "float32"), h: T.float16):
        with T.Kernel(1):
            A[0] = T.cast(h, "float32")

    text = sequential_source(main).text
    assert "float h_arg)" in text
    assert "const float h = half_t::rounded(h_arg);" in text


def test_a_kernel_takes_what_it_uses_and_names_only_that():
    source = emit(staged_copy())
    (launch,) = source.launches
    assert ("staged_kernel", (256, 1, 1), 12288, (1, 1, 1)) == (
        launch.name,
        launch.threads,
        launch.shared_bytes,
        launch.cluster,
    )
    assert ("(-((-M) // 64))",) == launch.grid
    assert KernelArgument("symbol", 0, "int32_t") == launch.arguments[-1]
    head = 'extern "C" __global__ void __launch_bounds__(256, 2) staged_kernel('
    lines = [head, "    const half_t* __restrict__ A,", "    half_t* __restrict__ B,", "    int M", ") {"]
    assert "\n".join(lines) in source.text
    assert "const int bx = blockIdx.x;" in source.text
    assert "const int thread = threadIdx.x;" in source.text
    assert "tl_failed" not in source.text


@needs_cuda_compiler
def test_clusters_and_early_launches_are_known_to_the_compiler_and_to_the_host():
    a = buffer("A", (4,), "float32")
    func = kernel("fill", (a,), [CallStmt(GRID_DEPENDENCY_WAIT, ()), Store(a, (as_expr(0),), cast(1.0, FLOAT32))])
    (launch,) = func.body.body
    launch = dataclasses.replace(launch, hints=LaunchHints(cluster=(2, 1, 1)))
    func = dataclasses.replace(func, body=Seq((launch,)))
    source = emit(func)
    (launch,) = source.launches
    assert "__launch_bounds__(128) __cluster_dims__(2, 1, 1) fill_kernel(" in source.text
    assert ((2, 1, 1), True, False) == (launch.cluster, launch.early, launch.cooperative)
    assert compile_cuda(source.text, "sm_90a")


def test_unused_indices_of_blocks_and_threads_are_not_read():
    a = buffer("A", (4,), "float32")
    text = emit(kernel("fill", (a,), [Store(a, (as_expr(0),), cast(1.0, FLOAT32))], thread=index("thread"))).text
    assert "Idx" not in text


def test_threads_are_counted_with_x_running_fastest():
    a = buffer("A", (1024,), "float32")
    thread = index("t")
    store = Store(a, (thread,), cast(1.0, FLOAT32))

    def line(threads):
        text = emit(kernel("fill", (a,), [store], thread=thread, threads=threads)).text
        return next(line.strip() for line in text.splitlines() if "threadIdx" in line)

    assert "const int t = threadIdx.x;" == line((32, 1, 1))
    assert "const int t = threadIdx.x + 32 * threadIdx.y;" == line((32, 4, 1))
    assert "const int t = threadIdx.x + 8 * (threadIdx.y + 4 * threadIdx.z);" == line((8, 4, 2))


def test_sixteen_bytes_move_in_one_access():
    text = emit(staged_copy(asynchronous=False)).text
    place = "(bx * 64 + (thread >> 2)) * 256 + (k * 32 + (thread & 3) * 8)"
    assert f"= bx * 64 + (thread >> 2) < M ? *(const uint4*)&A[{place}] : uint4{{}};" in text
    assert f"*(uint4*)&B[{place}] = tl_float32x8_to_float16x8(*(const tl_words<2>*)&wide[0]);" in text


def test_offsets_are_64_bits_wide_where_a_tensor_may_be_that_large():
    func = staged_copy()
    text = emit(dataclasses.replace(func, attributes=((INDEX_BITS, 64),))).text
    assert "&A[(int64_t)(bx * 64 + (thread >> 2)) * 256 + k * 32 + (thread & 3) * 8]" in text


def test_a_multiple_of_a_symbol_counts_as_an_extent():
    part, thread = index("M_div16"), index("thread")
    a = buffer("A", (part * 16,), "float32")
    store = If(thread < part * 16, Store(a, (thread,), cast(0.0, FLOAT32)))
    func = kernel("fill", (a,), [store], thread=thread, symbols=(part,), grid=(-(-(part * 16) // 128),))
    source = emit(func)
    assert "if (thread < M_div16 * 16) {" in source.text  # which does not overflow, since extents do not
    assert ("(-((-(M_div16 * 16)) // 128))",) == source.launches[0].grid


def test_the_users_own_functions_stand_once_before_the_kernels():
    a = buffer("A", (1,), "float32")
    twice = "__device__ float twice(float x) { return 2 * x; }\n"
    result = Var("result", FLOAT32)
    call = CallStmt(call_extern(FLOAT32, "twice", 1), (cast(1.5, FLOAT32),), result=result)
    body = [call, Store(a, (as_expr(0),), result)]
    text = emit(kernel("use", (a,), body, hints=LaunchHints(sources=(twice,)))).text
    assert 1 == text.count(twice)
    assert text.index(twice) < text.index("__global__")
    assert "const float result = (float)(twice(1.5f));" in text


def test_copies_in_flight_are_calls_of_their_instructions():
    text = emit(staged_copy()).text
    assert "tl_cp_async_16(&A_s[" in text
    assert "    tl_cp_async_wait<0>();" in text
    assert "    __syncthreads();" in text
    assert 1 == text.count("void tl_cp_async_16(")  # the helper is there once


def test_names_that_mean_something_in_cuda():
    uint4, half_t = buffer("uint4", (4,), "float16x4"), buffer("half_t", (4,), "float16")
    thread, float2 = index("threadIdx"), index("float2")
    vector = Load(half_t, (as_expr(0),), as_dtype("float16x4"))
    body = [Bind(float2, thread + 1), Store(uint4, (float2,), vector)]
    text = emit(kernel("printf", (uint4, half_t), body, thread=thread, threads=(2, 1, 1))).text
    assert "const int threadIdx_ = threadIdx.x;" in text
    assert "const int float2_ = threadIdx_ + 1;" in text
    assert "uint4_[float2_] = *(const uint2*)&half_t_[0];" in text


def test_lines_lead_back_to_the_user():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[1] = 2.0

    source = sequential_source(main)
    text = source.text.splitlines()
    number = next(n for n, line in enumerate(text, start=1) if "A[1] = 2.0f;" in line)
    assert text[number - 2].strip().startswith("// test_cuda.py:")
    assert source.lines[number].file == __file__
    head = next(n for n, line in enumerate(text) if 'extern "C"' in line)
    assert text[head - 1].endswith("with T.Kernel(1):")


def test_a_function_at_tile_level_is_refused():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    with pytest.raises(CompilerBug, match="'main' is at tile level"):
        emit(main)


def test_statements_outside_of_launches_are_refused():
    a = buffer("A", (4,), "float32")
    func = kernel("fill", (a,), [])
    stray = Store(a, (as_expr(0),), cast(1.0, FLOAT32))
    with pytest.raises(CompilerBug, match="Store outside of a launch"):
        emit(type(func)(func.name, func.params, Seq((stray,)), level=func.level))


@needs_cuda_compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_printed_kernels_compile(architecture):
    sources = [emit(staged_copy(asynchronous=architecture != "sm_75"))]
    sources += [sequential_source(random_program(400, launches=2, symbolic=True).func)]
    for source in sources:
        compile_cuda(source.text, architecture)


def tensor_copy(rows, *, known=True):
    """A box of rows of A into shared memory, through a map; another map is not used."""
    a, tile = buffer("A", (rows, 64), "float16"), buffer("tile", (512,), "float16", Scope.SHARED)
    bar = buffer("full", (1,), "uint64", Scope.BARRIER)
    there = tensor_map(a if known else buffer("B", (8, 64), "float16"), (64, 8), 128)
    other = tensor_map(a, (32, 8), 64)
    region, at = (Region(b, (as_expr(0),), (as_expr(1),)) for b in (tile, bar))
    load = CallStmt(tma_load(2), (region, there.var, at, as_expr(0), as_expr(8)))
    plan = LaunchPlan(shared_offsets=((tile, 0), (bar, 1024)), shared_bytes=1032, tensor_maps=(other, there))
    symbols = [rows] if isinstance(rows, Var) else []
    return kernel("f", [buffer("first", (4,), "float32"), a], [Alloc(tile), Alloc(bar), load], plan=plan, symbols=symbols)


def test_maps_of_tensors_are_parameters_that_the_host_encodes():
    source = emit(tensor_copy(index("n")))
    assert "const __grid_constant__ tl_tensor_map A_map" in source.text
    assert "tl_tma_load_2d(tile, &A_map" in source.text
    (launch,) = source.launches
    assert (KernelArgument("tensor_map", 0, "tl_tensor_map"),) == launch.arguments
    (text,) = launch.tensor_maps
    assert TensorMapText(1, as_dtype("float16"), ("64", "n"), ("128",), (64, 8), 128) == text


@needs_cuda_compiler
def test_kernels_with_maps_of_tensors_compile():
    assert compile_cuda(emit(tensor_copy(16)).text, "sm_90a")


def test_a_map_is_of_a_parameter():
    with pytest.raises(CompilerBug, match="the map of 'B', no parameter and no workspace"):
        emit(tensor_copy(16, known=False))
