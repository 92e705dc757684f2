"""Accesses out of range: loads give the safe value, stores are dropped, and the bulk of a loop runs without tests."""

import numpy as np
import pytest
from harness import run_everywhere
from programs import index_var

import tilelang.language as T
from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Load, Select, as_expr
from tilelang.ir.func import Level, PrimFunc, TensorParam
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import any_expr, walk
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.thread import predicate_bounds
from tilelang.targets.cpu.backend import BACKEND
from tilelang.targets.nvidia.isa.cp_async import cp_async

FLAGS = "-O1"


def lowered(func):
    return run_passes(func, BACKEND.passes)


def has_tests(func):
    body = lowered(func).body
    return any(isinstance(s, If) for s in walk(body)) or any_expr(body, lambda e: isinstance(e, Select))


def loops(func):
    return [s.var.name for s in walk(lowered(func).body) if isinstance(s, For)]


def add(size, block):
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, block)) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1.0

    return main


def test_no_test_is_left_where_tiles_divide():
    assert not has_tests(add(64, 16))
    assert ["i"] == loops(add(64, 16))


def test_where_tiles_do_not_divide_the_loop_ends_early_and_has_no_tests():
    assert not has_tests(add(70, 16))
    assert ["i"] == loops(add(70, 16))
    run_everywhere(add(70, 16), np.ones(70, np.float32), np.zeros(70, np.float32), compile_flags=FLAGS)


def test_a_tile_that_hangs_over_is_filled_with_zero_in_loops_of_its_own():
    @T.prim_func
    def main(A: T.Tensor((20, 30), "int32"), B: T.Tensor((2, 2, 16, 16), "int32")):
        with T.Kernel(2, 2) as (bx, by):
            s = T.alloc_shared((16, 16), "int32")
            T.copy(A[by * 16, bx * 16], s)
            T.copy(s, B[by, bx, :, :])

    assert not has_tests(main)
    a = np.arange(600, dtype=np.int32).reshape(20, 30) + 1
    run_everywhere(main, a, np.full((2, 2, 16, 16), -1, np.int32), compile_flags=FLAGS)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 50])
def test_negative_and_symbolic_indices(size):
    @T.prim_func
    def main(
        A: T.Tensor((T.dyn["n"],), "int32"),
        B: T.Tensor((T.dyn["n"],), "int32"),
        C: T.Tensor((3, 16), "int32"),
        D: T.Tensor((T.dyn["n"],), "int32"),
    ):
        with T.Kernel(3) as bx:
            for i in T.Parallel(16):
                C[bx, i] = A[bx * 16 + i - 5] + B[20 - i * 3] * 100
                D[i * 2 + bx * 32] = i

    a = np.arange(1, size + 1, dtype=np.int32)
    run_everywhere(main, a, -a, np.zeros((3, 16), np.int32), a * 0, compile_flags=FLAGS)


@pytest.mark.parametrize("size", [0, 1, 15, 33])
def test_loops_of_32_bits_end_at_sizes_of_64(size):
    n, m = T.dynamic("n"), T.dynamic("m", "int64")

    @T.prim_func
    def main(A: T.Tensor((m,), "int32"), B: T.Tensor((3, n), "int32"), C: T.Tensor((3, 16), "int32")):
        with T.Kernel(3) as bx:
            for i in T.Parallel(16):
                C[bx, i] = A[bx * 16 + i] + A[20 - i * 3] * 100
            for i in T.Parallel(n):
                if T.cast(i + bx, "int64") < T.int64(9223372036854775806):
                    B[bx, i] = A[i * 3 - n] + A[i + 1] * 100

    a = np.arange(1, size + 1, dtype=np.int32)
    run_everywhere(main, a, np.zeros((3, 21), np.int32), np.zeros((3, 16), np.int32), compile_flags=FLAGS)


