"""Which loops are unrolled."""

import pytest
from loops import buffer, load, store
from simt import SM80, TO_ACCESSES, assert_threads_agree, ints

import tilelang.language as T
from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, int_const
from tilelang.ir.stmt import Bind, Break, For, ForKind, If, Seq
from tilelang.ir.visit import sub_statements
from tilelang.passes.runner import run_passes
from tilelang.targets.gpu.lowerings.unrolling import may_lie_in_registers, register_index_variables, unrolled_for

U, V, W, PLACE = (Var(name, INT32, index=True) for name in ("u", "v", "w", "place"))
REGISTERS = buffer("r", 256, scope=Scope.LOCAL)
SHARED = buffer("s", 256, scope=Scope.SHARED)


@pytest.mark.parametrize(
    ("count", "dtype", "expected"),
    [(256, "float32", True), (257, "float32", False), (1024, "int8", True), (130, "float64", False)],
)
def test_arrays_larger_than_the_register_file_are_in_local_memory(count, dtype, expected):
    assert expected is may_lie_in_registers(buffer("r", count, scope=Scope.LOCAL, dtype=as_dtype(dtype)))
    assert not may_lie_in_registers(buffer("s", count, scope=Scope.SHARED, dtype=as_dtype(dtype)))


def test_variables_that_index_registers():
    assert {U, V} == register_index_variables(store(REGISTERS, U * 8 + V, load(SHARED, W)))
    assert {U} == register_index_variables(If(load(REGISTERS, U) > 1.0, store(SHARED, V, 1.0)))
    assert {PLACE, V} == register_index_variables(Seq((Bind(PLACE, V + 1), Bind(W, U * 2), store(REGISTERS, PLACE, 1.0))))
    assert set() == register_index_variables(store(buffer("r", 300, scope=Scope.LOCAL), U, 1.0))


@pytest.mark.parametrize(
    ("extent", "others", "expected"),
    [
        (16, 1, None),
        (4, 4, None),
        (17, 1, 16),
        (64, 8, 2),
        (2, 9, 1),
        (2, 40, 1),
    ],
)
def test_other_loops_are_unrolled_by_a_small_factor(extent, others, expected):
    made = unrolled_for(U, extent, Break(), {V}, others=others)
    assert (ForKind.UNROLLED, expected) == (made.kind, made.unroll_factor)
    chosen = unrolled_for(U, extent, Break(), {U}, others=others)
    assert (ForKind.UNROLLED, None) == (chosen.kind, chosen.unroll_factor)


def written_out(stmt) -> int:
    """How often the innermost statements are written out where unrolled loops are."""
    times = 1
    if isinstance(stmt, For) and stmt.kind in (ForKind.UNROLLED, ForKind.VECTORIZED):
        times = stmt.unroll_factor or int_const(stmt.stop)
    return times * max(map(written_out, sub_statements(stmt)), default=1)


def test_long_reductions_are_not_fully_unrolled():
    @T.prim_func
    def f(A: T.Tensor((16, 16), T.int32), B: T.Tensor((13,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            most = T.alloc_fragment((13,), T.int32)
            a = T.alloc_shared((16, 16), T.int32)
            T.copy(A, a)
            T.fill(most, 2)
            for i, j, k in T.Parallel(13, 16, 16):
                if a[0, k] != 3:
                    most[i] = T.max(most[i], a[j, k] + i)
            for i in T.serial(13):
                B[i] = most[i]

    assert_threads_agree(f, ints(16, 16, dtype="int32"), ints(13, dtype="int32"))
    assert 13 * 16 >= written_out(run_passes(f, TO_ACCESSES, SM80).body)


def test_arrays_too_large_for_registers_are_not_unrolled():
    @T.prim_func
    def f(A: T.Tensor((64, 40), T.int32), B: T.Tensor((64, 40), T.int32)):
        with T.Kernel(1, threads=32) as _:
            a = T.alloc_local((64, 40), T.int32)
            T.copy(A, a)
            for i, j in T.Parallel(64, 40):
                a[i, j] += j
            T.cumsum(a, dim=0)
            a[0, 0] = a[A[1, 1] % 64, 2]  # which any thread may be asked for
            T.copy(a, B)

    assert_threads_agree(f, ints(64, 40, dtype="int32"), ints(64, 40, dtype="int32"))
    assert 16 * 8 >= written_out(run_passes(f, TO_ACCESSES, SM80).body)
