import numpy as np
import pytest
from distributed_tiles import assert_same, demoted, fragments, ints, launches
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramWarning
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, For, ForKind
from tilelang.ir.visit import walk
from tilelang.layout.thread_values import Fragment
from tilelang.ops.gemm import Gemm
from tilelang.targets.nvidia.lowerings.gemm_mma import GemmMma


def scopes(func: PrimFunc) -> dict[str, Scope]:
    """Where the tiles of a function live after the pass."""
    return {s.buffer.name: s.buffer.scope for s in walk(demoted(func).body) if isinstance(s, Alloc)}


def reasons(func: PrimFunc) -> list[str]:
    return [note.text for launch in launches(demoted(func)) for note in launch.plan.notes]


def test_what_is_used_by_loops_stays_spread():
    @T.prim_func
    def f(A: T.Tensor((64, 8), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64, 8), T.float32)
            high = T.alloc_fragment((1,), T.float32)
            T.copy(A, x)
            high[0] = 0
            for i, j in T.Parallel(64, 8):
                high[0] = T.max(high[0], x[i, j])
            A[0, 0] = high[0]

    assert {"x": Scope.FRAGMENT, "high": Scope.FRAGMENT} == scopes(f)
    assert [] == reasons(f)


def test_arrays_of_threads_that_loops_subscript_are_spread():
    @T.prim_func
    def f(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            spread = T.alloc_local((64,), T.float32)
            mine = T.alloc_local((4,), T.float32)
            T.copy(A, spread)
            for k in T.serial(4):
                mine[k] = k
            for i in T.Parallel(64):
                B[i] = spread[i] + mine[i % 4] + mine[3]

    assert {"spread": Scope.FRAGMENT, "mine": Scope.FRAGMENT} == scopes(f)
    found = fragments(assert_same(f, ints(64), ints(64)))
    assert (1, 64) == (found["spread"].replication, found["mine"].replication)


def test_what_an_iteration_allocates_is_its_own():
    @T.prim_func
    def f(A: T.Tensor((64, 4), T.float32), B: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(64):
                own = T.alloc_fragment((4,), T.float32)
                for k in T.serial(4):
                    own[k] = A[i, k]
                B[i] = own[0] * own[3]

    assert {"own": Scope.LOCAL} == scopes(f)
    assert_same(f, ints(64, 4), ints(64))


def kernel_of(body):
    """A kernel around a use of fragment `x` of shape (64,) and of global tensors."""

    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32), n: T.int32):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_fragment((64,), T.int32)
            T.copy(A, x)
            body(A, B, x, n)

    return f


@T.macro
def data_dependent(A, B, x, n):
    for i in T.Parallel(64):
        B[i] = x[A[i] % 64]


@T.macro
def reversed_subscript(A, B, x, n):
    for i in T.Parallel(64):
        B[i] = x[63 - i]


@T.macro
def shifted(A, B, x, n):
    for i in T.Parallel(63):
        B[i] = x[i + 1] - x[i]


@T.macro
def serial(A, B, x, n):
    for i in T.serial(64):
        B[i] = x[i]


@T.macro
def symbolic(A, B, x, n):
    for i in T.Parallel(n):
        B[i] = x[i]


@T.macro
def divided(A, B, x, n):
    y = T.view(x, dtype="int8")
    for i in T.Parallel(64):
        B[i] = y[4 * i]


@T.macro
def atomic(A, B, x, n):
    for i in T.Parallel(64):
        T.atomic_add(x[i // 2], A[i])
    T.copy(x, B)


@T.macro
def shared_store(A, B, x, n):
    for i in T.Parallel(64):
        if i == 5:
            x[0] = 7
    T.copy(x, B)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (data_dependent, "a subscript of it does not consist of digits of the loop's variables"),
        (reversed_subscript, "a subscript of it does not consist of digits of the loop's variables"),
        (shifted, "a subscript of it does not consist of digits of the loop's variables"),
        (serial, "scalar code accesses its elements"),
        (symbolic, "a parallel loop that uses it has extents that are not constant"),
        (divided, "no layout fits its view 'y'"),
        (atomic, "it is updated atomically"),
        (shared_store, "several iterations store one element of it"),
    ],
)
def test_what_cannot_be_spread_goes_to_shared_memory(body, reason):
    func = kernel_of(body)
    assert [f"'x' is kept in shared memory: {reason}"] == reasons(func)
    assert {Scope.SHARED} == set(scopes(func).values())


