import pytest

from tilelang.targets.nvidia.codegen.cuda_headers import needed_headers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__device__ float f(float x) { return 2 * x; }", ""),
        ("__host__ __device__ half_t f(half_t x) { return x; }  // no __half here", ""),
        ('asm("cvt.rn.f16.f32 %0, %1; /* half */" : "=h"(a) : "f"(b)); int halfway, hexa;', ""),
        ("unsigned short f(float x) { return __half_as_ushort(__float2half_rz(x)); }", "fp16"),
        ("half2 f(half a) { return __halves2half2(a, a); }", "fp16"),
        ("auto x = __hfma2(a, b, c);", "fp16"),
        ("x = hexp2(y); z = h2sqrt(y);", "fp16"),
        ("x = __low2float(y);", "fp16"),
        ("__nv_bfloat16 x = __float2bfloat16_rn(y);", "bf16"),
        ("__nv_bfloat162 x; half y;", "fp16 bf16"),
        ("__nv_fp8_e4m3 q(x); r = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);", "fp8"),
        ("__nv_fp8x4_e5m2 q; __half_raw h = __nv_cvt_fp8_to_halfraw(a, __NV_E5M2);", "fp16 fp8"),
        ("__nv_fp4x2_e2m1 q; __nv_fp6_e3m2 r;", "fp6 fp4"),
    ],
)
def test_headers_follow_from_the_names_in_a_text(text: str, expected: str) -> None:
    assert tuple(f"cuda_{name}.h" for name in expected.split()) == needed_headers(text)


def test_short_names_of_integers_are_the_hosts() -> None:
    assert ("sys/types.h",) == needed_headers("uint a = 1; ushort b;")
    assert () == needed_headers("uint4 a; uint32_t b; unsigned c;")
