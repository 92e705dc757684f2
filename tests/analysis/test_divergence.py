"""What a program says of single threads."""

import dataclasses

import tilelang.language as T
from tilelang.analysis.divergence import Divergence
from tilelang.ir.stmt import For, If, Launch, ParallelLoop, Store, TileOp
from tilelang.ir.visit import Rewriter, walk


def looked_at(func):
    (launch,) = [s for s in walk(func.body) if isinstance(s, Launch)]
    return launch, Divergence(launch)


def own_stores(func, name):
    launch, own = looked_at(func)
    return [own.is_own(s) for s in walk(launch.body) if isinstance(s, Store) and s.buffer.name == name]


def test_a_program_without_threads_has_nothing_of_its_own():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            for i in T.serial(64):
                if A[i] > 3:
                    A[i] = 1

    assert [False] == own_stores(f, "A")


def test_what_depends_on_the_thread_is_its_own():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            x = T.alloc_var(T.int32, init=0)
            y = T.alloc_var(T.int32, init=0)
            A[0] = 1  # the block's
            A[tx] = 2
            if tx < 7:
                A[1] = 3
            x = tx + 1
            A[2] = x
            y = y + 1
            A[3] = y  # the block's
            A[4] = B[x]

    assert [False, True, True, True, False, True] == own_stores(f, "A")


def test_a_loop_that_threads_leave_one_by_one_is_each_ones_own():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            for i in T.serial(8):
                A[i] = 1
                if tx == i:
                    break
            for i in T.serial(tx):
                A[i] = 2
            for i in T.serial(8):
                A[i] = 3  # the block's

    assert [True, True, False] == own_stores(f, "A")


def test_values_of_warp_instructions_are_of_threads():
    @T.prim_func
    def f(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64) as _:
            A[0] = T.shfl_xor(A[1], 1)

    assert [True] == own_stores(f, "A")


def test_a_shuffle_of_what_all_threads_have_is_the_blocks():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), B: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as bx:
            tx = T.get_thread_binding()
            A[0] = T.shfl_sync(B[bx], 0)
            A[1] = T.shfl_sync(B[tx], 0)

    assert [False, True] == own_stores(f, "A")


def test_what_iterations_keep_for_themselves_does_not_outlive_them():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            x = T.alloc_var(T.int32, init=0)
            tx = T.get_thread_binding()
            for i in T.Parallel(64):
                x += A[i]
            A[0] = x
            if tx > 3:
                for i in T.Parallel(64):
                    A[i] = 3

    launch, own = looked_at(f)
    assert [True] == [s in own.divergent for s in walk(launch.body) if isinstance(s, ParallelLoop) and s in own.divergent]
    assert False is own_stores(f, "A")[0]


def in_group(collective):
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=256) as _:
            outside = T.alloc_var(T.int32, init=0)
            with T.ws(1):
                inside = T.alloc_var(T.int32, init=0)
                A[0] = 1
                inside = inside + 1
                A[1] = inside
                outside = 3
                A[2] = outside
            for i in T.serial(4):
                with T.ws(0):
                    break

    class Change(Rewriter):
        def stmt(self, node):
            made = self.rebuild_stmt(node)
            if not isinstance(made, If) or made.group is None:
                return made
            return dataclasses.replace(made, group=dataclasses.replace(made.group, collective=collective))

    return dataclasses.replace(f, body=Change().visit(f.body))


def test_in_the_users_groups_all_scalars_are_of_threads():
    assert [True] * 3 == own_stores(in_group(False), "A")


def test_in_the_compilers_groups_only_what_others_have_too():
    func = in_group(True)
    assert [False, False, True] == own_stores(func, "A")
    launch, own = looked_at(func)
    (loop,) = [s for s in walk(launch.body) if isinstance(s, For)]
    assert loop.var in own.variables  # the others go on


def test_a_thread_goes_alone_over_an_array_of_its_own():
    @T.prim_func
    def f(A: T.Tensor((64, 4), T.int32), B: T.Tensor((64, 4), T.int32), C: T.Tensor((4,), T.int32)):
        with T.Kernel(1, threads=64) as _:
            tx = T.get_thread_binding()
            same = T.alloc_local((4,), T.int32)
            own = T.alloc_local((4,), T.int32)
            row = T.alloc_local((4,), T.int32)
            tile = T.alloc_fragment((4,), T.int32)
            one = T.alloc_local((1,), T.int32)
            for i in T.Parallel(4):  # the same in all threads
                same[i] = C[i]
            for i in T.Parallel(4):
                row[i] = A[tx, i]
            for i in T.Parallel(4):
                B[tx, i] = same[i]
            own[0] = tx
            for i in T.Parallel(4):
                own[i] = 1
            for i in T.Parallel(4):  # a tile of all threads
                tile[i] = own[i]
            one[0] = tx
            for i in T.Parallel(4):  # shared out: the array is not what the loop goes over
                C[i] = tile[i] * one[0]

    launch, own = looked_at(f)
    loops = [s for s in walk(launch.body) if isinstance(s, ParallelLoop)]
    assert [False, True, True, True, False, False] == [own.runs_per_thread(loop) for loop in loops]
    assert {"row", "own", "one"} == {buffer.name for buffer in own.memory}


def apart_fills(func):
    launch, own = looked_at(func)
    return [s in own.divergent_in_group for s in walk(launch.body) if isinstance(s, TileOp)]


def test_groups_that_assign_the_same_scalar_have_each_its_own():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), N: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=256) as bx:
            x = T.alloc_var(T.int32, init=0)
            y = T.alloc_var(T.int32, init=0)
            z = T.alloc_local((1,), T.int32)
            n = T.alloc_var(T.int32, init=0)
            with T.ws(0):
                x = bx + 1
                y = T.get_thread_binding()
                z[0] = x
                if x < 3:
                    T.fill(A, 0)  # all of the group come
                if y < 3:
                    T.fill(A, 1)  # each decides for itself
                while n < N[0]:
                    T.fill(A, 2)
                    n += 1
            with T.ws(1):
                x = bx + 2
                y = bx
                if N[0] > 3:
                    z[0] = x
                if x < 3 and z[0] < 3 and y < 3:
                    T.fill(A, 3)
            if x < 3:
                T.fill(A, 4)  # not all of the block have the same

    assert [False, True, False, False, True] == apart_fills(f)


def test_a_scalar_that_part_of_a_group_assigns_differs_in_it():
    @T.prim_func
    def f(A: T.Tensor((64,), T.int32), N: T.Tensor((1,), T.int32)):
        with T.Kernel(1, threads=256) as bx:
            x = T.alloc_var(T.int32, init=0)
            y = T.alloc_var(T.int32, init=0)
            z = T.alloc_var(T.int32, init=0)
            u = T.alloc_var(T.int32, init=0)
            with T.ws(0):
                y = T.atomic_add(N[0], 1, return_prev=True)
                if T.get_lane_idx() < 3:
                    z = 1
                u = x
                if y < 3:
                    T.fill(A, 0)  # each thread found a number of its own
                if z < 3:
                    T.fill(A, 1)
                if u < 3:
                    T.fill(A, 2)  # in the next iteration, too
            if T.get_thread_binding() < 64:
                x = 3
            with T.ws(0):
                if x < 3:
                    T.fill(A, 3)

    assert [True, True, True, True] == apart_fills(f)
