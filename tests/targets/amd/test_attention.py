"""Attention on AMD's GPUs: the weights stay in the lanes that made them, where an instruction lets them."""

import numpy as np
import pytest
from attention_programs import attention, flash, latent, latent_attention

ARCHES = ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"]


def counted(counters, prefix):
    return sum(count for name, count in counters.instructions.items() if name.startswith(prefix))


@pytest.mark.slow(every=24)
@pytest.mark.parametrize(("block_m", "causal"), [(64, True), (128, False)])
@pytest.mark.parametrize("arch", ARCHES)
def test_flash_attention(check_program, arch, block_m, causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 128, 64)).astype(np.float16) for _ in range(3))
    main = flash(1, 128, 64, block_m, 64, causal=causal, threads=256)
    arguments, counters = check_program(main, q, k, v, np.zeros_like(q), arch=arch, rtol=2e-2, atol=2e-3)
    np.testing.assert_allclose(arguments[3], attention(q, k, v, causal), rtol=2e-2, atol=4e-3)
    assert counted(counters, "tl_wmma" if arch.startswith("gfx1") else "tl_mfma")
    conflicts = {
        (kind, traffic.transactions / traffic.ideal)
        for (kind, _), traffic in counters.lines.items()
        if kind in ("shared load", "shared store") and traffic.extra
    }
    # transposing reads take columns in fours: on gfx950 results of 64 rows are stored by 8 bytes, rows 8 apart in pairs
    assert conflicts == ({("shared store", 2)} if (arch, block_m) == ("gfx950", 64) else set())


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("arch", ARCHES)
def test_multi_head_latent_attention(check_program, arch):
    rng = np.random.default_rng(0)
    shapes = ((64, 128), (64, 32), (96, 128), (96, 32))
    q, q_rope, kv, k_rope = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    main = latent(64, 96, 128, 32, 32)
    arguments, counters = check_program(
        main, q, q_rope, kv, k_rope, np.zeros_like(q), arch=arch, rtol=2e-2, atol=2e-3
    )
    np.testing.assert_allclose(arguments[4], latent_attention(q, q_rope, kv, k_rope), rtol=2e-2, atol=4e-3)
    assert counted(counters, "tl_wmma" if arch.startswith("gfx1") else "tl_mfma")
