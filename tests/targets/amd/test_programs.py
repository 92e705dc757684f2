"""Programs of every kind on AMD GPUs: simulated as the reference has them, compiled to code without scratch, executed.

What is executed is the machine code, by AMD's own definitions of its instructions: see `amd_execution`.
"""

import importlib.util
import os

import numpy as np
import pytest
from harness import assert_same, run_reference_on_copies
from hip_text import assembly_of, needs_clang
from programs import random_program

import tilelang.language as T
from tilelang.jit.program import lowered
from tilelang.options import CompileOptions
from tilelang.sim.run import simulate
from tilelang.targets.amd.backend import BACKEND
from tilelang.targets.amd.runtime.device_code import build
from tilelang.targets.target import Target

pytestmark = needs_clang
HAS_DECODER = importlib.util.find_spec("tinygrad") is not None
EXECUTED = ("gfx942", "gfx1100") if os.environ.get("TILELANG_SLOW_TESTS") == "1" else ("gfx1100",)


@pytest.fixture(params=["gfx942", "gfx1100"])
def check(request):
    """Simulates a program in two orders of waves, compiles its text, and executes what that becomes."""
    target = Target("hip", request.param)

    def run(func, *arguments, rtol=0.0, atol=0.0, scratch=False, executes=True):
        program = lowered(func, target, CompileOptions())
        expected = run_reference_on_copies(func, arguments)
        for seed in range(2):
            actual = [np.array(a) for a in arguments]
            simulate(program, actual, target=target, seed=seed)
            for want, got in zip(expected, actual, strict=True):
                assert_same(want, got, rtol, atol)
        source = BACKEND.emit(program)
        text = assembly_of(source.text, target.arch)
        assert scratch or text.count(".private_segment_fixed_size: 0") == text.count(".private_segment_fixed_size:")
        if executes and HAS_DECODER and target.arch in EXECUTED:
            from amd_execution import execute

            actual = [np.array(a) for a in arguments]
            execute(build(source, target.arch, "clang"), actual)
            for want, got in zip(expected, actual, strict=True):
                assert_same(want, got, rtol, atol)
        return text

    return run


def floats(*shape, dtype="float32"):
    return np.random.default_rng(0).standard_normal(shape).astype(T.dtype(dtype).numpy)


def ints(*shape, dtype="float32"):
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(0).integers(0, 8, shape).astype(T.dtype(dtype).numpy)


DTYPES = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "int8", "uint16", "int64", "int4")


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_addition(check, dtype):
    @T.prim_func
    def main(A: T.Tensor((1000,), dtype), B: T.Tensor((1000,), dtype), C: T.Tensor((1000,), dtype)):
        with T.Kernel(2, threads=128) as bx:
            for i in T.Parallel(512):
                C[bx * 512 + i] = A[bx * 512 + i] + B[bx * 512 + i]

    check(main, *(ints(1000, dtype=dtype) for _ in range(3)))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("columns", [40, 512])
def test_softmax(check, columns):
    @T.prim_func
    def main(A: T.Tensor((16, columns), "float32"), B: T.Tensor((16, columns), "float16")):
        with T.Kernel(2, threads=128) as bx:
            rows = T.alloc_fragment((8, columns), "float32")
            top = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.copy(A[bx * 8, 0], rows)
            T.reduce_max(rows, top, dim=1)
            for i, j in T.Parallel(8, columns):
                rows[i, j] = T.exp(rows[i, j] - top[i])
            T.reduce_sum(rows, total, dim=1)
            for i, j in T.Parallel(8, columns):
                B[bx * 8 + i, j] = rows[i, j] / total[i]

    check(main, floats(16, columns), floats(16, columns, dtype="float16"), rtol=2e-3, atol=1e-6)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("reduce", [T.reduce_sum, T.reduce_max, T.reduce_absmax])
