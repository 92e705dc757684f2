"""HIP text written by hand, without headers, as the code generator prints it; and what is needed to compile it."""

import pytest

from tilelang.codegen.source import DeviceLaunch, Source
from tilelang.errors import ToolchainError
from tilelang.targets.amd.runtime.hiprtc import open_hiprtc
from tilelang.targets.amd.runtime.toolchain import find_clang

ARCHES = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1200", "gfx1201")


def _has(find: object) -> bool:
    try:
        find()  # type: ignore[operator]
    except ToolchainError:
        return False
    return True


def has_clang() -> bool:
    """Whether there is a clang for AMD GPUs."""
    return _has(find_clang)


needs_clang = pytest.mark.skipif(not has_clang(), reason="needs a clang for AMD GPUs: pip install ziglang")
needs_hiprtc = pytest.mark.skipif(not _has(open_hiprtc), reason="needs hiprtc, of ROCm")

PRELUDE = """\
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define THREADS(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half8 __attribute__((ext_vector_type(8)));
typedef float float16v __attribute__((ext_vector_type(16)));
"""

REVERSE = (
    PRELUDE
    + """\
extern "C" __global__ THREADS(256) void reverse(const float* __restrict__ a, float* __restrict__ b) {
  __shared__ float tile[256];
  unsigned t = __builtin_amdgcn_workitem_id_x();
  unsigned g = __builtin_amdgcn_workgroup_id_x();
  tile[t] = a[g * 256 + t];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  b[g * 256 + t] = tile[255 - t];
}
"""
)

# C = A Bt in tiles of 128 x 128 x 32: four waves, each a quarter of 64 x 64, by 32x32x8 matrix instructions
GEMM = (
    PRELUDE
    + """\
extern "C" __global__ THREADS(256) void gemm(const _Float16* __restrict__ a, const _Float16* __restrict__ bt,
                                             float* __restrict__ c, int n, int k) {
  __shared__ half8 a_s[128 * 4], b_s[128 * 4];
  unsigned t = __builtin_amdgcn_workitem_id_x(), lane = t & 63, wave = t >> 6;
  unsigned row0 = __builtin_amdgcn_workgroup_id_y() * 128, column0 = __builtin_amdgcn_workgroup_id_x() * 128;
  float16v sum[2][2] = {};
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int part = 0; part < 2; part++) {
      unsigned chunk = part * 256 + t, row = chunk >> 2, column = chunk & 3;
      a_s[row * 4 + (column ^ (row & 3))] = *(const half8*)(a + (row0 + row) * k + k0 + column * 8);
      b_s[row * 4 + (column ^ (row & 3))] = *(const half8*)(bt + (column0 + row) * k + k0 + column * 8);
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    for (int step = 0; step < 4; step++) {
      half4 x[2], y[2];
      for (int m = 0; m < 2; m++) {
        unsigned row = (wave >> 1) * 64 + m * 32 + (lane & 31), column = (wave & 1) * 64 + m * 32 + (lane & 31);
        x[m] = ((const half4*)a_s)[(row * 4 + (step ^ (row & 3))) * 2 + (lane >> 5)];
        y[m] = ((const half4*)b_s)[(column * 4 + (step ^ (column & 3))) * 2 + (lane >> 5)];
      }
      for (int m = 0; m < 2; m++)
        for (int j = 0; j < 2; j++) sum[m][j] = __builtin_amdgcn_mfma_f32_32x32x8f16(x[m], y[j], sum[m][j], 0, 0, 0);
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  for (int m = 0; m < 2; m++)
    for (int j = 0; j < 2; j++)
      for (int v = 0; v < 16; v++) {
        unsigned row = row0 + (wave >> 1) * 64 + m * 32 + 8 * (v >> 2) + 4 * (lane >> 5) + (v & 3);
        c[row * n + column0 + (wave & 1) * 64 + j * 32 + (lane & 31)] = sum[m][j][v];
      }
}
"""
)

# more values than registers, all of them live across a barrier
SPILLING = (
    PRELUDE
    + """\
extern "C" __global__ THREADS(1024) void spilling(float* __restrict__ x) {
  unsigned t = __builtin_amdgcn_workitem_id_x();
  float held[160];
#pragma unroll
  for (int i = 0; i < 160; i++) held[i] = x[i * 1024 + t];
  asm volatile("" ::: "memory");
#pragma unroll
  for (int i = 0; i < 160; i++) x[(159 - i) * 1024 + t] = held[i] * held[(i + 80) % 160];
}
"""
)

# tiles of A and B go to LDS without registers, one tile ahead; each wave fills a quarter of a tile
DIRECT = (
    PRELUDE
    + """\
typedef float float4v __attribute__((ext_vector_type(4)));
static __device__ inline void load(const void* from, void* to) {
  auto address = (unsigned)(unsigned long)(__attribute__((address_space(3))) void*)to;
  asm volatile("s_mov_b32 m0, %0\\n\\ts_nop 0\\n\\tglobal_load_lds_dwordx4 %1, off"
               : : "s"(__builtin_amdgcn_readfirstlane(address)), "v"(from) : "memory");
}
static __device__ inline void meet() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
extern "C" __global__ THREADS(256) void direct(const half8* __restrict__ a, const half8* __restrict__ b,
                                               float4v* __restrict__ c, int tiles) {
  __shared__ half8 tile[2][2][256];
  unsigned t = __builtin_amdgcn_workitem_id_x(), wave = __builtin_amdgcn_readfirstlane(t >> 6);
  load(a + t, &tile[0][0][wave * 64]);
  load(b + t, &tile[0][1][wave * 64]);
  float4v sum = {};
  for (int k = 0; k < tiles; k++) {
    if (k + 1 < tiles) {
      load(a + (k + 1) * 256 + t, &tile[(k + 1) & 1][0][wave * 64]);
      load(b + (k + 1) * 256 + t, &tile[(k + 1) & 1][1][wave * 64]);
      asm volatile("s_waitcnt vmcnt(2)" ::: "memory");
    } else {
      asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
    }
    meet();
    half8 x = tile[k & 1][0][(t * 5) & 255], y = tile[k & 1][1][255 - t];
    sum = __builtin_amdgcn_mfma_f32_16x16x32_f16(x, y, sum, 0, 0, 0);
    asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory");
    meet();
  }
  c[t] = sum;
}
"""
)


def source(text: str, entry: str, *, threads: int = 256, shared_bytes: int = 0, has_user_code: bool = False) -> Source:
    """The source of one kernel."""
    launch = DeviceLaunch(entry, ("1",), (threads, 1, 1), shared_bytes, (1, 1, 1), ())
    return Source("hip", text, entry, launches=(launch,), has_user_code=has_user_code)
