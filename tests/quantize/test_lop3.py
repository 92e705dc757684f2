import ctypes
import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cpp import COMPILER, needs_compiler

import tilelang
import tilelang.language as T
from tilelang.quantize import get_lop3_intrin_group

# What the text uses of `cuda_fp16.h`, in float: all values here are small numbers that halves hold exactly.
SHIM = """
#include <cstdint>
#include <cstring>
#define __device__
struct __half {
    float v;
    __half() = default;
    __half(float x) : v(x) {}
};
struct __half2 { __half x, y; };
static __half __ushort_as_half(unsigned bits) {
    int e = (bits >> 10 & 31) - 15; float m = 1 + (bits & 1023) / 1024.0f;
    return __half(__builtin_ldexpf(m, e));
}
static unsigned short __half_as_ushort(__half a) {
    if (a.v == 0) return 0;
    int e; float m = __builtin_frexpf(__builtin_fabsf(a.v), &e);
    return (a.v < 0) << 15 | (e + 14) << 10 | (int)((2 * m - 1) * 1024);
}
static __half __int2half_rn(int a) { return __half((float)a); }
static __half2 __halves2half2(__half a, __half b) { return {a, b}; }
static __half2 __half2half2(__half a) { return {a, a}; }
static __half __low2half(__half2 a) { return a.x; }
static __half __high2half(__half2 a) { return a.y; }
static __half2 __hsub2(__half2 a, __half2 b) { return {a.x.v - b.x.v, a.y.v - b.y.v}; }
static __half2 __hadd2(__half2 a, __half2 b) { return {a.x.v + b.x.v, a.y.v + b.y.v}; }
static __half2 __hmul2(__half2 a, __half2 b) { return {a.x.v * b.x.v, a.y.v * b.y.v}; }
static __half2 __hneg2(__half2 a) { return {-a.x.v, -a.y.v}; }
static __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return __hadd2(__hmul2(a, b), c); }
"""
MODES = [(False, ""), (True, ""), *((True, mode) for mode in ("original", "rescale", "quantized"))]
CASES = [
    (bits, kind, scaled, mode)
    for bits, kind, (scaled, mode) in itertools.product((1, 2, 4), ("int", "uint"), MODES)
    if not (kind == "int" and mode)
]


def group(bits: int, kind: str, scaled: bool, mode: str) -> dict[str, str]:
    return get_lop3_intrin_group("float16", kind, bits, "int8", scaled, bool(mode), mode or "original")


def interleaved(values: np.ndarray, bits: int) -> np.ndarray:
    """Eight values as bytes: value 2i in field i of the lower half, value 2i + 1 in field i of the upper half."""
    order = [*values[::2], *values[1::2]]
    word = sum(int(value) << (bits * place) for place, value in enumerate(order))
    return np.frombuffer(word.to_bytes(bits, "little"), np.uint8)


@needs_compiler
def test_eight_values_are_decoded_by_every_function(tmp_path: Path) -> None:
    lines = [SHIM]
    for number, case in enumerate(CASES):
        found = group(*case)
        lines.append(found["c_source"])
        extra = ", scale" * case[2] + ", zeros" * bool(case[3])
        lines.append(
            f'extern "C" void f{number}(unsigned char* p, short* d, short* scale, short* zeros) '
            f"{{ {found['func_name']}(p, d{extra}); }}"
        )
    source, library = tmp_path / "decode.cpp", tmp_path / "decode.so"
    source.write_text("\n".join(lines))
    subprocess.run([str(COMPILER), "-std=c++17", "-w", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    decode = ctypes.CDLL(str(library))
    rng = np.random.default_rng(5)
    scale, zero, integer = np.array([0.5], np.float16), np.array([3.0], np.float16), np.array([3], np.int16)
    for number, (bits, kind, scaled, mode) in enumerate(CASES):
        fields = rng.integers(0, 1 << bits, 8)
        out = np.zeros(8, np.float16)
        packed = interleaved(fields, bits).copy()
        arrays = (packed, out, scale, integer if mode == "quantized" else zero)
        getattr(decode, f"f{number}")(*(ctypes.c_void_p(array.ctypes.data) for array in arrays))
        values = fields if kind == "uint" else 2 * fields - 1 if bits == 1 else fields - (1 << (bits - 1))
        expected = values * 0.5 if scaled else values * 1.0
        expected = expected - 3 if mode == "rescale" else expected - 1.5 if mode else expected
        assert expected.tolist() == out.tolist()


def test_a_kernel_with_a_decoder_compiles_for_a_gpu() -> None:
    decoder = get_lop3_intrin_group(T.float16, "uint", 4, with_scaling=True, with_zeros=True)

    @T.prim_func
    def main(A: T.Tensor((4,), "uint8"), S: T.Tensor((2,), "float16"), B: T.Tensor((8,), "float16")):
        with T.Kernel(1, threads=1):
            T.import_source(decoder["c_source"])
            packed, halves = T.alloc_local((4,), "uint8"), T.alloc_local((8,), "float16")
            for i in T.serial(4):
                packed[i] = A[i]
            T.call_extern(
                "handle", decoder["func_name"], T.access_ptr(packed, "r"), T.access_ptr(halves, "w"),
                T.address_of(S[0]), T.address_of(S[1]),
            )  # fmt: skip
            for i in T.serial(8):
                B[i] = halves[i]

    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"})
    assert "decode_i4u_to_f16_scale_zeros_original(" in kernel.get_kernel_source()


def test_unsupported_formats_are_errors() -> None:
    with pytest.raises(ValueError, match="zero points are for unsigned values with a scale"):
        group(4, "int", True, "original")
    with pytest.raises(ValueError, match="unknown source_format 'float'"):
        get_lop3_intrin_group("float16", "float")
    with pytest.raises(ValueError, match="unknown zeros_mode 'middle'"):
        get_lop3_intrin_group("float16", zeros_mode="middle")
    with pytest.raises(NotImplementedError, match="values of 4 bits in scope 'local' to int8"):
        get_lop3_intrin_group("int8")
    with pytest.raises(NotImplementedError, match="values of 3 bits in scope 'local' to float16"):
        get_lop3_intrin_group("float16", "uint", 3)