@pytest.mark.parametrize("body", [data_dependent, reversed_subscript, shifted, serial, divided, shared_store])
def test_the_meaning_stays(body):
    a, b = ints(64, dtype=np.int32), ints(64, dtype=np.int32, seed=1)
    assert_same(kernel_of(body), a, b, np.int32(64))


def test_atomic_updates_in_scalar_code_need_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_local((8,), T.int32)
            T.copy(A, x)
            T.atomic_add(x[3], 2)
            T.copy(x, A)

    assert ["'x' is kept in shared memory: it is updated atomically"] == reasons(f)
    assert_same(f, ints(8, dtype=np.int32))


def test_atomic_updates_of_an_array_by_iterations_need_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((8,), T.int32), B: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_local((1,), T.int32)
            x[0] = 1
            for i in T.Parallel(8):
                T.atomic_add(x[0], A[i])
            T.copy(x, B)

    assert ["'x' is kept in shared memory: it is updated atomically"] == reasons(f)
    assert_same(f, ints(8, dtype=np.int32), ints(1, dtype=np.int32))


def test_tiles_that_are_added_atomically_to_others_stay_in_registers():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(2, threads=32) as _:
            x = T.alloc_fragment((64,), T.int32)
            T.copy(A, x)
            T.atomic_add(B, x)

    assert [] == reasons(f)
    assert_same(f, ints(64, dtype=np.int32), ints(64, dtype=np.int32, seed=1))


