"""Release and acquire between blocks of one launch by atomics, as in stream-K and decoupled look-back."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import DataRace, Deadlock, MissingProxyFence

BLOCKS = 4
HOPPER = {"kind": "cuda", "arch": "sm_90a"}


def last_one(memory_order=None, threads=128):
    """The last block to take a number reads what all threads of all blocks added."""

    @T.prim_func
    def main(
        A: T.Tensor((BLOCKS, 256), "int32"),
        S: T.Tensor((256,), "int32"),
        n: T.Tensor((1,), "int32"),
        B: T.Tensor((256,), "int32"),
    ):
        with T.Kernel(BLOCKS, threads=threads) as bx:
            x = T.alloc_fragment((256,), "int32")
            T.copy(A[bx, 0], x)
            T.atomic_add(S, x)
            before = T.atomic_add(n[0], 1, memory_order=memory_order, return_prev=True)
            if before == BLOCKS - 1:
                T.copy(S, B)

    return main


def run(func, backend, arch="sm_90a"):
    a = np.random.default_rng(0).integers(-99, 99, (BLOCKS, 256)).astype(np.int32)
    arrays = [a, np.zeros(256, np.int32), np.zeros(1, np.int32), np.zeros(256, np.int32)]
    tilelang.compile(func, target={"kind": "cuda", "arch": arch}, execution_backend=backend)(*arrays)
    return a, arrays[-1]


@pytest.mark.parametrize("backend", ["reference", "simulator"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("order", [None, "acq_rel", "seq_cst"])
def test_whoever_takes_a_number_sees_what_was_done_by_those_before(backend, arch, order):
    a, b = run(last_one(order), backend, arch)
    assert (a.sum(axis=0) == b).all()


@pytest.mark.parametrize("backend", ["reference", "simulator"])
def test_a_number_that_promises_nothing_makes_it_a_race(backend):
    with pytest.raises(DataRace, match="S"):
        run(last_one("relaxed"), backend)


@pytest.mark.parametrize("order", [None, "relaxed"])
def test_all_threads_are_done_before_one_of_them_takes_a_number(order):
    source = tilelang.compile(last_one(order), target=HOPPER).get_kernel_source()
    body = source[source.index('extern "C"') :]
    adds, ticket = body.index("atomicAdd(&S"), body.index("before_seen[0] = ")
    assert ("__syncthreads()" in body[adds:ticket]) is (order is None)
    assert 2 - (order is not None) == body.count("__syncthreads()")


def test_a_product_that_is_counted_is_stored_by_its_threads_before():
    @T.prim_func
    def main(
        A: T.Tensor((128, 256), "float16"),
        B: T.Tensor((256, 128), "float16"),
        P: T.Tensor((2, 128, 128), "float32"),
        n: T.Tensor((1,), "int32"),
        C: T.Tensor((128, 128), "float32"),
    ):
        with T.Kernel(2, threads=128) as half:
            A_s, B_s = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            C_l = T.alloc_fragment((128, 128), "float32")
            T.clear(C_l)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, half * 128 + k * 64], A_s)
                T.copy(B[half * 128 + k * 64, 0], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, P[half, 0, 0])
            if T.atomic_add(n[0], 1, return_prev=True) == 1:
                for i, j in T.Parallel(128, 128):
                    C[i, j] = P[0, i, j] + P[1, i, j]

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 256), (256, 128)))
    for arch in ("sm_80", "sm_90a"):
        c = np.zeros((128, 128), np.float32)
        kernel = tilelang.compile(main, target={"kind": "cuda", "arch": arch}, execution_backend="simulator")
        kernel(a, b, np.zeros((2, 128, 128), np.float32), np.zeros(1, np.int32), c)
        assert (c == a.astype(np.float32) @ b.astype(np.float32)).all()


def brought(writer=False, reader=False, before=False, other=False):
    """What blocks wrote is brought to the last by the copy engine; says who executes a fence between the proxies."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        W: T.Tensor((64, 64), "float16"),
        n: T.Tensor((1,), "int32"),
        B: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(2, threads=128) as bx:
            S = T.alloc_shared((64, 64), "float16")
            bar = T.alloc_barrier(1)
            tx = T.get_thread_binding()
            if before:
                T.fence_proxy_async("global")
            for i in T.serial(16):
                W[bx * 32 + i * 2 + tx // 64, tx % 64] = A[bx * 32 + i * 2 + tx // 64, tx % 64]
            if writer:
                T.fence_proxy_async("global")
            if T.atomic_add(n[0], 1, memory_order="acq_rel", return_prev=True) == 1:
                if reader and tx == 0:
                    T.fence_proxy_async("global")
                if other:
                    if tx == 64:
                        T.fence_proxy_async("global")
                    T.sync_threads()
                if tx == 0:
                    T.tma_copy(W, S, barrier=bar)
                    T.barrier_arrive(bar)
                T.barrier_wait(bar, 0)
                T.copy(S, B)

    a = np.random.default_rng(0).integers(-9, 9, (64, 64)).astype(np.float16)
    b = np.zeros_like(a)
    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator")
    for seed in range(3):
        for lazy in (False, True):
            kernel.simulate(a, np.zeros_like(a), np.zeros(1, np.int32), b, seed=seed, lazy=lazy)
            assert (a == b).all()


@pytest.mark.parametrize("who", [{"reader": True}, {"writer": True}, {"other": True}, {"reader": True, "writer": True}])
def test_what_another_block_wrote_is_brought_by_an_engine_behind_a_fence(who):
    brought(**who)


@pytest.mark.parametrize("who", [{}, {"before": True}])
def test_what_no_fence_shows_to_the_engine_is_reported(who):
    with pytest.raises(MissingProxyFence, match=r"W\[.* written by .* asynchronous copy") as caught:
        brought(**who)
    assert "T.fence_proxy_async" in str(caught.value)
    assert "T.tma_copy" in str(caught.value)


def test_a_block_that_waits_for_one_that_may_begin_later_is_told_so():
    @T.prim_func
    def main(flag: T.Tensor((2,), "int32"), out: T.Tensor((2, 64), "int32")):
        with T.Kernel(2, threads=64) as bx:
            T.atomic_store(flag[bx], 1, memory_order="release")
            while T.atomic_load(flag[1 - bx], memory_order="acquire") == 0:
                pass
            T.fill(out[bx, 0:64], 1)

    kernel = tilelang.compile(main, target=HOPPER, execution_backend="simulator")
    with pytest.raises(Deadlock, match="wait"):
        kernel(np.zeros(2, np.int32), np.zeros((2, 64), np.int32))
