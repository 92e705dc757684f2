"""Pairs of float16: what intrinsics mean, and that their texts compile."""

import numpy as np
import pytest

from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Call, Const, Load, cast, const
from tilelang.ir.scalar import BinaryOp
from tilelang.targets.nvidia.isa.half2 import (
    HALF2,
    PAIRED,
    byte_of_fields,
    fields_of_word,
    half2_of_fields,
    pair_bits,
)


def pairs(low, high):
    return np.asarray(low, np.float16).view(np.uint16) | np.asarray(high, np.float16).view(np.uint16).astype(np.uint32) << 16


def value_of(call):
    return call.callee.meaning(*(np.uint32(arg.value) for arg in call.args))


@pytest.mark.parametrize(("op", "function"), [(BinaryOp.ADD, np.add), (BinaryOp.SUB, np.subtract), (BinaryOp.MUL, np.multiply)])
def test_arithmetic_is_that_of_each_half(op, function):
    rng = np.random.default_rng(0)
    a, b, c, d = (rng.standard_normal(64) * 10.0 ** rng.integers(-7, 5, 64) for _ in range(4))
    a, b, c, d = (x.astype(np.float16) for x in (a, b, c, d))
    a[0] = np.nan
    with np.errstate(all="ignore"):
        expected = pairs(function(a, c), function(b, d))
    np.testing.assert_array_equal(expected, PAIRED[op].meaning(pairs(a, b), pairs(c, d)))


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_fields_are_exact_wherever_they_stand_in_a_byte(bits):
    rng = np.random.default_rng(bits)
    for shifts in ((0, 8 - bits), (24, 16), (8 - bits, 0), (16 + 8 - bits, 8)):
        for plus in (0, -8, 1, 1 - (1 << bits), 1024):
            word = int(rng.integers(1 << 32))
            low, high = ((word >> shift & (1 << bits) - 1) + plus for shift in shifts)
            call = half2_of_fields(Const(word, SCALARS["uint32"]), shifts, bits, plus)
            assert pair_bits(low, high) == int(value_of(call)), (word, shifts, plus)


@pytest.mark.parametrize("byte", range(4))
def test_fields_of_a_byte_may_be_taken_from_a_word_that_holds_it(byte):
    load = Load(Buffer("x", (const(8, INT32),), SCALARS["uint8"], Scope.SHARED), (const(0, INT32),), SCALARS["uint8"])
    fields = half2_of_fields(cast(load, SCALARS["uint32"]), (4, 0), 4, -8)
    assert byte_of_fields(fields) is load
    call = fields_of_word(fields, Const(0x83A4_C51E, SCALARS["uint32"]), const(byte, INT32))
    number = 0x83A4_C51E >> 8 * byte & 0xFF
    call = Call(call.callee, tuple(Const(evaluate(arg, {}), SCALARS["uint32"]) for arg in call.args), call.dtype)
    assert pair_bits((number >> 4) - 8, (number & 15) - 8) == int(value_of(call))


def test_words_and_other_intrinsics_are_no_byte_of_fields():
    word = Const(0, SCALARS["uint32"])
    assert byte_of_fields(half2_of_fields(word, (4, 0), 4, -8)) is None
    assert byte_of_fields(Call(PAIRED[BinaryOp.ADD], (word, word), SCALARS["uint32"])) is None


def test_all_have_texts_for_words():
    names = {PAIRED[op].name for op in PAIRED} | {half2_of_fields(Const(0, INT32), (0, 4), 4, 0).callee.name}
    assert names == set(HALF2)
    assert all(set(texts) == {"uint32"} for texts in HALF2.values())
