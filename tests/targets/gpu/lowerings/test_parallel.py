"""Parallel loops over threads: the statements that an iteration may contain."""

import numpy as np
import pytest
from gpu import assert_simulates
from simt import SM80, TO_THREADS, assert_threads_agree, ints

import tilelang
import tilelang.language as T
from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.dtypes import INT32
from tilelang.errors import NoLowering
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Alloc, For, ForKind, If, ParallelLoop
from tilelang.ir.visit import walk
from tilelang.layout.digits import Mode
from tilelang.layout.thread_values import fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.passes.runner import run_passes
from tilelang.targets.gpu.lowerings.parallel import DistributedLoop, values_of


def lowered(func):
    return run_passes(func, TO_THREADS, SM80)


@pytest.mark.parametrize("threads", [32, 96])
def test_fragments_are_in_registers(threads):
    @T.prim_func
    def f(A: T.Tensor((20, 48), T.float32), B: T.Tensor((20, 48), T.float32)):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_fragment((20, 48), T.float32)
            m = T.alloc_fragment((20,), T.float32)
            c = T.alloc_fragment((48,), T.float32)
            T.copy(A, a)
            T.clear(c)
            T.reduce_max(a, m, dim=1)
            for i, j in T.Parallel(20, 48):
                c[j] += a[i, j] - m[i]
            for i, j in T.Parallel(20, 48):
                a[i, j] = a[i, j] * m[i] + c[j]
            T.copy(a, B)

    assert_threads_agree(f, ints(20, 48), ints(20, 48))
    scopes = {s.buffer.name: s.buffer.scope for s in walk(lowered(f).body) if isinstance(s, Alloc)}
    assert (Scope.LOCAL, Scope.LOCAL) == (scopes["a"], scopes["m"])


