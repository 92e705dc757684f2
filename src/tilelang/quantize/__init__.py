"""Values of a few bits packed into words: expressions that take one out, and CUDA C++ that decodes eight at once."""

from tilelang.quantize.lop3 import get_lop3_intrin_group
from tilelang.quantize.packed import (
    _tir_packed_int_to_int_convert,
    _tir_packed_to_fp4_to_f16,
    _tir_packed_to_signed_convert,
    _tir_packed_to_unsigned_convert,
    _tir_packed_to_unsigned_convert_with_zeros,
)

__all__ = [
    "_tir_packed_int_to_int_convert",
    "_tir_packed_to_fp4_to_f16",
    "_tir_packed_to_signed_convert",
    "_tir_packed_to_unsigned_convert",
    "_tir_packed_to_unsigned_convert_with_zeros",
    "get_lop3_intrin_group",
]
