"""GEMM on Hopper with everything said by hand: who loads, who computes, and which barriers connect them.

One warpgroup lets the copy engine fill a ring of tiles, two others multiply them. `gemm_simple.py` leaves all of this
to the compiler. Where there is no Hopper GPU, the simulator runs it.
"""

import numpy as np

import tilelang
import tilelang.language as T
from tilelang.targets.target import parse_target
from tilelang.testing import to_device, to_host

HOPPER = {"kind": "cuda", "arch": "sm_90a"}


@tilelang.jit(out_idx=[-1], target=HOPPER)
def warp_specialized(M, N, K, block_M=128, block_N=128, block_K=64, stages=4, dtype="float16", accum_dtype="float32"):
    """A producer and two consumers around a ring of `stages` versions of the tiles of A and B."""

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=384) as (bx, by):
            A_shared = T.alloc_shared((stages, block_M, block_K), dtype)
            B_shared = T.alloc_shared((stages, block_K, block_N), dtype)
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            full = T.alloc_barrier([128] * stages)  # the producer's threads, and the bytes of the tiles
            empty = T.alloc_barrier([256] * stages)  # the consumers' threads
            steps = T.ceildiv(K, block_K)

            with T.ws(2):
                T.set_max_nreg(24, False)
                for ko in T.serial(steps):
                    stage, turn = ko % stages, ko // stages
                    T.barrier_wait(empty[stage], (turn + 1) % 2)  # the first turn goes through
                    T.tma_copy(A[by * block_M, ko * block_K], A_shared[stage, :, :], barrier=full[stage])
                    T.tma_copy(B[ko * block_K, bx * block_N], B_shared[stage, :, :], barrier=full[stage])
                    T.barrier_arrive(full[stage])

            with T.ws(0, 1):
                T.set_max_nreg(240, True)
                for ko in T.serial(steps):
                    stage, turn = ko % stages, ko // stages
                    T.barrier_wait(full[stage], turn % 2)
                    T.wgmma_gemm(A_shared[stage, :, :], B_shared[stage, :, :], C_local, clear_accum=ko == 0)
                    if ko > 0:
                        T.wait_wgmma(1)  # the product before this one is over, so its tiles may go
                        T.barrier_arrive(empty[(ko - 1) % stages])
                T.wait_wgmma(0)
                T.copy(C_local, C_shared)
                T.tma_copy(C_shared, C[by * block_M, bx * block_N])
                T.tma_store_wait()

    return gemm


def main(M=256, N=384, K=512, **options):
    there = parse_target("auto").arch == HOPPER["arch"]
    func = warp_specialized.get_tir(M, N, K, **options)
    kernel = tilelang.compile(
        func, out_idx=[2], target=HOPPER, execution_backend="auto" if there else "simulator"
    )
    rng = np.random.default_rng(0)
    a = rng.standard_normal((M, K), dtype=np.float32).astype(np.float16)
    b = rng.standard_normal((K, N), dtype=np.float32).astype(np.float16)
    c = to_host(kernel(*to_device(a, b)) if there else kernel(a, b))
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(c.astype(np.float32), expected, rtol=1e-2, atol=1e-1)
    where = "on the GPU" if there else "in the simulator"
    print(f"warp_specialized_gemm: ({M}, {N}, {K}) agrees with NumPy {where}")


if __name__ == "__main__":
    main()
