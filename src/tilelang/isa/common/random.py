"""Functions of cuRAND's generators: a number of Philox by its position, and where XORWOW and MRG32k3a start.

Gives intrinsics of uint64 operands with uint64 values. Invariant: each is a pure function, so that a thread's state is
plain scalars of the program; the meaning and the text of each target agree in every bit.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011), for Philox4x32-10; Marsaglia, Xorshift
RNGs (J. Stat. Software 8, 2003), section 3.1, for XORWOW; L'Ecuyer, Good Parameters and Implementations for Combined
Multiple Recursive Random Number Generators (Operations Research 47, 1999) for MRG32k3a; cuRAND, "Device API Overview"
and curand_kernel.h, curand_init, for how seeds, sequences and offsets choose a state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import DType, as_dtype
from tilelang.isa.common.random_jumps import MRG_MODULI, mrg_jumped, xorwow_jumped
from tilelang.isa.intrinsic import Intrinsic

UINT64 = as_dtype("uint64")
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


# -- Philox4x32-10 -------------------------------------------------------------------------------------------------
def _philox(seed: Any, sequence: Any, position: Any) -> Any:
    seed, sequence, position = np.broadcast_arrays(*(np.asarray(v, np.uint64) for v in (seed, sequence, position)))
    block = position >> np.uint64(2)
    words = philox_block(
        (block & _LOW, block >> _HALF, sequence & _LOW, sequence >> _HALF), (seed & _LOW, seed >> _HALF)
    )
    return np.choose((position & np.uint64(3)).astype(np.int64), words)[()]


def philox_block(counter: Sequence[Any], key: Sequence[Any]) -> list[Any]:
    """The four words that Philox4x32-10 makes of four, with a key of two; arrays of uint64, whose upper half is 0."""
    words, keys = list(counter), list(key)
    for _ in range(10):
        x, y = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(y >> _HALF) ^ words[1] ^ keys[0], y & _LOW, (x >> _HALF) ^ words[3] ^ keys[1], x & _LOW]
        keys = [key + np.uint64(step) & _LOW for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return words


# -- where the others start ----------------------------------------------------------------------------------------
def _xorwow(seed: int, sequence: int, offset: int, pair: int) -> int:
    low, high = seed & 0xFFFFFFFF ^ 0xAAD26B49, seed >> 32 ^ 0xF7DCEFDD
    t, u = low * 1099087573 & 0xFFFFFFFF, high * 2591861531 & 0xFFFFFFFF
    words = [123456789 + t, 362436069 ^ t, 521288629 + u, 88675123 ^ u, 5783321 + t]
    words = xorwow_jumped([word & 0xFFFFFFFF for word in words], offset, sequence)
    words.append((6615241 + t + u + 362437 * offset) & 0xFFFFFFFF)
    return words[2 * pair] | words[2 * pair + 1] << 32


def _mrg(seed: int, sequence: int, offset: int, pair: int) -> int:
    x, y = (seed & 0xFFFFFFFF ^ 0x55555555, seed >> 32 ^ 0xAAAAAAAA) if seed else (1, 1)
    states = ([x, y, x], [y, x, y])
    words: list[int] = []
    for part, factors in enumerate(states):
        start = [factor * 12345 % MRG_MODULI[part] for factor in factors]
        words += mrg_jumped(part, start, offset, sequence)
    return words[2 * pair] | words[2 * pair + 1] << 32


def _one_by_one(function: Callable[..., int]) -> Callable[..., Any]:
    """A function of Python integers, applied elementwise to NumPy values."""
    return np.vectorize(lambda *operands: np.uint64(function(*map(int, operands))), otypes=[np.uint64])


def _uint64(dtypes: tuple[DType, ...]) -> DType:
    return UINT64


PHILOX = Intrinsic("philox", 3, _uint64, _philox, _uint64)
"""A number of Philox4x32-10, below 2^32; called with the seed, the sequence and the position."""

XORWOW_START = Intrinsic("xorwow", 4, _uint64, _one_by_one(_xorwow), _uint64)
"""Two of the six words that XORWOW starts from, the first one below; called with the seed, the sequence, the offset and
which two: 0, 1 or 2."""

MRG32K3A_START = Intrinsic("mrg32k3a", 4, _uint64, _one_by_one(_mrg), _uint64)
"""Two of the six words that MRG32k3a starts from; called as `XORWOW_START`."""
