"""L2 cache policies on a GPU: their encodings, and copies that cannot take them."""

import numpy as np
import pytest
from warp_alone import WarpAlone, run

import tilelang
import tilelang.language as T
from tilelang.language.copies import EVICTIONS
from tilelang.targets.nvidia.isa.cache_policy import l2_policy
from tilelang.testing import requires_cuda, to_device, to_host


@requires_cuda
@pytest.mark.parametrize("eviction", EVICTIONS)
def test_the_numbers_are_those_that_the_device_makes(eviction):
    @T.prim_func
    def asked(A: T.Tensor((1,), "uint64")):
        with T.Kernel(1, threads=32):
            policy = T.alloc_var("uint64")
            T.inline_ptx(f"createpolicy.fractional.L2::{eviction}.b64 %0, 1.0;", [policy], [])
            A[0] = policy

    there = to_device(np.zeros(1, np.uint64), target="cuda")
    tilelang.compile(asked, target="cuda")(there)
    assert int(run(l2_policy(eviction), WarpAlone())[0]) == int(to_host(there)[0])


@requires_cuda
@pytest.mark.parametrize("block_N, block_K", [(32, 128), (32, 256), (64, 256)])
def test_copies_of_threads_do_without_them(block_N, block_K):
    M, N, K = 16, 4096, 4096

    @T.prim_func
    def product(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), threads=128) as bx:
            A_s = T.alloc_shared((M, block_K), "float16")
            B_s = T.alloc_shared((block_K, block_N), "float16")
            C_f = T.alloc_fragment((M, block_N), "float32")
            T.clear(C_f)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[0, k * block_K], A_s, eviction_policy="evict_last", disable_tma=True)
                T.copy(B[k * block_K, bx * block_N], B_s, eviction_policy="evict_first", disable_tma=True)
                T.gemm(A_s, B_s, C_f)
            T.copy(C_f, C[0, bx * block_N])

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((M, K)).astype(np.float16), rng.standard_normal((K, N)).astype(np.float16)
    there = [to_device(x, target="cuda") for x in (a, b, np.full((M, N), np.nan, np.float32))]
    tilelang.compile(product, target="cuda")(*there)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert np.linalg.norm(to_host(there[2]) - expected) <= 1e-4 * np.linalg.norm(expected)
