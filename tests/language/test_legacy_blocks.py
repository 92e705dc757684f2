"""Blocks, grids and threads of older programs: the same results as what they stand for."""

import re

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk

REFERENCE = {"execution_backend": "reference"}
CPU = {"target": "cpu"}
SIMULATOR = {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}}


@T.prim_func
def blocks(A: T.Tensor((4, 8), "int32"), B: T.Tensor((4,), "int32"), n: T.int32):
    with T.Kernel(1, threads=32):
        for i, j in T.grid(4, 8):
            with T.sblock("sum"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi])
                T.sblock_attr({"key": 1})
                with T.init():
                    B[vi] = 100
                B[vi] = B[vi] + A[vi, vj]
        for i in T.serial(8):
            with T.sblock():
                vi = T.axis.spatial(8, i)
                T.where(vi < n)
                T.where(vi != 1)
                B[vi] += 1000
        for k in T.serial(2, 5):
            with T.sblock("range"):
                vk = T.axis.reduce((2, 5), k)
                with T.init():
                    A[0, 0] = 7
                A[0, 0] += vk


@pytest.mark.parametrize("backend", [REFERENCE, CPU, SIMULATOR], ids=["reference", "cpu", "simulator"])
def test_blocks_guard_and_begin_reductions(backend):
    a = np.arange(32, dtype=np.int32).reshape(4, 8)
    b = np.zeros(4, np.int32)
    expected = 100 + a.sum(axis=1) + np.array([1000, 0, 1000, 0])
    tilelang.compile(blocks, **backend)(a, b, 3)
    assert (expected.tolist(), 7 + 2 + 3 + 4) == (b.tolist(), a[0, 0])


def with_frames(A):
    with T.launch_thread("blockIdx.x", 4) as bx:
        with T.launch_thread("blockIdx.z", 2) as bz:
            with T.launch_thread("threadIdx.y", 4) as ty, T.launch_thread("threadIdx.x", 8) as tx:
                A[bz, bx, ty, tx] = bz * 1000 + bx * 100 + ty * 10 + tx + T.get_thread_extent(0) * 10000


@T.macro
def with_variables(A):
    bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    with T.launch_thread(bx, 4):
        with T.launch_thread("blockIdx.z", 2) as bz:
            with T.launch_thread(tx, 8), T.launch_thread("threadIdx.y", 4) as ty:
                A[bz, bx, ty, tx] = bz * 1000 + bx * 100 + ty * 10 + tx + 80000


@T.macro
def with_loops(A):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for bz in T.thread_binding(0, 2, "blockIdx.z", annotations={}):
            for ty in T.thread_binding(4, "threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[bz, bx, ty, tx] = bz * 1000 + bx * 100 + ty * 10 + tx + 80000


@T.macro
def in_a_kernel(A):
    with T.Kernel(4, 1, 2, threads=(8, 4)) as (bx, _, bz):
        tx, ty = T.thread_binding(0, 8, thread="threadIdx.x"), T.thread_binding(4, "threadIdx.y")
        with T.launch_thread("threadIdx.x", 8) as same:
            A[bz, T.thread_binding(4, "blockIdx.x"), ty, same] = bz * 1000 + bx * 100 + ty * 10 + tx + 80000


@pytest.mark.parametrize("statement", [with_frames, with_variables, with_loops, in_a_kernel])
def test_grids_that_are_opened_by_dimensions(statement):
    @T.prim_func
    def main(A: T.Tensor((2, 4, 4, 8), "int32")):
        statement(A)

    (launch,) = [node for node in walk(main.body) if isinstance(node, Launch)]
    assert ((8, 4, 1), [4, 1, 2]) == (launch.threads, [extent.value for extent in launch.grid])
    a = np.zeros((2, 4, 4, 8), np.int32)
    tilelang.compile(main, **SIMULATOR)(a)
    z, x, ty, tx = np.indices(a.shape)
    np.testing.assert_array_equal(z * 1000 + x * 100 + ty * 10 + tx + 80000, a)


def test_threads_that_nothing_names_do_tiles_together():
    @T.prim_func
    def main(A: T.Tensor((4, 32), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for _ in T.thread_binding(64, thread="threadIdx.x"):
                S = T.alloc_shared((32,), "float32")
                T.copy(A[bx, 0], S)
                for i in T.Parallel(32):
                    A[bx, i] = S[31 - i]

    for backend in (REFERENCE, CPU, SIMULATOR):
        a = np.arange(128, dtype=np.float32).reshape(4, 32)
        expected = a[:, ::-1].copy()
        tilelang.compile(main, **backend)(a)
        np.testing.assert_array_equal(expected, a)


def test_dimensions_that_are_assigned_are_open_for_the_rest():
    @T.prim_func
    def opened(A: T.Tensor((4, 32), "float32")):
        bx = T.launch_thread("blockIdx.x", 4)
        tx = T.launch_thread("threadIdx.x", 32)
        A[bx, tx] = A[bx, tx] + tx % 4

    @T.prim_func
    def named(A: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            tx = T.launch_thread("threadIdx.x", 32)
            A[bx, tx] = A[bx, tx] + tx % 4

    for func in (opened, named):
        a = np.arange(128, dtype=np.float32).reshape(4, 32)
        expected = a + np.arange(32, dtype=np.float32) % 4
        tilelang.compile(func, **SIMULATOR)(a)
        np.testing.assert_array_equal(expected, a)


@T.macro
def twice(A):
    with T.launch_thread("blockIdx.x", 4), T.launch_thread("blockIdx.x", 4):
        A[0] = 1


@T.macro
def symbolic_threads(A, n):
    with T.launch_thread("threadIdx.x", n):
        A[0] = 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (lambda A, n: T.env_thread("vthread"), "T.env_thread: 'vthread' names no dimension"),
        (lambda A, n: T.launch_thread("x", 4), "T.launch_thread: 'x' names no dimension"),
        (lambda A, n: twice(A), "T.launch_thread: blockIdx.x is open already"),
        (symbolic_threads, "T.launch_thread: threadIdx.x needs a positive constant extent"),
        (lambda A, n: T.thread_binding("threadIdx.x"), "T.thread_binding: 'threadIdx.x' is no extent"),
        (lambda A, n: T.thread_binding(4, "warp"), "T.thread_binding: 'warp' names no dimension"),
        (lambda A, n: T.axis.remap("SX", [n, n]), "T.axis.remap: 'SX' does not say 'S' or 'R' of 2 indices"),
    ],
)
def test_mistakes(statement, message):
    with pytest.raises(ProgramError, match=re.escape(message)):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32"), n: T.int32):
            statement(A, n)
