"""Functions of cuRAND's generators: a number of Philox by its position, and where XORWOW and MRG32k3a start.

Gives intrinsics of uint64 operands with uint64 values. Invariant: each is a pure function, so that a thread's state is
plain scalars of the program; the meaning, the C++ and the CUDA text agree in every bit.

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
from tilelang.isa.common.random_jumps import (
    MRG_MODULI,
    XORWOW_JUMPS,
    mrg_jumped,
    mrg_matrices,
    xorwow_jumped,
)
from tilelang.isa.intrinsic import Helper, Intrinsic, Spelling
from tilelang.targets.nvidia.isa.types import INTEGERS

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


_PHILOX = """\
// Number `position` of a sequence of Philox4x32-10, of which the seed is the key.
{function} uint64_t tl_philox(uint64_t seed, uint64_t sequence, uint64_t position) {{
    uint32_t a = (uint32_t)(position >> 2), b = (uint32_t)(position >> 34);
    uint32_t c = (uint32_t)sequence, d = (uint32_t)(sequence >> 32);
    uint32_t key = (uint32_t)seed, other = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; ++round) {{
        const uint64_t x = (uint64_t)a * 0xD2511F53u, y = (uint64_t)c * 0xCD9E8D57u;
        a = (uint32_t)(y >> 32) ^ b ^ key;
        b = (uint32_t)y;
        c = (uint32_t)(x >> 32) ^ d ^ other;
        d = (uint32_t)x;
        key += 0x9E3779B9u;
        other += 0xBB67AE85u;
    }}
    return position & 2 ? (position & 1 ? d : c) : (position & 1 ? b : a);
}}
"""


# -- where the others start ----------------------------------------------------------------------------------------
def _xorwow(seed: int, sequence: int, offset: int, pair: int) -> int:
    low, high = seed & 0xFFFFFFFF ^ 0xAAD26B49, seed >> 32 ^ 0xF7DCEFDD
    t, u = low * 1099087573 & 0xFFFFFFFF, high * 2591861531 & 0xFFFFFFFF
    words = [123456789 + t, 362436069 ^ t, 521288629 + u, 88675123 ^ u, 5783321 + t]
    words = xorwow_jumped([word & 0xFFFFFFFF for word in words], offset, sequence)
    words.append((6615241 + t + u + 362437 * offset) & 0xFFFFFFFF)
    return words[2 * pair] | words[2 * pair + 1] << 32


_XORWOW = """\
// Two of the six words that XORWOW starts from: the five of the shift register, then the sum.
{function} uint64_t tl_xorwow(uint64_t seed, uint64_t sequence, uint64_t offset, uint64_t pair) {{
    // Row k: x to the power 2^k, for k of 64 and above 2^(k + 3), modulo the polynomial of the register.
    static const uint32_t jumps[128][5] = {{
{table}
    }};
    const uint32_t t = ((uint32_t)seed ^ 0xAAD26B49u) * 1099087573u;
    const uint32_t u = ((uint32_t)(seed >> 32) ^ 0xF7DCEFDDu) * 2591861531u;
    uint32_t v[6] = {{123456789u + t, 362436069u ^ t, 521288629u + u, 88675123u ^ u, 5783321u + t,
                     6615241u + t + u + 362437u * (uint32_t)offset}};
    for (int row = 0; row < 128; ++row) {{
        if (((row < 64 ? offset >> row : sequence >> (row - 64)) & 1) == 0) continue;
        uint32_t sum[5] = {{0u, 0u, 0u, 0u, 0u}};
        for (int power = 0; power < 160; ++power) {{
            const uint32_t taken = 0u - (jumps[row][power / 32] >> (power % 32) & 1u);
            for (int i = 0; i < 5; ++i) sum[i] ^= v[i] & taken;
            const uint32_t w = v[0] ^ v[0] >> 2;
            for (int i = 0; i < 4; ++i) v[i] = v[i + 1];
            v[4] = v[4] ^ v[4] << 4 ^ w ^ w << 1;
        }}
        for (int i = 0; i < 5; ++i) v[i] = sum[i];
    }}
    return (uint64_t)v[2 * pair + 1] << 32 | v[2 * pair];
}}
"""


def _mrg(seed: int, sequence: int, offset: int, pair: int) -> int:
    x, y = (seed & 0xFFFFFFFF ^ 0x55555555, seed >> 32 ^ 0xAAAAAAAA) if seed else (1, 1)
    states = ([x, y, x], [y, x, y])
    words: list[int] = []
    for part, factors in enumerate(states):
        start = [factor * 12345 % MRG_MODULI[part] for factor in factors]
        words += mrg_jumped(part, start, offset, sequence)
    return words[2 * pair] | words[2 * pair + 1] << 32


_MRG = """\
// A state of one part of MRG32k3a after as many steps as `count` times those that the matrix makes.
{function} void tl_mrg_jump(uint64_t* state, const uint64_t* matrix, uint64_t count, uint64_t modulus) {{
    uint64_t power[9], next[9];
    for (int i = 0; i < 9; ++i) power[i] = matrix[i];
    for (; count != 0; count >>= 1) {{
        if (count & 1) {{
{rolled}            for (int i = 0; i < 3; ++i) {{
                next[i] = 0;
                for (int j = 0; j < 3; ++j) next[i] = (next[i] + power[3 * i + j] * state[j] % modulus) % modulus;
            }}
            for (int i = 0; i < 3; ++i) state[i] = next[i];
        }}
{rolled}        for (int i = 0; i < 9; ++i) {{
            next[i] = 0;
            for (int j = 0; j < 3; ++j)
                next[i] = (next[i] + power[i / 3 * 3 + j] * power[3 * j + i % 3] % modulus) % modulus;
        }}
        for (int i = 0; i < 9; ++i) power[i] = next[i];
    }}
}}
// Two of the six words that MRG32k3a starts from: three of each part.
{function} uint64_t tl_mrg32k3a(uint64_t seed, uint64_t sequence, uint64_t offset, uint64_t pair) {{
    static const uint64_t steps[2][2][9] = {{
{table}
    }};
    const uint64_t moduli[2] = {{{moduli}}};
    const uint64_t x = seed ? (uint32_t)seed ^ 0x55555555u : 1u;
    const uint64_t y = seed ? (uint32_t)(seed >> 32) ^ 0xAAAAAAAAu : 1u;
    uint64_t words[6] = {{x, y, x, y, x, y}};
{rolled}    for (int part = 0; part < 2; ++part) {{
        for (int i = 0; i < 3; ++i) words[3 * part + i] = words[3 * part + i] * 12345 % moduli[part];
        tl_mrg_jump(words + 3 * part, steps[part][0], offset, moduli[part]);
        tl_mrg_jump(words + 3 * part, steps[part][1], sequence, moduli[part]);
    }}
    return words[2 * pair + 1] << 32 | words[2 * pair];
}}
"""


def _xorwow_table() -> str:
    return ",\n".join("        {" + ", ".join(f"0x{word:08X}u" for word in row) + "}" for row in XORWOW_JUMPS)


def _mrg_table() -> str:
    rows = []
    for part in range(2):
        both = ["{" + ", ".join(f"{n}u" for line in matrix for n in line) + "}" for matrix in mrg_matrices(part)]
        rows.append("        {" + ",\n         ".join(both) + "}")
    return ",\n".join(rows)


def _one_by_one(function: Callable[..., int]) -> Callable[..., Any]:
    """A function of Python's integers on NumPy values."""
    return np.vectorize(lambda *operands: np.uint64(function(*map(int, operands))), otypes=[np.uint64])


