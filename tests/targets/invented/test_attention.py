"""Attention forward: two gemms, the second of which reads the result of the first, with running maxima and sums."""

import numpy as np
import pytest
from attention_programs import attention, flash
from invented.isa.matrix import MATRIX_MULTIPLY


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "block_m", "block_n", "threads"), [(2, 64, 64, 128), (1, 64, 32, 256), (1, 128, 64, 256)]
)
def test_flash_attention(check, causal, heads, block_m, block_n, threads):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, 128, 32)).astype(np.float16) for _ in range(3))
    main = flash(heads, 128, 32, block_m, block_n, causal=causal, threads=threads)
    outcome = check(main, q, k, v, np.zeros_like(q), rtol=2e-2, atol=2e-3)
    np.testing.assert_allclose(outcome.arguments[3], attention(q, k, v, causal), rtol=2e-2, atol=4e-3)
    assert 2 == len({call.args[0].buffer for call in outcome.calls(MATRIX_MULTIPLY)})