def test_sums_of_a_product_stay_in_registers():
    @T.prim_func
    def f(A: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128) as _:
            a = T.alloc_shared((64, 64), T.float16)
            c = T.alloc_fragment((64, 64), T.float32)
            T.annotate_layout({c: T.Fragment((64, 64), lambda i, j: (i * 2 + j // 32, j % 32))})
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c, wg_wait=-1)
            for i, j in T.Parallel(64, 64):
                C[i, j] = c[63 - i, j]

    result = demoted(f, {Gemm: (GemmMma(),)})
    (product,) = [s for s in walk(result.body) if isinstance(s, Gemm)]
    assert ("c_sums", Scope.FRAGMENT) == (product.c.buffer.name, product.c.buffer.scope)
    assert 0 == product.wait  # the sums leave for shared memory at once
    (launch,) = launches(result)
    assert not any(isinstance(layout, Fragment) for _, layout in launch.hints.layouts)


FORMS = {
    "rows": (lambda n, w: (n, w), lambda k, j, n, w: (k, j)),
    "columns": (lambda n, w: (w, n), lambda k, j, n, w: (j, k)),
    "runs": (lambda n, w: (n * w,), lambda k, j, n, w: (k * w + j,)),
    "strides": (lambda n, w: (n * w,), lambda k, j, n, w: (j * n + k,)),
}


@settings(max_examples=12)
@given(
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from([2, 3, 4, 8]),
    st.sampled_from([4, 16, 32, 40, 64]),
    st.integers(0, 1),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_short_loops_around_choose_registers(read, write, n, w, start, step, backwards):
    """Two tiles, subscripted by a loop around in any of the forms, against the reference."""
    shape, at = FORMS[read]
    other_shape, other_at = FORMS[write]
    first, stop, by = (n - 1, start - 1, -step) if backwards else (start, n, step)

    @T.prim_func
    def f(A: T.Tensor(shape(n, w), T.float32), B: T.Tensor((w,), T.float32), C: T.Tensor(other_shape(n, w), T.float32)):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_fragment(shape(n, w), T.float32)
            y = T.alloc_fragment(other_shape(n, w), T.float32)
            sums = T.alloc_fragment((w,), T.float32)
            T.copy(A, x)
            T.copy(C, y)
            T.clear(sums)
            for k in T.serial(first, stop, by):
                for j in T.Parallel(w):
                    sums[j] += x[at(k, j, n, w)]
                    y[other_at(k, j, n, w)] = x[at(k, j, n, w)] * k
            T.copy(sums, B)
            T.copy(y, C)

    kept = {"x": Scope.FRAGMENT, "y": Scope.FRAGMENT, "sums": Scope.FRAGMENT}
    assert kept == {name: scope for name, scope in scopes(f).items() if name in kept}
    assert_same(f, ints(*shape(n, w)), ints(w), ints(*other_shape(n, w), seed=1))


def test_loops_around_are_unrolled_only_for_what_stays_in_registers():
    @T.prim_func
    def f(A: T.Tensor((4, 64), T.float32), I: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((4, 64), T.float32)
            y = T.alloc_fragment((4, 64), T.float32)
            T.copy(A, x)
            for k in T.serial(4):
                for j in T.Parallel(64):
                    y[k, j] = x[k, j]
            for k in T.serial(4):
                for j in T.Parallel(64):
                    A[k, j] = y[k, I[j]]

    assert (Scope.FRAGMENT, Scope.SHARED) == (scopes(f)["x"], scopes(f)["y"])
    kinds = [s.kind for s in walk(demoted(f).body) if isinstance(s, For)]
    assert [ForKind.UNROLLED, ForKind.SERIAL] == kinds


def test_nothing_to_do_leaves_the_function_alone():
    @T.prim_func
    def f(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_fragment((64,), T.float32)
            T.copy(A, x)

    first = demoted(f)
    assert launches(first)[0].plan.notes == ()


def test_rows_that_end_within_others_are_no_digits():
    @T.prim_func
    def f(A: T.Tensor((6, 4), T.int32), B: T.Tensor((4, 6), T.int32)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((6, 4), T.int32)
            y = T.reshape(x, (4, 6))
            T.copy(A, x)
            T.copy(y, B)

    assert ["'x' is kept in shared memory: no layout fits its view 'y'"] == reasons(f)
    assert_same(f, ints(6, 4, dtype=np.int32), ints(4, 6, dtype=np.int32))


def test_names_for_whole_elements_stay_spread():
    @T.prim_func
    def f(A: T.Tensor((64,), T.float32), B: T.Tensor((8, 8), T.uint32)):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((64,), T.float32)
            y = T.reshape(x, (8, 8))
            z = T.view(y, dtype="uint32")
            T.copy(A, x)
            for i, j in T.Parallel(8, 8):
                B[i, j] = z[i, j]

    assert {Scope.FRAGMENT} == set(scopes(f).values())
    assert_same(f, ints(64), ints(8, 8, dtype=np.uint32))


def test_a_name_that_nothing_uses_need_not_suit_a_layout():
    @T.prim_func
    def main(A: T.Tensor((13, 32), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((13, 32), "float32")
            T.fill(x, 1)
            T.reshape(x, (32, 13))
            T.copy(x, A)

    assert_same(main, np.zeros((13, 32), np.float32))


def test_a_name_of_an_array_of_threads_that_nothing_uses_need_not_suit_a_layout():
    @T.prim_func
    def main(A: T.Tensor((13, 32), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_local((13, 32), "float32")
            T.fill(x, 1)
            T.reshape(x, (32, 13))
            T.copy(x, A)

    assert_same(main, np.zeros((13, 32), np.float32))


def test_gemms_in_flight_do_not_write_shared_memory():
    @T.prim_func
    def f(A: T.Tensor((64, 256), T.float16), B: T.Tensor((256, 64), T.float16), C: T.Tensor((64, 64), T.float16)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
            scores, sums = T.alloc_fragment((64, 64), T.float32), T.alloc_fragment((64, 64), T.float32)
            last, p = T.alloc_fragment((64,), T.float32), T.alloc_fragment((64, 64), T.float16)
            T.clear(sums)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    last[i] = scores[i, j]
                for i, j in T.Parallel(64, 64):
                    p[i, j] = T.min(scores[i, j], last[i])
                T.copy(B[k * 64, 0], b)
                T.gemm(p, b, sums)
            T.copy(sums, C)

    hopper = {"kind": "cuda", "arch": "sm_90a"}
    with pytest.warns(ProgramWarning, match="iterations write different values to one element of 'last'"):
        kernel = tilelang.compile(f, out_idx=[2], target=hopper, execution_backend="simulator")
        assert "'scores' is kept in shared memory" in kernel.explain()
    a, b = (array.astype(np.float16) for array in (ints(64, 256) % 3, ints(256, 64) % 3))
    parts = [a[:, k : k + 64].astype(np.float32) for k in range(0, 256, 64)]
    scores = [part @ part.T for part in parts]
    p = np.concatenate([np.minimum(each, each[:, 63:]) for each in scores], axis=1)
    np.testing.assert_array_equal((p @ b.astype(np.float32)).astype(np.float16), kernel(a, b))
