"""Operands whose rows are no multiples of 16 bytes are copied to rows that are."""

from pathlib import Path

import level1_programs as graphs
import numpy as np
import pytest

from tilelang.level1.aligned_operands import with_aligned_operands
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Graph


def copies(graph: Graph) -> list[tuple[str, tuple[int, ...] | None]]:
    return [(array.name, array.static_shape) for array in with_aligned_operands(graph, fused_kernels(graph))[1]]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((300, 300, 301), [("a_aligned", (300, 304)), ("b_aligned", (301, 304))]),
        ((300, 304, 301), [("a_aligned", (300, 304))]),
        ((304, 303, 304), [("b_aligned", (304, 304))]),
        ((304, 304, 304), []),
        ((40, 301, 301), []),  # reads columns too seldom
    ],
)
def test_operands(shape: tuple[int, int, int], expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert expected == copies(graphs.matmul(*shape))


def test_a_program_computes_the_same(tmp_path: Path) -> None:
    m, n, k = 257, 260, 33
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    bias = np.zeros(n, np.float16)
    found = graphs.run(graphs.matmul(m, n, k), (a, b, bias), tmp_path, "cuda", "simulator")
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=2e-2)