def _uint64(dtypes: tuple[DType, ...]) -> DType:
    return UINT64


_IN_CUDA = {  # what starts a generator runs once, and would take the compiler long if it were unrolled and inlined
    "function": "static __device__ __noinline__",
    "rolled": "#pragma unroll 1\n",
}


def _intrinsic(name: str, arity: int, meaning: Callable[..., Any], template: str, **parts: str) -> Intrinsic:
    operands = ", ".join(f"(uint64_t)({{{place}}})" for place in range(arity))
    in_cuda = _IN_CUDA if parts else {"function": "__device__ __forceinline__"}
    helpers = {
        "cpp": Helper(
            f"tl_{name}", template.format(function="static inline", rolled="", **parts), headers=("<cstdint>",)
        ),
        "cuda": Helper(f"tl_{name}", template.format(**in_cuda, **parts), (INTEGERS,)),
    }
    spell = {language: {"uint64": Spelling(f"tl_{name}({operands})", helper)} for language, helper in helpers.items()}
    return Intrinsic(name, arity, _uint64, meaning, _uint64, spell)


PHILOX = _intrinsic("philox", 3, _philox, _PHILOX)
"""A number of Philox4x32-10, below 2^32; called with the seed, the sequence and the position."""

XORWOW_START = _intrinsic("xorwow", 4, _one_by_one(_xorwow), _XORWOW, table=_xorwow_table())
"""Two of the six words that XORWOW starts from, the first one below; called with the seed, the sequence, the offset and
which two: 0, 1 or 2."""

MRG32K3A_START = _intrinsic(
    "mrg32k3a",
    4,
    _one_by_one(_mrg),
    _MRG,
    table=_mrg_table(),
    moduli=", ".join(f"{modulus}u" for modulus in MRG_MODULI),
)
"""Two of the six words that MRG32k3a starts from; called as `XORWOW_START`."""
