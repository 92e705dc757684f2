"""The functions of `isa.common.random` as C text, for all languages of the C family.

Source: as of `isa.common.random`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.isa.common.random_jumps import MRG_MODULI, XORWOW_JUMPS, mrg_matrices
from tilelang.isa.intrinsic import Helper, Template

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


def random_texts(
    function: str,
    start_function: str,
    rolled: str = "",
    needs: tuple[Helper, ...] = (),
    headers: tuple[str, ...] = (),
) -> Mapping[str, Mapping[str, Template]]:
    """The texts by name of the intrinsic, then by compute dtype.

    Args:
        function: Qualifiers of functions.
        start_function: Qualifiers of functions that start a generator, which run once.
        rolled: The pragma against unrolling of the following loop.
        needs: Helpers that define `uint32_t` and `uint64_t`, if not `headers`.
        headers: Headers that define them.
    """
    moduli = ", ".join(f"{modulus}u" for modulus in MRG_MODULI)
    texts = {
        "philox": (3, _PHILOX.format(function=function)),
        "xorwow": (4, _XORWOW.format(function=start_function, table=_xorwow_table())),
        "mrg32k3a": (4, _MRG.format(function=start_function, rolled=rolled, table=_mrg_table(), moduli=moduli)),
    }
    return {name: _template(name, arity, text, needs, headers) for name, (arity, text) in texts.items()}


def _template(
    name: str, arity: int, text: str, needs: tuple[Helper, ...], headers: tuple[str, ...]
) -> Mapping[str, Template]:
    operands = ", ".join(f"(uint64_t)({{{number}}})" for number in range(arity))
    return {"uint64": Template(f"tl_{name}({operands})", Helper(f"tl_{name}", text, needs, headers))}


def _xorwow_table() -> str:
    return ",\n".join("        {" + ", ".join(f"0x{word:08X}u" for word in row) + "}" for row in XORWOW_JUMPS)


def _mrg_table() -> str:
    rows = []
    for part in range(2):
        both = ["{" + ", ".join(f"{n}u" for line in matrix for n in line) + "}" for matrix in mrg_matrices(part)]
        rows.append("        {" + ",\n         ".join(both) + "}")
    return ",\n".join(rows)