@pytest.mark.parametrize(("shape", "dim", "threads"), [((4, 1024), 1, 256), ((256, 32), 0, 512), ((3, 72), 1, 64)])
def test_reductions(check, reduce, shape, dim, threads):
    left = shape[1 - dim]

    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor((left,), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment(shape, "float32")
            result = T.alloc_fragment((left,), "float32")
            T.copy(A, tile)
            reduce(tile, result, dim=dim)
            T.copy(result, B)

    check(main, ints(*shape), ints(left))


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("shape", "dim", "reverse"), [((4, 300), 1, False), ((130, 4), 0, True), ((1, 1024), 1, False)])
def test_running_sums(check, shape, dim, reverse):
    @T.prim_func
    def main(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared(shape, "float32")
            T.copy(A, tile)
            T.cumsum(tile, dim=dim, reverse=reverse)
            T.copy(tile, B)

    check(main, ints(*shape), ints(*shape))


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "float64"])
def test_atomic_sums(check, dtype):
    @T.prim_func
    def main(A: T.Tensor((512,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((1,), dtype)):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((64,), dtype)
            T.clear(tile)
            for i in T.Parallel(128):
                T.atomic_add(tile[i % 64], A[bx * 128 + i])
            for i in T.Parallel(64):
                T.atomic_add(B[i], tile[i])
            for i in T.Parallel(128):
                T.atomic_max(C[0], A[bx * 128 + i])

    check(main, ints(512, dtype=dtype), ints(64, dtype=dtype), ints(1, dtype=dtype))


@pytest.mark.parametrize(("arch", "pairs"), [("gfx942", True), ("gfx1100", False), ("gfx1201", True)])
def test_neighboring_halves_are_added_in_pairs(arch, pairs):
    @T.prim_func
    def main(A: T.Tensor((512,), "float16"), B: T.Tensor((256,), "float16")):
        with T.Kernel(2, threads=128) as bx:
            t = T.get_thread_binding()
            for u in T.unroll(2):
                T.atomic_add(B[t * 2 + u], A[bx * 256 + t * 2 + u])

    target = Target("hip", arch)
    program = lowered(main, target, CompileOptions())
    a, b = ints(512, dtype="float16"), np.zeros(256, np.float16)
    simulate(program, [a, b], target=target)
    np.testing.assert_array_equal(b, a[:256] + a[256:])
    assert pairs == ("global_atomic_pk_add_f16" in assembly_of(BACKEND.emit(program).text, arch))


def test_the_place_of_the_largest(check):
    @T.prim_func
    def main(A: T.Tensor((32, 128), "float32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((32, 128), "float32")
            place = T.alloc_fragment((32,), "int32")
            T.copy(A, tile)
            T.argmax(tile, place, dim=1)
            T.copy(place, B)

    check(main, ints(32, 128), np.zeros(32, np.int32))


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "pow", "log1p", "sigmoid", "round", "exp2", "rsqrt", "atan2"])
def test_elementary_functions(check, name):
    of_two = name in ("pow", "atan2")

    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(256):
                function = getattr(T, name)
                B[i] = function(T.abs(A[i]) + 0.5, A[i]) if of_two else function(T.abs(A[i]) + 0.5)

    check(main, floats(256), floats(256), rtol=1e-5, atol=1e-6)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs(check, seed):
    program = random_program(500 + seed, launches=2, symbolic=seed % 2 == 0)
    check(program.func, *program.arguments, scratch=True, executes=seed % 2 == 1)


def test_blocks_of_a_grid_meet():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(4, threads=64) as bx:
            t = T.get_thread_binding()
            B[(bx + 1) % 4, t] = A[bx, t] * 2
            T.sync_grid()
            A[bx, t] = B[bx, t] + 1

    target = Target("hip", "gfx942")
    program = lowered(main, target, CompileOptions())
    a = ints(4, 64, dtype="int32")
    found = [a.copy(), np.zeros_like(a)]
    simulate(program, found, target=target)
    np.testing.assert_array_equal(np.roll(a, 1, 0) * 2 + 1, found[0])
    source = BACKEND.emit(program)
    assert source.launches[0].cooperative
    assert "s_sleep" in assembly_of(source.text, "gfx942")


def test_votes_are_of_all_lanes_of_a_wave():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "uint64")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[t] = T.ballot_sync(A[t] > 0)

    target, found = Target("hip", "gfx942"), np.zeros(64, np.uint64)
    program = lowered(main, target, CompileOptions())
    simulate(program, [np.arange(64, dtype=np.int32) - 31, found], target=target)
    assert {2**64 - 2**32} == set(map(int, found))
    text = assembly_of(BACKEND.emit(program).text, "gfx942")
    assert "v_cmp_gt_i32" in text or "v_cmp_lt_i32" in text


@pytest.mark.parametrize(("arch", "lanes"), [("gfx942", 64), ("gfx1100", 32)])
def test_shuffles_among_all_lanes_of_a_wave(arch, lanes):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            total = T.alloc_var("float32", init=A[t])
            for step in T.unroll(lanes.bit_length() - 1):
                total += T.shfl_xor(total, lanes // 2 >> step, width=lanes)
            B[t] = total

    target, a = Target("hip", arch), ints(128)
    program = lowered(main, target, CompileOptions())
    expected = np.repeat(a.reshape(-1, lanes).sum(1), lanes)
    simulated, executed = np.zeros_like(a), np.zeros_like(a)
    simulate(program, [a, simulated], target=target)
    np.testing.assert_array_equal(expected, simulated)
    if HAS_DECODER:
        from amd_execution import execute

        execute(build(BACKEND.emit(program), arch, "clang"), [a, executed])
        np.testing.assert_array_equal(expected, executed)