def test_an_iteration_may_contain_loops_branches_and_scalars():
    @T.prim_func
    def f(A: T.Tensor((40, 6), T.int32), B: T.Tensor((40,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            a = T.alloc_fragment((40, 6), T.int32)
            T.copy(A, a)
            for i in T.Parallel(40):
                x = T.alloc_var(T.int32, init=0)
                t = T.alloc_local((6,), T.int32)
                for k in T.serial(6):
                    t[k] = a[i, 5 - k]
                for k in T.serial(6):
                    if t[k] == 7:
                        break
                    x += t[k]
                while x > 10:
                    x = x - 10
                if x >= 0:
                    B[i] = x

    assert_threads_agree(f, ints(40, 6, dtype=np.int32), ints(40, dtype=np.int32))


def test_loops_that_index_registers_are_unrolled():
    @T.prim_func
    def f(A: T.Tensor((32, 6), T.int32), B: T.Tensor((32,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            a = T.alloc_fragment((32, 6), T.int32)
            for i, k in T.Parallel(32, 6):
                a[i, k] = A[i, k]
            for i in T.Parallel(32):
                for k in T.serial(6):
                    B[i] += a[i, k]

    assert_threads_agree(f, ints(32, 6, dtype=np.int32), ints(32, dtype=np.int32))


def test_effects_happen_once_if_elements_are_replicated():
    @T.prim_func
    def f(A: T.Tensor((4,), T.int32), B: T.Tensor((4,), T.int32), H: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            a = T.alloc_fragment((4,), T.int32)
            for i in T.Parallel(4):
                a[i] = A[i] * 2
                H[i] += a[i]
                T.atomic_add(B[i], a[i])

    assert_threads_agree(f, ints(4, dtype=np.int32), ints(4, dtype=np.int32), ints(4, dtype=np.int32))


def test_what_a_single_iteration_leaves_is_there_for_all_threads():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), O: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=64) as _:
            values, tile = T.alloc_shared((64,), "int32"), T.alloc_fragment((64,), "int32")
            scalar, total = T.alloc_var("int32"), T.alloc_var("int32", init=5)
            array, of_tile = T.alloc_local((1,), "int32"), T.alloc_var("int32")
            T.copy(A, values)
            T.copy(A, tile)
            for i in T.Parallel(1):
                scalar = values[i + 2]
            for i, j in T.Parallel(1, 1):
                total += values[i + j + 3]
            for i in T.Parallel(1):
                array[0] = values[i + 4]
            for i in T.Parallel(1):
                of_tile = tile[i + 5]
            for i in T.Parallel(64):
                O[0, i], O[1, i], O[2, i], O[3, i] = scalar, total, array[0], of_tile

    assert_threads_agree(f, np.arange(64, dtype=np.int32), np.zeros((4, 64), np.int32))


def test_what_a_single_iteration_leaves_is_there_for_all_threads_of_a_group():
    @T.prim_func
    def f(A: T.Tensor((64,), "int32"), O: T.Tensor((2, 128), "int32")):
        with T.Kernel(1, threads=256) as _:
            values = T.alloc_shared((64,), "int32")
            T.copy(A, values)
            with T.ws(1):
                scalar, array = T.alloc_var("int32"), T.alloc_local((1,), "int32")
                for i in T.Parallel(1):
                    scalar = values[i + 2]
                for i in T.Parallel(1):
                    array[0] = values[i + 3]
                for i in T.Parallel(128):
                    O[0, i], O[1, i] = scalar, array[0]

    out = np.zeros((2, 128), np.int32)
    target = {"kind": "cuda", "arch": "sm_80"}
    tilelang.compile(f, target=target, execution_backend="simulator")(np.arange(64, dtype=np.int32), out)
    assert np.all(out[0] == 2) and np.all(out[1] == 3)


def test_previous_values_of_atomics_are_stored_by_the_same_thread():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            for i in T.Parallel(64):
                B[i] = T.atomic_add(A[i], 5, return_prev=True)

    assert_threads_agree(f, ints(64, dtype=np.int32), ints(64, dtype=np.int32))


def test_a_layout_of_the_user_is_used():
    layout = T.Fragment((16, 4), lambda i, j: (j // 2 * 16 + i, j % 2))

    @T.prim_func
    def f(A: T.Tensor((16, 4), T.int32)):
        with T.Kernel(1, threads=32) as _:
            for i, j in T.Parallel(16, 4, loop_layout=layout):
                A[i, j] = A[i, j] + i

    assert_threads_agree(f, ints(16, 4, dtype=np.int32))
    loops = [s for s in walk(lowered(f).body) if isinstance(s, For)]
    assert [(ForKind.VECTORIZED, 2)] == [(s.kind, int(s.stop.value)) for s in loops]
    assert 2 == values_of(layout.thread_values)


def test_scratch_of_iterations_must_be_allocated_outside():
    i, thread = (Var(name, INT32, index=True) for name in ("i", "thread"))
    barrier = Buffer("b", (as_expr(1),), INT32, Scope.BARRIER)
    loop = ParallelLoop((i,), (as_expr(32),), Alloc(barrier))
    context = LoweringContext(SM80.target, SM80.options, 32, thread)
    with pytest.raises(NoLowering, match="inside of a T.Parallel loop"):
        DistributedLoop(loop, fragment((32,), [Mode(32, (1,))], []), ParallelLegality(), context).iterations(Builder())


def test_a_loop_under_a_condition_of_single_threads_is_refused():
    @T.prim_func
    def f(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            if tx < 32:
                for i in T.Parallel(64):
                    A[i] = 1.0

    with pytest.raises(NoLowering, match="T.Parallel: needs all threads of the block"):
        lowered(f)


def test_updates_of_memory_are_stored_by_one_thread():
    @T.prim_func
    def f(A: T.Tensor((8, 32), T.int32), B: T.Tensor((8,), T.int32), C: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            for i, j in T.Parallel(8, 32):
                B[i] += A[i, j]
                C[0] = T.max(C[0], A[i, j])

    assert_threads_agree(f, ints(8, 32, dtype=np.int32), ints(8, dtype=np.int32), ints(1, dtype=np.int32))
    assert any(isinstance(s, If) for s in walk(lowered(f).body))


@pytest.mark.filterwarnings("ignore:T.Parallel. the iterations run serially:tilelang.errors.ProgramWarning")
@pytest.mark.parametrize("form", ["read", "condition", "update", "update of shared memory"])
def test_indirect_accesses(form):
    @T.prim_func
    def f(A: T.Tensor((16,), T.int32), B: T.Tensor((16,), T.int32), C: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=32) as bx:
            s = T.alloc_fragment((16,), T.int32)
            q = T.alloc_shared((4,), T.int32)
            T.copy(A, s)
            T.clear(q)
            for i in T.Parallel(16):
                B[i] = 1
                if form == "read":
                    B[i] = s[s[bx] % 16] + s[s[i] % 16]
                elif form == "condition":
                    if s[s[bx] % 16] < 5:
                        B[i] = i
                elif form == "update":
                    s[s[bx] % 4] += i
                else:
                    q[s[bx] % 4] += i
            B[s[s[1] % 16] % 16] += 5
            T.copy(s[s[2] % 4 : s[2] % 4 + 4], C)
            for i in T.Parallel(4):
                C[i] += q[i]

    assert_threads_agree(f, np.arange(16, dtype=np.int32) * 3, np.zeros(16, np.int32), np.zeros(4, np.int32))


@pytest.mark.parametrize("alloc", [T.alloc_shared, T.alloc_fragment])
def test_updates_whose_places_are_found_to_differ_are_distributed(alloc):
    @T.prim_func
    def main(X: T.Tensor((2, 64), "int32"), Y: T.Tensor((2, 128), "int32")):
        with T.Kernel(2, threads=32) as bx:
            s = alloc((128,), "int32")
            T.fill(s, 3)
            for i in T.Parallel(64):  # a warning, and so an error here, if iterations ran one by one
                s[i * 3 % 64 + bx * 64] *= X[bx, i]
            for i in T.Parallel(64):
                s[i ^ 5] = T.max(s[i ^ 5], X[bx, i])
            T.copy(s, Y[bx, :])

    assert_simulates(main, ints(2, 64, dtype=np.int32), np.zeros((2, 128), np.int32))


def test_rows_beyond_a_tile_that_nobody_loads_are_not_read_either():
    # the operand has 64 rows in registers, 32 of which belong to no row of the tile
    @T.prim_func
    def main(A: T.Tensor((20, 192), "float16"), B: T.Tensor((192, 40), "float16"), C: T.Tensor((32, 40), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((32, 64), "float32")
            e = T.alloc_fragment((32, 64), "float16")
            b = T.alloc_shared((64, 40), "float16")
            out = T.alloc_fragment((32, 40), "float32")
            T.clear(out)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(B[k * 64, 0], b)
                for i, j in T.Parallel(32, 64):
                    x[i, j] = T.if_then_else(i < 20, A[i, k * 64 + j], 0)
                for i, j in T.Parallel(32, 64):
                    e[i, j] = x[i, j] * 2
                T.gemm(e, b, out)
            T.copy(out, C)

    arrays = [ints(20, 192, dtype=np.float16), ints(192, 40, dtype=np.float16), np.zeros((32, 40), np.float32)]
    assert_simulates(main, *arrays, arch="sm_90a")
