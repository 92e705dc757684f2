"""Compiles the kernels of `amd_code.py` by published TileLang for AMD's GPUs, without one: writes their assembly.

Run by an interpreter that has TileLang 0.1.15 of PyPI and ziglang: `python benchmarks/amd_published.py FOLDER`; nothing
else uses it. The package writes HIP text, which wants headers of ROCm; a few lines stand for what these kernels take of
them, and of the package's own headers, whose copies "cp.async" of 16 bytes are ordinary ones for AMD.
"""

import subprocess
import sys
from pathlib import Path

import ziglang

import tilelang.language as T
from tilelang import tvm
from tilelang.engine.lower import lower

TARGETS = {"gfx942": 64, "gfx950": 64, "gfx1100": 32}  # and lanes of a wave
OPTIONS = "-x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib -O3 -std=c++17 -w -S".split()
HEADERS = """\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n, ...) __attribute__((amdgpu_flat_work_group_size(1, n)))
typedef unsigned char uchar;
typedef unsigned int uint;
typedef _Float16 half_t;
typedef float float32x4 __attribute__((vector_size(16)));
typedef float float32x8 __attribute__((vector_size(32)));
typedef half_t float16x4 __attribute__((vector_size(8)));
typedef half_t float16x16 __attribute__((vector_size(32)));
struct half2 { half_t x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
__device__ __forceinline__ float2 make_float2(float x, float y) { return {x, y}; }
__device__ __forceinline__ float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
struct Index { unsigned x, y, z; };
#define threadIdx (Index{__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), 0})
#define blockIdx (Index{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), 0})
__device__ __forceinline__ float exp2f(float x) { return __builtin_exp2f(x); }
__device__ __forceinline__ float max(float x, float y) { return __builtin_fmaxf(x, y); }
#define HUGE_VALF __builtin_inff()
__device__ __forceinline__ void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
namespace tl {
template <int bytes> __device__ __forceinline__ void cp_async_gs(void* to, const void* from) {
    static_assert(bytes == 16);
    *(uint4*)to = *(const uint4*)from;
}
__device__ __forceinline__ void cp_async_commit() {}
template <int n> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("s_waitcnt vmcnt(%0)" : : "n"(n) : "memory");
}
struct MaxOp { static __device__ __forceinline__ float of(float x, float y) { return __builtin_fmaxf(x, y); } };
struct SumOp { static __device__ __forceinline__ float of(float x, float y) { return x + y; } };
template <typename Op, int threads, int scale, int first> struct AllReduce {
    static __device__ __forceinline__ float run(float x, float* = nullptr) {
        unsigned lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
#pragma unroll
        for (int offset = threads / 2; offset >= scale; offset /= 2) {
            int other = __builtin_amdgcn_ds_bpermute((lane ^ offset) * 4, __builtin_bit_cast(int, x));
            x = Op::of(x, __builtin_bit_cast(float, other));
        }
        return x;
    }
};
}  // namespace tl
"""


def gemm(size, rows, columns, depth, threads):
    shape = (size, size)

    @T.prim_func
    def main(A: T.Tensor(shape, "float16"), B: T.Tensor(shape, "float16"), C: T.Tensor(shape, "float16")):
        with T.Kernel(T.ceildiv(size, columns), T.ceildiv(size, rows), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((rows, depth), "float16")
            B_shared = T.alloc_shared((depth, columns), "float16")
            sums = T.alloc_fragment((rows, columns), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(size, depth), num_stages=2):
                T.copy(A[by * rows, k * depth], A_shared)
                T.copy(B[k * depth, bx * columns], B_shared)
                T.gemm(A_shared, B_shared, sums)
            T.copy(sums, C[by * rows, bx * columns])

    return main


def attention(length, queries, keys, dim, threads):
    shape = (length, dim)
    scale = dim**-0.5 * 1.4426950408889634
    hold = T.alloc_fragment if threads == 256 else T.alloc_shared  # sums of WMMA are no operands of it

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "float16"),
        K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"),
        O: T.Tensor(shape, "float16"),
    ):
        with T.Kernel(T.ceildiv(length, queries), threads=threads) as bx:
            Q_tile = hold((queries, dim), "float16")
            K_shared = T.alloc_shared((keys, dim), "float16")
            V_shared = T.alloc_shared((keys, dim), "float16")
            S = T.alloc_fragment((queries, keys), "float32")
            P = hold((queries, keys), "float16")
            out = T.alloc_fragment((queries, dim), "float32")
            largest = T.alloc_fragment((queries,), "float32")
            before = T.alloc_fragment((queries,), "float32")
            scaling = T.alloc_fragment((queries,), "float32")
            part = T.alloc_fragment((queries,), "float32")
            total = T.alloc_fragment((queries,), "float32")
            T.copy(Q[bx * queries, 0], Q_tile)
            T.clear(out)
            T.clear(total)
            T.fill(largest, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
                T.copy(K[k * keys, 0], K_shared)
                T.clear(S)
                T.gemm(Q_tile, K_shared, S, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[k * keys, 0], V_shared)
                T.copy(largest, before)
                T.fill(largest, -T.infinity("float32"))
                T.reduce_max(S, largest, dim=1, clear=False)
                for i in T.Parallel(queries):
                    largest[i] = T.max(largest[i], before[i])
                    scaling[i] = T.exp2(before[i] * scale - largest[i] * scale)
                for i, j in T.Parallel(queries, keys):
                    S[i, j] = T.exp2(S[i, j] * scale - largest[i] * scale)
                T.reduce_sum(S, part, dim=1)
                for i in T.Parallel(queries):
                    total[i] = total[i] * scaling[i] + part[i]
                T.copy(S, P)
                for i, j in T.Parallel(queries, dim):
                    out[i, j] *= scaling[i]
                T.gemm(P, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(queries, dim):
                out[i, j] /= total[i]
            T.copy(out, O[bx * queries, 0])

    return main


KERNELS = {
    "gemm 128x128x64": lambda size, lanes: gemm(size, 128, 128, 64, 4 * lanes),
    "gemm 256x256x64": lambda size, lanes: gemm(size, 256, 256, 64, 8 * lanes),
    "attention D=128": lambda size, lanes: attention(size, 2 * lanes, 64, 128, 4 * lanes),
}


def main(folder: Path) -> None:
    zig = Path(ziglang.__file__).parent / "zig"
    for arch, lanes in TARGETS.items():
        target = tvm.target.Target({"kind": "hip", "mcpu": arch})
        for name, make in KERNELS.items():
            try:
                with target:
                    artifact = lower(make(4096, lanes), target=target)
            except Exception as error:
                (folder / f"{name} {arch}.error").write_text(f"{type(error).__name__}: {error}")
                continue
            lines = [line for line in artifact.kernel_source.splitlines() if not line.startswith("#include")]
            text, made = folder / f"{name} {arch}.hip", folder / f"{name} {arch}.s"
            text.write_text(HEADERS + "\n".join(lines))
            command = [zig, "clang", *OPTIONS, f"--offload-arch={arch}", "-o", made, text]
            subprocess.run(command, check=True)
            (function,) = artifact.device_mod.functions.values()
            made.write_text(f"; shared {function.attrs['dyn_shared_memory_buf']}\n{made.read_text()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
