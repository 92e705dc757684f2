"""The exchange within quads, by the fragments of the manual and by its text, run for all lanes on the host."""

import subprocess

import numpy as np
from cuda_host import COMPILER, needs_compiler
from warp_alone import WarpAlone

from tilelang.dtypes import SCALARS
from tilelang.isa.simulated import Pointer
from tilelang.targets.nvidia.isa.quad_exchange import QUAD_EXCHANGE, VALUES
from tilelang.targets.nvidia.isa.wgmma import atom_of

ATOM = atom_of(*(SCALARS[name] for name in ("float8_e4m3fn", "float8_e4m3fn", "float32")), 8)
LANES = np.arange(32)
MATRIX = np.random.default_rng(0).permutation(16 * 32).reshape(16, 32).astype(np.int16)


def held(fragment):
    """What the lanes of the first warp hold of the matrix. Shape (32, 16)."""
    table = fragment.table[:32]
    return MATRIX[table[..., 0], table[..., 1]]


def exchanged(values):
    warp = WarpAlone()
    sums, operand = warp.buffer("int16", values.ravel()), warp.buffer("int16", np.zeros(32 * VALUES))
    own = LANES * VALUES
    QUAD_EXCHANGE.simulate(warp, Pointer(operand.buffer, own), Pointer(sums.buffer, own))
    return warp.values(operand).reshape(32, VALUES)


def test_sums_become_an_operand():
    assert np.array_equal(held(ATOM.a), exchanged(held(ATOM.a_as_sums)))
    assert not np.array_equal(held(ATOM.a), held(ATOM.a_as_sums))


HOST = """\
#include <cstdint>
#include <cstdio>
static uint32_t words[32][4], made[32][4], now;
// The lanes run one after another: each of the two passes of a shuffle is a function of what all lanes hold.
static uint32_t sent(uint32_t lane, int i, bool second) {{ return words[lane][i + ((lane & 1) ^ second)]; }}
static uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {{
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i) {{
        uint32_t byte = selector >> 4 * i & 7;
        out |= ((byte < 4 ? a >> 8 * byte : b >> 8 * (byte - 4)) & 255) << 8 * i;
    }}
    return out;
}}
static int step, shuffles;
static uint32_t __shfl_sync(uint32_t, uint32_t own, uint32_t from, int) {{
    bool second = shuffles++ & 1;
    if (own != sent(now, step, second)) printf("another word is sent\\n");
    uint32_t got = sent((now & ~3u) | from, step, second);
    if (second) step = 2 - step;
    return got;
}}
#define __device__
#define __forceinline__ inline
{helper}
int main() {{
    for (auto& lane : words) for (auto& word : lane) scanf("%u", &word);
    for (now = 0; now < 32; ++now) tl_quad_exchange(made[now], words[now]);
    for (auto& lane : made) for (auto& word : lane) printf("%u ", word);
}}
"""


@needs_compiler
def test_the_text_does_what_the_meaning_says(tmp_path):
    text = QUAD_EXCHANGE.helpers["cuda"].text.replace('asm("mov.u32 %0, %%laneid;" : "=r"(lane));', "lane = now;")
    (tmp_path / "host.cpp").write_text(HOST.format(helper=text))
    subprocess.run([COMPILER, "-O1", "-o", tmp_path / "host", tmp_path / "host.cpp"], check=True)
    values = np.random.default_rng(1).integers(0, 256, (32, VALUES)).astype(np.uint8)
    words = " ".join(map(str, values.view(np.uint32).ravel()))
    made = subprocess.run([tmp_path / "host"], input=words, capture_output=True, text=True, check=True).stdout
    want = exchanged(values.astype(np.int16)).astype(np.uint8)
    assert np.array_equal(want, np.array(made.split(), np.uint32).view(np.uint8).reshape(32, VALUES))
