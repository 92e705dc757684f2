from hypothesis import given
from hypothesis import strategies as st

from tilelang.isa.common.random_jumps import MRG_FACTORS, MRG_MODULI, mrg_jumped, xorwow_jumped

WORD = st.integers(0, 2**32 - 1)
STEPS = st.integers(0, 60)


@given(st.lists(WORD, min_size=5, max_size=5), STEPS)
def test_a_jump_of_xorwow_is_as_many_steps(words, count):
    stepped = list(words)
    for _ in range(count):
        first, last = stepped[0] ^ stepped[0] >> 2, stepped[4]
        stepped = [*stepped[1:], (last ^ last << 4 ^ first ^ first << 1) & 0xFFFFFFFF]
    assert stepped == xorwow_jumped(words, count, 0)


def test_a_sequence_of_xorwow_is_two_to_the_67_steps():
    words = [1, 22, 333, 4444, 55555]
    stepped = words
    for _ in range(16):
        stepped = xorwow_jumped(stepped, 2**63, 0)
    assert stepped == xorwow_jumped(words, 0, 1)


@given(st.lists(st.integers(0, MRG_MODULI[1] - 1), min_size=3, max_size=3), STEPS, st.integers(0, 1))
def test_a_jump_of_mrg32k3a_is_as_many_steps(words, count, part):
    stepped = list(words)
    for _ in range(count):
        newest = sum(a * b for a, b in zip(MRG_FACTORS[part], stepped, strict=True)) % MRG_MODULI[part]
        stepped = [*stepped[1:], newest]
    assert stepped == mrg_jumped(part, words, count, 0)


def test_a_sequence_of_mrg32k3a_is_two_to_the_76_steps():
    words = [1, 22, 333]
    for part in range(2):
        assert mrg_jumped(part, words, 2**76, 0) == mrg_jumped(part, words, 0, 1)
