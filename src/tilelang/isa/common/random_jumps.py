"""Jumps by many steps of XORWOW and MRG32k3a, on Python integers.

Invariant: both generators are linear, XORWOW over bits and each part of MRG32k3a modulo a prime, so that n steps are
the n-th power of one.

Source: as in `isa.common.random`; sequences are 2^67 steps apart with XORWOW and 2^76 with MRG32k3a, as in cuRAND's
"Device API Overview".
"""

from __future__ import annotations

from collections.abc import Sequence

_BITS = 160  # of XORWOW's register: five words
_MASK = 0xFFFFFFFF
_XORWOW_SEQUENCE_BITS = 67
MRG_SEQUENCE_BITS = 76
MRG_MODULI = (4294967087, 4294944443)
# of each part: what the words three, two and one steps ago are multiplied by
MRG_FACTORS = ((MRG_MODULI[0] - 810728, 1403580, 0), (MRG_MODULI[1] - 1370589, 0, 527612))

Matrix = tuple[tuple[int, ...], ...]


# -- XORWOW --------------------------------------------------------------------------------------------------------
def _step(words: list[int]) -> list[int]:
    first, last = words[0] ^ words[0] >> 2, words[4]
    return [*words[1:], last ^ last << 4 & _MASK ^ first ^ first << 1 & _MASK]


def _polynomial() -> int:
    """The polynomial of which one step is a root, bit i for the power i: by the algorithm of Berlekamp and Massey."""
    words, bits = [1, 2, 3, 4, 5], []
    for _ in range(2 * _BITS):
        bits.append(words[0] & 1)
        words = _step(words)
    current, before, length, gap = 1, 1, 0, 1
    history = 0  # bit i: the bit i steps ago
    for exponent, bit in enumerate(bits):
        history = history << 1 | bit
        if (current & history).bit_count() % 2 == 0:
            gap += 1
            continue
        kept, current = current, current ^ before << gap
        if 2 * length <= exponent:
            length, before, gap = exponent + 1 - length, kept, 1
        else:
            gap += 1
    assert length == _BITS
    return int(f"{current:0{_BITS + 1}b}"[::-1], 2)


def _times(a: int, b: int, modulus: int) -> int:
    """The product of two polynomials over bits."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a, b = a << 1, b >> 1
        if a >> _BITS:
            a ^= modulus
    return product


def _jumps() -> tuple[tuple[int, ...], ...]:
    modulus, power, powers = _polynomial(), 2, []
    for _ in range(_XORWOW_SEQUENCE_BITS + 64):
        powers.append(power)
        power = _times(power, power, modulus)
    chosen = (*powers[:64], *powers[_XORWOW_SEQUENCE_BITS:])
    return tuple(tuple(p >> 32 * word & _MASK for word in range(5)) for p in chosen)


XORWOW_JUMPS = _jumps()
"""x to the power 2^k, then to the power 2^(67 + k), each for k from 0 to 63, modulo the polynomial: five words each."""


def xorwow_jumped(words: list[int], offset: int, sequence: int) -> list[int]:
    """The five words of the register after `offset` steps and `sequence` times 2^67."""
    for row, jump in enumerate(XORWOW_JUMPS):
        if not (offset | sequence << 64) >> row & 1:
            continue
        total = [0] * 5
        for power in range(_BITS):
            if jump[power // 32] >> power % 32 & 1:
                total = [a ^ b for a, b in zip(total, words, strict=True)]
            words = _step(words)
        words = total
    return words


# -- MRG32k3a ------------------------------------------------------------------------------------------------------
def _product(a: Sequence[Sequence[int]], b: Sequence[Sequence[int]], modulus: int) -> Matrix:
    columns = list(zip(*b, strict=True))
    return tuple(tuple(sum(x * y for x, y in zip(row, c, strict=True)) % modulus for c in columns) for row in a)


def mrg_matrices(part: int) -> tuple[Matrix, Matrix]:
    """The matrices of one step, and of one sequence, of a part of the generator."""
    step: Matrix = ((0, 1, 0), (0, 0, 1), MRG_FACTORS[part])
    sequence = step
    for _ in range(MRG_SEQUENCE_BITS):
        sequence = _product(sequence, sequence, MRG_MODULI[part])
    return step, sequence


def mrg_jumped(part: int, state: list[int], offset: int, sequence: int) -> list[int]:
    """The three words of a part after `offset` steps and `sequence` times 2^76."""
    modulus = MRG_MODULI[part]
    for matrix, count in zip(mrg_matrices(part), (offset, sequence), strict=True):
        while count:
            if count & 1:
                state = [sum(a * b for a, b in zip(row, state, strict=True)) % modulus for row in matrix]
            matrix, count = _product(matrix, matrix, modulus), count >> 1
    return state
