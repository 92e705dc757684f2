"""Tile operators by groups of threads: fragments, reductions, scans, conversions; also in warp-specialized kernels."""

import dataclasses

import numpy as np
import pytest
from device_text import compile_cuda, needs_cuda_compiler
from gpu import in_every_schedule, lower_func, simulate_func
from random_kernels.checking import check_random, compare

import tilelang
import tilelang.language as T
from tilelang.dtypes import BOOL, INT32, as_dtype
from tilelang.errors import ProgramError, ProgramWarning
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, conjunction, const
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, CallStmt, Group, If, Launch, Seq
from tilelang.ir.visit import Rewriter, walk
from tilelang.targets.gpu.isa.warp import ELECT
from tilelang.targets.nvidia.codegen.cuda import emit


class Roles(Rewriter):
    """Makes groups of the user's the compiler's; a group in another one of the same threads becomes one thread."""

    def __init__(self):
        self.around, self.thread = [], None

    def stmt(self, node):
        if isinstance(node, Launch):
            self.thread = node.thread
        if not isinstance(node, If) or node.group is None:
            return self.rebuild_stmt(node)
        alone = any(node.group.same_threads(other) for other in self.around)
        self.around.append(node.group)
        body = self.visit(node.then_body)
        self.around.pop()
        if not alone:
            return dataclasses.replace(node, then_body=body, group=dataclasses.replace(node.group, collective=True))
        leader, first = Var("leader", BOOL), node.group.first
        elect = CallStmt(ELECT, (const(0xFFFFFFFF, as_dtype("uint32")),), result=leader)
        condition = conjunction([self.thread // 32 == first // 32, leader])
        return Seq((elect, If(condition, body, group=Group(first, 1, collective=True))))


def with_roles(func: PrimFunc) -> PrimFunc:
    return dataclasses.replace(func, body=Roles().visit(func.body))


def both(func):
    return [func, with_roles(func)]


def ids(func):
    return "roles" if any(isinstance(s, If) and s.group and s.group.collective for s in walk(func.body)) else "ws"


def launch_of(func):
    (launch,) = [s for s in walk(func.body) if isinstance(s, Launch)]
    return launch


def notes(func):
    return [note.text for note in launch_of(lower_func(func)).plan.notes]


def barriers(func):
    names = ("bar_sync", "sync_threads", "sync_warp")
    calls = [s for s in walk(lower_func(func).body) if isinstance(s, CallStmt) and s.routine.name in names]
    return [(c.routine.name, *[a.value for a in c.args]) for c in calls]


# -- tiles ---------------------------------------------------------------------------------------------------------


@T.prim_func
def softmax(A: T.Tensor((32, 64), "float32"), B: T.Tensor((32, 64), "float32"), S: T.Tensor((32, 64), "float32")):
    with T.Kernel(1, threads=256):
        with T.ws(1):
            x = T.alloc_fragment((32, 64), "float32")
            top = T.alloc_fragment((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.copy(A, x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(32, 64):
                x[i, j] = x[i, j] - top[i]
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(32, 64):
                x[i, j] = x[i, j] + total[i]
            T.copy(x, B)
            T.cumsum(x, x, dim=1)
            T.copy(x, S)


@pytest.mark.parametrize("func", both(softmax), ids=ids)
def test_folds_and_scans_of_a_group(func):
    a = np.random.randint(-9, 9, (32, 64)).astype(np.float32)
    x = a - a.max(1, keepdims=True)
    x = x + x.sum(1, keepdims=True)
    _, b, s = in_every_schedule(func, a, 0 * a, 0 * a)
    np.testing.assert_array_equal(x, b)
    np.testing.assert_array_equal(np.cumsum(x, 1), s)
    lines = notes(func)
    assert [True] * 3 == [any(l.startswith(f"{name}: 128 threads hold") for l in lines) for name in ("x", "top", "total")]
    assert not any("kept in shared memory" in line for line in lines)


@T.prim_func
def conversion(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=256):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        with T.ws(1):
            c = T.alloc_fragment((64, 64), "float16")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.gemm(c, b, d, transpose_A=True, clear_accum=True)  # wants its first operand in another layout
            T.copy(d, C)


@pytest.mark.parametrize("func", both(conversion), ids=ids)
def test_layouts_are_converted_within_a_group(func):
    a, b = (np.random.randint(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    first = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    _, _, c = in_every_schedule(func, a, b, np.zeros((64, 64), np.float32))
    np.testing.assert_array_equal(first.astype(np.float32).T @ b.astype(np.float32), c)
    assert any(line.startswith("c: goes through 8192 bytes of shared memory") for line in notes(func))
    assert {("bar_sync", 15, 128)} == set(barriers(func))


def test_an_annotated_layout_is_for_the_threads_of_the_group():
    def kernel(threads):
        @T.prim_func
        def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
            with T.Kernel(1, threads=256):
                x = T.alloc_fragment((256,), "float32")
                T.annotate_layout({x: T.Fragment((256,), lambda i: (i % threads, i // threads))})
                with T.ws(0):
                    T.copy(A, x)
                    for i in T.Parallel(256):
                        x[i] = x[i] * 2
                    T.copy(x, B)

        return main

    a = np.arange(256, dtype=np.float32)
    np.testing.assert_array_equal(2 * a, in_every_schedule(kernel(128), a, 0 * a)[1])
    assert any(line.startswith("x: 128 threads hold 2 values each; fixed by T.annotate_layout") for line in notes(kernel(128)))
    with pytest.raises(ProgramError, match="is for 256 threads, but the group that uses it has 128"):
        lower_func(kernel(256))


def test_tiles_that_several_groups_use_are_kept_in_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            x = T.alloc_fragment((64,), "int32")
            y = T.alloc_fragment((64,), "int32")
            with T.ws(0):
                T.copy(A, x)
                T.copy(A, y)
            with T.ws(1):
                T.copy(x, B)
            T.copy(y, C)

    a = np.random.randint(-9, 9, 64).astype(np.int32)
    _, b, c = in_every_schedule(main, a, 0 * a, 0 * a)
    np.testing.assert_array_equal([a, a], [b, c])
    lines = notes(main)
    assert "'x' is kept in shared memory: a group of threads and another group use it" in lines
    assert "'y' is kept in shared memory: a group of threads and the rest of the block use it" in lines


def test_the_same_threads_are_one_group():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            x = T.alloc_fragment((64,), "int32")
            with T.ws(1):
                T.copy(A, x)
            with T.ws(1):
                for i in T.Parallel(64):
                    B[i] = x[i] + 1

    a = np.random.randint(-9, 9, 64).astype(np.int32)
    np.testing.assert_array_equal(a + 1, in_every_schedule(main, a, 0 * a)[1])
    assert any(line.startswith("x: 128 threads hold") for line in notes(main))
    assert [] == barriers(main)


def test_sums_that_the_threads_of_a_group_cannot_hold_warn_with_their_number():
    @T.prim_func
    def main(A: T.Tensor((256, 32), "float16"), C: T.Tensor((256, 256), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((256, 32), "float16")
            T.copy(A, a)
            with T.ws(0):
                c = T.alloc_fragment((256, 256), "float32")
                T.gemm(a, a, c, transpose_B=True, clear_accum=True)
                T.copy(c, C)

    with pytest.warns(ProgramWarning, match="needs 512 registers of each of 128 threads") as caught:
        lower_func(main)
    assert "hint: make the tile smaller" == str(caught[0].message).splitlines()[-1]


class WithinGroup(Rewriter):
    """Lets a group do what a block does, in the middle of a block of more threads."""

    def stmt(self, node):
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        thread, group = Var("thread", INT32, index=True), Group(64, node.num_threads, collective=True)
        assert node.thread is None
        body = If(group.condition(thread), node.body, group=group, loc=node.loc)
        return dataclasses.replace(node, threads=(96 + -(-group.count // 32) * 32, 1, 1), thread=thread, body=body)


@pytest.mark.slow(every=80)
@pytest.mark.parametrize("seed", range(5000, 5040))
def test_whatever_a_block_does_a_group_does(seed):
    def run(func, arguments):
        grouped = dataclasses.replace(func, body=WithinGroup().visit(func.body))
        target = {"kind": "cuda", "arch": ("sm_80", "sm_75", "sm_90a")[seed % 3]}
        kernel = tilelang.compile(grouped, target=target, execution_backend="simulator")
        kernel.simulate(*arguments, lazy=seed % 2 == 0, seed=seed)
        return arguments

    check_random(seed, lambda program: compare(program, run))


# -- who does what ---------------------------------------------------------------------------------------------------


@T.prim_func
def scalars(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=160):
        s = T.alloc_shared((1,), "int32")
        with T.ws(0):
            n = T.alloc_var("int32", init=1)
            T.atomic_add(A[0], 1)
            for i in T.serial(10):
                if n > 20:
                    break
                n = n * 2
            T.atomic_add(A[1], n)
            for i in T.Parallel(100):
                n += 1
            T.atomic_add(A[2], n)
            s[0] = B[3]
            A[3] = s[0] + n
        with T.ws(1):
            B[0] = B[1] + 7
            B[2] = B[0]


def test_the_users_groups_do_scalars_as_in_cuda():
    a, b = in_every_schedule(scalars, np.zeros(4, np.int32), np.arange(4, dtype=np.int32))
    assert [128, 128 * 32, 128 * 132, 135] == list(a)
    assert [8, 1, 8, 3] == list(b)


@pytest.mark.parametrize("named", [True, False])
def test_tiles_are_printed_once_by_each_group(named, capsys):
    def show(S, F):
        T.copy(S, F)
        T.print(S, msg="shared")
        T.print(F, msg="held")

    @T.prim_func
    def main(A: T.Tensor((2, 2), "float32")):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((2, 2), "float32")
            F = T.alloc_fragment((2, 2), "float32")
            T.copy(A, S)
            if named:
                with T.ws(0):
                    T.print(S, msg="first")
                with T.ws(1):
                    show(S, F)
            else:
                thread = T.get_thread_binding()
                if thread < 128:
                    T.print(S, msg="first")
                else:
                    show(S, F)
                if thread < 3:
                    T.print(S, msg="each")

    a = np.arange(4, dtype=np.float32).reshape(2, 2)
    simulate_func(main, [a])
    printed = capsys.readouterr().out
    counts = [printed.count(f"{what}: ") for what in ("first", "shared", "held", "each")]
    assert [1, 1, 1, 0 if named else 3] == counts


def test_the_compilers_groups_do_scalars_once():
    a, b = in_every_schedule(with_roles(scalars), np.zeros(4, np.int32), np.arange(4, dtype=np.int32))
    assert [1, 32, 132, 135] == list(a)
    assert [8, 1, 8, 3] == list(b)


@T.prim_func
def alone(A: T.Tensor((8, 64), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=384):
        full = T.alloc_barrier([1, 1])
        empty = T.alloc_barrier([256, 256])
        s = T.alloc_shared((2, 64), "float32")
        with T.ws(2):
            with T.ws(2):
                count = T.alloc_var("int32", init=0)
                for k in T.serial(8):
                    T.barrier_wait(empty[k % 2], k // 2 % 2 ^ 1)
                    T.copy(A[k, 0:64], s[k % 2, 0:64])
                    T.barrier_arrive(full[k % 2])
                    for i in T.Parallel(10):
                        count += 1
                C[0] = count
        with T.ws(0, 1):
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.serial(8):
                T.barrier_wait(full[k % 2], k // 2 % 2)
                for i in T.Parallel(64):
                    total[i] = total[i] * 2 + s[k % 2, 63 - i]
                T.barrier_arrive(empty[k % 2])
            with T.ws(0, 1):
                T.copy(total, B)


def test_one_thread_does_tiles_alone():
    func = with_roles(alone)
    a = np.random.randint(-9, 9, (8, 64)).astype(np.float32)
    expected = np.zeros(64, np.float32)
    for row in a:
        expected = expected * 2 + row[::-1]
    _, b, c = in_every_schedule(func, a, 0 * expected, np.zeros(1, np.int32))
    np.testing.assert_array_equal(expected, b)
    assert 80 == c[0]
    assert "'total' is kept in shared memory: a group of threads and another group use it" in notes(func)


def test_groups_of_one_need_no_elections():
    launch = launch_of(lower_func(with_roles(alone)))
    (one, _) = [s for s in walk(launch.body) if isinstance(s, If) and s.group is not None and s.group.count == 1]
    tests = [s for s in walk(one.then_body) if isinstance(s, If)]
    assert [] == tests
    assert not any(isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED for s in walk(one.then_body))


# -- barriers ----------------------------------------------------------------------------------------------------------


@T.prim_func
def nested(A: T.Tensor((256,), "int32"), B: T.Tensor((2, 256), "int32")):
    with T.Kernel(1, threads=416):
        s = T.alloc_shared((256,), "int32")
        t = T.alloc_shared((256,), "int32")
        with T.ws(0, 1):
            T.copy(A, s)
            for k in T.serial(3):
                for i in T.Parallel(256):
                    s[i] = s[i] + k
                with T.ws(1):
                    for i in T.Parallel(256):
                        t[i] = s[255 - i]
                    for i in T.Parallel(256):
                        B[0, i] = t[255 - i]
        with T.ws(3):
            u = T.alloc_shared((256,), "int32")
            for k in T.serial(2):
                for i in T.Parallel(256):
                    u[i] = A[i]
                for i in T.Parallel(256):
                    B[1, i] = u[255 - i]


def test_nested_groups_have_barriers_of_their_own():
    a = np.random.randint(-9, 9, 256).astype(np.int32)
    _, b = in_every_schedule(nested, a, np.zeros((2, 256), np.int32))
    np.testing.assert_array_equal([a + 3, a[::-1]], b)
    found = barriers(nested)
    assert {("bar_sync", 15, 256), ("bar_sync", 14, 128), ("sync_warp", 0xFFFFFFFF)} == set(found)


def test_what_a_group_does_twice_is_kept_apart():
    """Barriers of the program order what the groups share, but not what each of them did before."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=256):
            done = T.alloc_barrier([128])
            s = T.alloc_shared((64,), "int32")
            with T.ws(0):
                T.copy(A, s)
                T.barrier_arrive(done[0])
            with T.ws(0):
                for i in T.Parallel(64):
                    B[i] = s[63 - i]
                T.barrier_wait(done[0], 0)

    a = np.random.randint(-9, 9, 64).astype(np.int32)
    np.testing.assert_array_equal(a[::-1], in_every_schedule(main, a, 0 * a)[1])


@pytest.mark.slow(every=12)
@needs_cuda_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("func", [softmax, with_roles(conversion), with_roles(alone), nested], ids=lambda f: f.name)
def test_the_text_compiles(func, arch):
    assert compile_cuda(emit(lower_func(func, arch)).text, arch)
