"""Every matrix instruction of a warp on a GPU against its meaning: twice in a loop, with a conditional clear."""

import numpy as np
import pytest
from device_launch import GPUS, Module, architecture, needs_gpu
from device_text import cuda_source
from warp_registers import WarpOfRegisters, gather

from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.mma import ATOMS
from tilelang.targets.nvidia.isa.types import BITS, INTEGERS
from tilelang.targets.target import Target

pytestmark = needs_gpu

HERE = [atom for atom in ATOMS if GPUS and Target("cuda", architecture()).has(atom.needs)]
STEPS = 3
CLEARED = {"never": "false", "first": "k == 0", "second": "k == 1", "by lane": "threadIdx.x % 2 == k"}


def kernel(atom, number, condition):
    """Three products in a row; the sums are cleared where a condition says so, and stored after each."""

    def registers(layout, dtype):
        kind = {64: "double"}.get(dtype.bits, "float" if dtype == "float32" else "unsigned")
        return kind, max(1, layout.values * dtype.storage_bytes // (8 if dtype.bits == 64 else 4))

    (kc, nc), (ka, na), (kb, nb) = (
        registers(atom.c, atom.c_dtype), registers(atom.a, atom.a_dtype), registers(atom.b, atom.b_dtype)
    )  # fmt: skip
    call = mma(atom).texts["cuda"].format("c", "a", "b")
    return f"""\
extern "C" __global__ void k{number}(const {kc}* C, const {ka}* A, const {kb}* B, {kc}* out) {{
    const int t = threadIdx.x;
    {kc} c[{nc}];
    for (int v = 0; v < {nc}; ++v) c[v] = C[t * {nc} + v];
#pragma unroll 1
    for (int k = 0; k < {STEPS}; ++k) {{
        {ka} a[{na}];
        {kb} b[{nb}];
        for (int v = 0; v < {na}; ++v) a[v] = A[(k * 32 + t) * {na} + v];
        for (int v = 0; v < {nb}; ++v) b[v] = B[(k * 32 + t) * {nb} + v];
        if ({condition}) {{
            for (int v = 0; v < {nc}; ++v) c[v] = 0;
        }}
        {call};
        for (int v = 0; v < {nc}; ++v) out[(k * 32 + t) * {nc} + v] = c[v];
    }}
}}
"""


def source(atoms):
    helpers = [INTEGERS, BITS, *(mma(atom).helpers["cuda"] for atom in atoms)]
    texts = [
        kernel(atom, f"{n}_{m}", condition) for n, atom in enumerate(atoms) for m, condition in enumerate(CLEARED.values())
    ]
    return cuda_source(helpers, texts)


@pytest.fixture(scope="module")
def module():
    return Module(source(HERE))


@pytest.mark.parametrize("cleared", CLEARED)
@pytest.mark.parametrize("atom", HERE, ids=lambda atom: atom.name)
def test_products_in_a_row_add_up_as_the_meaning_says(module, atom, cleared):
    m, n, k = atom.shape
    rng = np.random.default_rng(0)

    def draw(shape, dtype):
        return rng.integers(0 if str(dtype).startswith("uint") else -4, 5, shape).astype(dtype.numpy)

    first = gather(draw((m, n), atom.c_dtype), atom.c)
    lefts = [gather(draw((m, k), atom.a_dtype), atom.a) for _ in range(STEPS)]
    rights = [gather(draw((n, k), atom.b_dtype), atom.b) for _ in range(STEPS)]
    warp, expected = WarpOfRegisters(), []
    sums = warp.registers(atom.c_dtype, first)
    for step, (left, right) in enumerate(zip(lefts, rights, strict=True)):
        lanes = {"never": [], "first": range(32 * (step == 0)), "second": range(32 * (step == 1))}
        warp.values(sums)[list(lanes.get(cleared, [lane for lane in range(32) if lane % 2 == step]))] = 0
        operands = warp.registers(atom.a_dtype, left), warp.registers(atom.b_dtype, right)
        mma(atom).simulate(warp, sums, *operands)
        expected.append(warp.values(sums).copy())
    bits = [np.ascontiguousarray(np.stack(arrays)).view(np.uint8) for arrays in ([first], lefts, rights, expected)]
    result = np.zeros_like(bits[3])
    module.run(f"k{HERE.index(atom)}_{list(CLEARED).index(cleared)}", *bits[:3], result)
    np.testing.assert_array_equal(np.stack(expected).astype(np.float64), result.view(expected[0].dtype).astype(np.float64))
