"""Tests for tilelang.targets.gpu.sheet_rates."""

import pytest

from tilelang.targets.gpu.sheet_rates import sheet_rates


def test_rates_that_no_data_sheet_states_are_typical() -> None:
    rates = sheet_rates(
        clock=2e9, matrix=1024, multiprocessors=10, lanes=128, special=16, cache_bytes=1 << 20, functions={},
        most_registers=255,
    )  # fmt: skip
    assert (2e9, 1024, 128, 1 << 20) == (rates.clock, rates.matrix, rates.lanes, rates.cache_bytes)
    assert pytest.approx(500e-9) == rates.memory_latency / rates.clock
    assert 0.5 < rates.matrix_by_warp < 1 and 0.5 < rates.memory_share < 1
