from collections.abc import Callable

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.quantize import (
    _tir_packed_int_to_int_convert,
    _tir_packed_to_fp4_to_f16,
    _tir_packed_to_signed_convert,
    _tir_packed_to_unsigned_convert,
    _tir_packed_to_unsigned_convert_with_zeros,
)

WORDS = np.arange(256, dtype=np.uint8)


def unpacked(convert: Callable[..., object], nbit: int, dtype: str, storage: str = "uint8") -> np.ndarray:
    """All values of all bytes, on the CPU target and as the reference says."""
    each = 8 // nbit

    @T.prim_func
    def main(A: T.Tensor((256,), storage), B: T.Tensor((256, each), dtype)):
        with T.Kernel(1, threads=256):
            for i, j in T.Parallel(256, each):
                B[i, j] = convert(nbit, A[i], j, dtype)

    results = []
    for backend in ("reference", "cc"):
        results.append(np.zeros((256, each), dtype))
        tilelang.compile(main, target="cpu", execution_backend=backend)(WORDS.view(storage), results[-1])
    assert results[0].tolist() == results[1].tolist()
    return results[0]


def fields(nbit: int) -> np.ndarray:
    shifts = np.arange(0, 8, nbit)
    found: np.ndarray = (WORDS[:, None].astype(np.int32) >> shifts) & ((1 << nbit) - 1)
    return found


@pytest.mark.parametrize(("nbit", "kind"), [(4, "uint"), (2, "int"), (1, "uint")])
def test_unsigned_values_are_extracted(nbit: int, kind: str) -> None:
    convert = _tir_packed_to_unsigned_convert(kind, 8)
    assert fields(nbit).tolist() == unpacked(convert, nbit, "float16", f"{kind}8").tolist()


def test_signed_values_are_stored_with_half_their_range_added() -> None:
    assert (fields(4) - 8).tolist() == unpacked(_tir_packed_to_signed_convert("uint", 8), 4, "float16").tolist()


def test_integers_in_two_s_complement_keep_their_sign() -> None:
    expected = np.where(fields(4) > 7, fields(4) - 16, fields(4))
    assert expected.tolist() == unpacked(_tir_packed_int_to_int_convert("int", 8), 4, "int8", "int8").tolist()


def test_floats_of_a_sign_and_three_bits_of_exponent() -> None:
    exponent = fields(4) & 7
    expected = np.where(exponent == 0, 0.0, 2.0 ** (exponent - 7) * np.where(fields(4) > 7, -1, 1))
    assert expected.tolist() == unpacked(_tir_packed_to_fp4_to_f16("uint", 8), 4, "float16").tolist()


def test_a_zero_point_is_subtracted_in_the_result_s_dtype() -> None:
    plain = _tir_packed_to_unsigned_convert_with_zeros("uint", 8)
    found = unpacked(lambda nbit, word, pos, dtype: plain(nbit, word, pos, 3, dtype), 4, "float16")
    assert (fields(4) - 3).tolist() == found.tolist()


def test_a_word_of_another_dtype_is_an_error() -> None:
    with pytest.raises(AssertionError, match="the words are int32, but the storage is uint8"):
        _tir_packed_to_unsigned_convert("uint", 8)(4, T.int32(), 0, "float16")
    with pytest.raises(AssertionError, match="values of 4 bits become float16, given 2 bits and float32"):
        _tir_packed_to_fp4_to_f16()(2, T.uint8(), 0, "float32")
