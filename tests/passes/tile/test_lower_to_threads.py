"""The program of a thread, run by all threads in step, does what the program of the block means."""

import dataclasses

import numpy as np
import pytest
from simt import SM80, TO_THREADS, assert_threads_agree, ints

import tilelang.language as T
from tilelang.analysis.uniformity import Uniformity
from tilelang.ir.stmt import Atomic, CallStmt, For, If, Launch, While
from tilelang.ir.verify import verify
from tilelang.ir.visit import Rewriter, walk
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile.lower_to_threads import lower_to_threads
from tilelang.targets.nvidia.isa.tensor_box import map_fault
from tilelang.targets.nvidia.isa.tma import TMA_PREFETCH_MAP
from tilelang.targets.target import Target


@pytest.mark.parametrize("threads", [1, 32, 96, 128, 256])
@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (16, 64), (64, 1)])
def test_elementwise_loops(shape, threads):
    @T.prim_func
    def f(A: T.Tensor(shape, T.float32), B: T.Tensor(shape, T.float32)):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared(shape, T.float32)
            T.copy(A, s)
            for i, j in T.Parallel(*shape):
                s[i, j] = s[i, j] * 2 + i - j
            T.copy(s, B)

    assert_threads_agree(f, ints(*shape), ints(*shape))


def test_blocks_of_the_sequential_program_store_once():
    @T.prim_func
    def f(A: T.Tensor((8,), T.int32), B: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            s = T.alloc_shared((8,), T.int32)
            x = T.alloc_var(T.int32, init=0)
            for i in T.serial(8):
                s[i] = A[i]
            for i in T.serial(8):
                s[i] += 3
                x += s[i]
                if s[i] > 2:
                    B[i] = x
                else:
                    B[i] = -x

    assert_threads_agree(f, ints(8, dtype=np.int32), ints(8, dtype=np.int32))


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("threads", [32, 96, 128])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (16, 64), (3, 300)])
def test_reductions_of_shared_tiles(shape, threads):
    folds = (T.reduce_sum, T.reduce_max, T.reduce_absmax, T.reduce_min)
    rows, columns = ((len(folds), extent) for extent in shape)

    @T.prim_func
    def f(A: T.Tensor(shape, T.float16), R: T.Tensor(rows, T.float16), C: T.Tensor(columns, T.float16)):
        with T.Kernel(1, threads=threads) as _:
            s = T.alloc_shared(shape, T.float16)
            r = T.alloc_shared(shape[:1], T.float16)
            c = T.alloc_shared(shape[1:], T.float16)
            T.copy(A, s)
            for number, reduce in enumerate(folds):
                T.copy(R[number, :], r)
                reduce(s, r, dim=1, clear=False)
                reduce(s, c, dim=0)
                T.copy(r, R[number, :])
                T.copy(c, C[number, :])

    assert_threads_agree(f, *(ints(*extents, dtype=np.float16) for extents in (shape, rows, columns)))


@pytest.mark.parametrize("threads", [1, 32, 48, 96, 256])
@pytest.mark.parametrize("n", [1, 7, 64, 1000])
def test_scalars_that_a_loop_updates(n, threads):
    @T.prim_func
    def f(A: T.Tensor((n,), T.float32), B: T.Tensor((4,), T.float32)):
        with T.Kernel(1, threads=threads) as _:
            total = T.alloc_var(T.float32, init=3)
            high = T.alloc_var(T.float32, init=-T.infinity(T.float32))
            last = T.alloc_var(T.float32, init=0)
            for i in T.Parallel(n):
                total += A[i]
                if A[i] < 5:
                    high = T.max(high, A[i])
                last = A[i] * 2
                B[3] = A[i] + 1
            B[0] = total
            B[1] = high
            B[2] = last

    assert_threads_agree(f, ints(n), ints(4))