@pytest.mark.parametrize("wide", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_the_end_of_a_loop_may_be_data(dtype, wide):
    n = T.dynamic("n", wide)

    @T.prim_func
    def main(N: T.Tensor((2,), dtype), A: T.Tensor((n,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1):
            for i in T.serial(N[0], N[1]):
                B[i] = A[i + 3] + A[i - 5] * 100

    for size in (0, 1, 20, 50):  # A[i + 3] is in bounds for i < size - 3, which may be negative
        a, ends = np.arange(1, size + 1, dtype=np.int32), np.array([2, 37], dtype)
        run_everywhere(main, ends, a, np.zeros(64, np.int32), compile_flags=FLAGS)


def test_different_bounds_in_one_loop():
    @T.prim_func
    def main(A: T.Tensor((10,), "int32"), B: T.Tensor((13,), "int32"), C: T.Tensor((20,), "int32")):
        with T.Kernel(2) as bx:
            for i in T.Parallel(16):
                C[bx * 16 + i] = A[bx * 16 + i] * 100 + B[bx * 16 + i - 2]

    a, b = np.arange(1, 11, dtype=np.int32), np.arange(1, 14, dtype=np.int32)
    run_everywhere(main, a, b, np.zeros(20, np.int32), compile_flags=FLAGS)


def test_safe_values_are_honored_by_copies_loops_and_scalars():
    @T.prim_func
    def main(A: T.Tensor((5, 6), "float32"), B: T.Tensor((8, 8), "float32"), C: T.Tensor((10,), "float32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: -1.5})
            s = T.alloc_shared((8, 8), "float32")
            T.copy(A[0:8, 0:8], s)
            T.copy(s, B)
            for i in T.Parallel(10):
                C[i] = A[0, i - 2]
            for k in T.serial(9, 10):
                C[k] = A[k, k]

    run_everywhere(
        main, np.ones((5, 6), np.float32), np.zeros((8, 8), np.float32), np.zeros(10, np.float32), compile_flags=FLAGS
    )


def test_the_users_own_condition_makes_tests_needless():
    @T.prim_func
    def main(A: T.Tensor((T.dyn["n"],), "float32"), n: T.int32):
        with T.Kernel(T.ceildiv(A.shape[0], 16)) as bx:
            for i in T.Parallel(16):
                if bx * 16 + i < A.shape[0]:
                    A[bx * 16 + i] = A[bx * 16 + i] * 2.0

    assert not has_tests(main)
    run_everywhere(main, np.arange(37, dtype=np.float32), 1, compile_flags=FLAGS)


def test_a_load_under_a_condition_of_the_same_expression_needs_no_test():
    @T.prim_func
    def main(A: T.Tensor((13,), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            k = T.alloc_var("int32", init=0)
            while k < 16:
                B[k] = T.if_then_else(T.all_of(k >= 0, k < 13), A[k], -1.0)
                k += 1

    run_everywhere(main, np.arange(13, dtype=np.float32), np.zeros(16, np.float32), compile_flags=FLAGS)


def test_rows_out_of_range_are_decided_once_per_block():
    @T.prim_func
    def main(A: T.Tensor((5, 8), "int32"), B: T.Tensor((8, 8), "int32")):
        with T.Kernel(8) as bx:
            for i in T.Parallel(8):
                B[bx, i] = A[bx - 1, i] + 1

    run_everywhere(main, np.ones((5, 8), np.int32), np.zeros((8, 8), np.int32), compile_flags=FLAGS)


def test_indices_from_memory_are_guarded_where_they_are_used():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32"), I: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(10):
                B[I[i]] = A[I[i] - 1] + A[I[i]]

    index = np.array([0, 7, 3, -1, 8, 2**31 - 1, -(2**31), 5], np.int32)
    run_everywhere(main, np.arange(1, 7, dtype=np.int32), index, np.zeros(8, np.int32), compile_flags=FLAGS)


def test_a_dropped_load_still_wraps_as_data():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.annotate_safe_value({A: 9})
            for i in T.Parallel(4):
                B[i] = (A[i + 4] + 2147483647) // 2

    assert [-1073741820] * 4 == run_everywhere(
        main, np.zeros(4, np.int32), np.zeros(4, np.int32), compile_flags=FLAGS
    )[1].tolist()


def test_a_condition_that_a_loop_can_decide_only_in_part_ends_the_splitting():
    @T.prim_func
    def main(A: T.Tensor((3, 8, 4), "int32")):
        with T.Kernel(3) as bx:
            for i, j in T.Parallel(8, 4):
                value = T.int32(1)
                if (1 < i + 15) and (bx == 0):
                    value = 2
                A[bx, i, j] = value

    (a,) = run_everywhere(main, np.zeros((3, 8, 4), np.int32), compile_flags=FLAGS)
    assert [2, 1, 1] == a[:, 7, 3].tolist()


def test_data_in_indices_does_not_wrap_in_the_tests():
    @T.prim_func
    def main(A: T.Tensor((6,), "int32"), I: T.Tensor((4,), "uint8"), B: T.Tensor((4, 3), "int32")):
        with T.Kernel(4) as bx:
            s = T.alloc_shared((3,), "int32")
            T.copy(A[I[bx] - 2], s)
            T.copy(s, B[bx, 0])
        with T.Kernel(4) as bx:
            A[I[bx] - 3] = 100

    a, _, b = run_everywhere(
        main, np.arange(1, 7, dtype=np.int32), np.array([0, 1, 4, 7], np.uint8), np.zeros((4, 3), np.int32),
        compile_flags=FLAGS,
    )  # fmt: skip
    assert [[0, 0, 1], [0, 1, 2], [3, 4, 5], [6, 0, 0]] == b.tolist()
    assert [1, 100, 3, 4, 100, 6] == a.tolist()


@pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")
def test_a_loop_is_not_versioned_again_by_a_test_that_more_facts_hide():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(A: T.Tensor((M, N), "int32"), B: T.Tensor((102,), "int32")):
        with T.Kernel(4) as bx:
            T.copy(A[bx % 3, 0:17], B[bx * 34 : bx * 34 + 17])

    a = np.arange(40, dtype=np.int32).reshape(2, 20)
    _, b = run_everywhere(main, a, np.full(102, 7, np.int32), compile_flags=FLAGS)
    assert [*range(17), *[7] * 17, *range(20, 37), *[7] * 17, *[0] * 17, *[7] * 17] == b.tolist()


# -- on a GPU --------------------------------------------------------------------------------------------------
THREAD, BX = (index_var(name) for name in ("thread", "bx"))
AT_ACCESSES = predicate_bounds.predicate_bounds(splitting=False)


def of_threads(*body):
    params = tuple(TensorParam(b) for b in (TALL, WIDE))
    launch = Launch((BX,), (as_expr(2),), (32, 1, 1), Seq(body), thread=THREAD)
    return AT_ACCESSES.run(PrimFunc("f", params, launch, Level.THREAD), PassContext()).body.body.body


TALL, WIDE = (Buffer(n, (as_expr(e), as_expr(64)), FLOAT32, Scope.GLOBAL) for n, e in (("A", 40), ("B", 64)))
S = Buffer("S", (as_expr(64), as_expr(64)), FLOAT32, Scope.SHARED)
VECTOR = as_dtype("float32x4")


def test_a_vector_is_tested_as_a_whole_and_is_zero_outside():
    place = (BX * 32 + THREAD, as_expr(8))
    (moved,) = of_threads(Store(WIDE, place, Load(TALL, place, VECTOR)))
    assert isinstance(moved.value, Select)
    assert (VECTOR, 0) == (moved.value.b.dtype, moved.value.b.value)
    assert "bx * 32 + thread < 40" == str(moved.value.condition)
    (dropped,) = of_threads(Store(TALL, place, Load(WIDE, place, VECTOR)))
    assert isinstance(dropped, If)


def test_the_last_element_of_a_vector_counts():
    (moved,) = of_threads(Store(S, (THREAD, as_expr(0)), Load(WIDE, (THREAD, THREAD * 2), VECTOR)))
    (kept,) = of_threads(Store(S, (THREAD, as_expr(0)), Load(WIDE, (THREAD, THREAD), VECTOR)))
    assert isinstance(moved.value, Select)
    assert not isinstance(kept.value, Select)


def test_what_the_thread_index_says_is_known():
    (kept,) = of_threads(Store(TALL, (THREAD, as_expr(0)), as_expr(1.0)))
    assert isinstance(kept, Store)


def test_loops_stay_in_one_piece_and_tests_at_the_access():
    i = index_var("i")
    body = Store(S, (THREAD, i), Load(TALL, (BX * 32 + i, THREAD), FLOAT32))
    loop = of_threads(For(i, as_expr(0), as_expr(32), 1, ForKind.UNROLLED, body))[0]
    assert isinstance(loop.body.value, Select)


def test_tests_join_what_an_instruction_asks_by_itself():
    src = Region(TALL, (BX * 32 + THREAD, as_expr(0)), (as_expr(1), as_expr(4)))
    dst = Region(S, (THREAD, as_expr(0)), (as_expr(1), as_expr(4)))
    test = "bx * 32 + thread < 40"
    for asked, expected in ((as_expr(True), test), (THREAD > 4, f"thread > 4 and {test}"), (THREAD < 4, "thread < 4")):
        (call,) = of_threads(CallStmt(cp_async(16), (dst, src, asked), (src,), (dst,)))
        assert expected == str(call.args[2])
    far = Region(TALL, (THREAD + 40, as_expr(0)), src.extent)
    (call,) = of_threads(CallStmt(cp_async(16), (dst, far, as_expr(True)), (far,), (dst,)))
    assert False is call.args[2].value