def test_updates_without_a_pattern_are_atomic():
    @T.prim_func
    def f(A: T.Tensor((200,), T.int32), H: T.Tensor((8,), T.int32), M: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            h = T.alloc_shared((8,), T.int32)
            T.fill(h, 0)
            for i in T.Parallel(200):
                h[A[i]] += i
                M[i // 25] = T.max(M[i // 25], i)
            T.copy(h, H)

    assert_threads_agree(f, ints(200, dtype=np.int32, low=0), ints(8, dtype=np.int32), ints(8, dtype=np.int32))


@pytest.mark.filterwarnings("ignore:T.Parallel. the iterations run serially:tilelang.errors.ProgramWarning")
def test_updates_that_cannot_be_shared_out_run_in_order():
    @T.prim_func
    def f(A: T.Tensor((50,), T.int32), B: T.Tensor((2,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            best = T.alloc_shared((1,), T.int32)
            kept = T.alloc_var(T.int32, init=0)
            best[0] = -100
            for i in T.Parallel(50):
                best[0] = T.if_then_else(A[i] > best[0], A[i], best[0])
                if A[i] > 3:
                    kept = i
            B[0] = best[0]
            B[1] = kept

    assert_threads_agree(f, ints(50, dtype=np.int32), ints(2, dtype=np.int32))


def test_loops_of_unknown_extents():
    n, m = T.dynamic("n"), T.dynamic("m")

    @T.prim_func
    def f(A: T.Tensor((m, n), T.float32), B: T.Tensor((m, n), T.float32), C: T.Tensor((m,), T.float32),
          D: T.Tensor((2,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_var(T.float32, init=1)
            last = T.alloc_var(T.float32, init=5)
            for i, j in T.Parallel(m, n):
                B[i, j] = A[i, j] + i - 2 * j
                x += A[i, j]
                last = A[i, j]
            for i, j in T.Parallel(m, n):
                C[i] += A[i, j]
            D[0] = x
            D[1] = last

    for shape in ((3, 50), (1, 1), (70, 2), (0, 4)):
        assert_threads_agree(f, ints(*shape), ints(*shape), ints(shape[0]), ints(2))


def test_previous_values_reach_every_thread():
    @T.prim_func
    def f(C: T.Tensor((2,), T.int32), B: T.Tensor((40,), T.int32)):
        with T.Kernel(4, threads=32) as bx:
            ticket = T.atomic_add(C[0], 1, return_prev=True)
            for i in T.Parallel(10):
                B[ticket * 10 + i] = ticket + i

    assert_threads_agree(f, ints(2, dtype=np.int32) * 0, ints(40, dtype=np.int32))


def test_a_region_may_start_where_an_element_in_registers_says():
    @T.prim_func
    def f(A: T.Tensor((3, 8), T.int64), B: T.Tensor((4, 1), T.int64), C: T.Tensor((2, 8), T.int64)):
        with T.Kernel(1, threads=64) as bx:
            x = T.alloc_local((4, 1), T.int64)
            T.copy(A[0, 0], x)
            y = T.alloc_shared((2, 8), T.int64)
            T.copy(A[x[bx, 0] % 2, 0], y)  # by cp.async
            T.copy(x, B)
            T.copy(y, C)

    assert_threads_agree(f, *(ints(*shape, dtype=np.int64) for shape in ((3, 8), (4, 1), (2, 8))))


def test_memory_of_single_threads_is_updated_without_atomics():
    @T.prim_func
    def f(A: T.Tensor((2,), T.int32), B: T.Tensor((40,), T.int32)):
        with T.Kernel(2, threads=32) as bx:
            x = T.alloc_local((1,), T.int32)
            x[0] = A[bx]
            T.atomic_max(x[0], 3)
            old = T.atomic_exchange(x[0], 5, return_prev=True)
            seen = T.atomic_cas(x[0], 5, 7)
            missed = T.atomic_cas(x[0], 5, 9)
            last = T.atomic_load(x[0])
            for i in T.Parallel(20):
                own = T.alloc_local((1,), T.int32)
                own[0] = i
                T.atomic_add(own[0], old)
                B[bx * 20 + i] = own[0] + seen * 100 + missed * 10 + last

    lowered = run_passes(f, TO_THREADS, SM80)
    assert not any(isinstance(s, Atomic) for s in walk(lowered.body))
    assert_threads_agree(f, ints(2, dtype=np.int32), ints(40, dtype=np.int32))


def test_scalars_of_the_block_are_known_to_be_uniform():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            total = T.alloc_var(T.int32, init=0)
            own = T.alloc_var(T.int32, init=0)
            for i in T.Parallel(64):
                total += A[i]
            if total > 3:
                for i in T.Parallel(64):
                    B[i] = total
            own = T.get_thread_binding()
            B[own] = own

    lowered = run_passes(f, TO_THREADS, SM80)
    (launch,) = [s for s in walk(lowered.body) if isinstance(s, Launch)]
    assert ["total"] == [b.name for b in launch.plan.uniform]
    uniform = Uniformity(launch)
    assert [False] == [uniform.diverges(s) for s in walk(launch.body) if isinstance(s, If) and "total" in str(s.condition)]


def test_what_other_blocks_write_is_read_by_one_thread_for_all():
    @T.prim_func
    def f(C: T.Tensor((4,), T.int32), B: T.Tensor((32,), T.int32)):
        with T.Kernel(1, threads=32) as _:
            x = T.alloc_var(T.int32, init=0)
            C[1] = 5
            x = C[1] + 1
            if C[1] > 2:
                for i in T.Parallel(32):
                    B[i] = x
            while C[0] < 3:
                C[0] += 1
            for i in T.serial(C[0]):
                C[2] += i

    assert_threads_agree(f, ints(4, dtype=np.int32) * 0, ints(32, dtype=np.int32))
    (launch,) = [s for s in walk(run_passes(f, TO_THREADS, SM80).body) if isinstance(s, Launch)]
    assert not any(Uniformity(launch).diverges(s) for s in walk(launch.body) if isinstance(s, While | For))


class Prefetching:
    """Copies nothing, but asks for a map of the source."""

    name = "copy.prefetching"

    def accepts(self, op, context):
        return ACCEPTED

    def constrain(self, op, plan, context):
        return ()

    def lower(self, op, plan, context, build):
        dims = op.src.buffer.shape[::-1]
        var = context.tensor_map(op.src.buffer, dims, [dims[0] * 4], (8, 8), 0, map_fault)
        build.emit(CallStmt(TMA_PREFETCH_MAP, (var,)))


def test_the_plan_holds_the_maps_that_lowerings_ask_for():
    @T.prim_func
    def f(A: T.Tensor((16, 8), T.float32), B: T.Tensor((16, 8), T.float32)):
        with T.Kernel(1, threads=32) as _:
            s = T.alloc_shared((16, 8), T.float32)
            for _ in T.serial(2):
                T.copy(A, s)
            T.copy(A, s)
            T.copy(B, s)

    class Chosen(Rewriter):
        def stmt(self, node):
            if isinstance(node, Copy):
                return dataclasses.replace(node, choice=Prefetching.name, plan=ACCEPTED)
            return self.rebuild_stmt(node)

    func = dataclasses.replace(f, body=Chosen().visit(f.body))
    func = lower_to_threads({Copy: (Prefetching(),)}).run(func, PassContext(CompileOptions(), Target("cuda", "sm_90a")))
    verify(func)
    (launch,) = [s for s in walk(func.body) if isinstance(s, Launch)]
    assert ["A_map", "B_map"] == [m.var.name for m in launch.plan.tensor_maps]
    used = [s.args[0] for s in walk(func.body) if isinstance(s, CallStmt)]
    assert 3 == len(used) and {*used} == {m.var for m in launch.plan.tensor_maps}
