"""Rows that several passes read stay in shared memory where they fit."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.level1.lower import Lowered

H200 = {"kind": "cuda", "arch": "sm_90a"}


def normalized(x):  # type: ignore[no-untyped-def]
    centered = x - tnp.mean(x, axis=-1, keepdims=True)
    return centered / tnp.sqrt(tnp.mean(centered**2, axis=-1, keepdims=True) + 1e-5)


def lowered(columns: int, dtype: str = "float16", target: object = H200) -> Lowered:
    return tilelang.compute(target=target)(normalized).lower(T.Tensor((200, columns), dtype))


@pytest.mark.parametrize(
    ("columns", "dtype", "kept"),
    [(4096, "float16", 0), (20000, "float16", 1), (40000, "float16", 1), (80000, "float16", 0), (50000, "float32", 0)],
)
def test_two_blocks_have_to_fit(columns: int, dtype: str, kept: int) -> None:
    assert [kept] == [len(each) for each in lowered(columns, dtype).kept]


def test_the_text() -> None:
    text = lowered(32768).text
    assert 'x_row = T.alloc_shared((block_i, T.ceildiv(32768, block_j) * block_j), "float16")' in text
    assert "T.copy(x[bx * block_i, 0], x_row)" in text
    assert "for j_step in T.serial(T.ceildiv(32768, block_j)):" in text
    assert 1 == text.count("x[")
    assert "x_row[i, j_step * block_j + j]" in text
    assert "reference" not in text  # the mean is known when the row is looked at again


def test_a_cpu_has_caches() -> None:
    assert [()] == list(lowered(20000, target="cpu").kept)


def test_rows_that_one_pass_reads_are_not_kept() -> None:
    sums = tilelang.compute(target=H200)(lambda x: tnp.sum(x, axis=1))
    assert [()] == list(sums.lower(T.Tensor((200, 50000), "float16")).kept)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("columns", [16390, 20001])
def test_on_the_simulator(columns: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float16)
    function = tilelang.compute(target=H200, execution_backend="simulator")(normalized)
    assert "x_row" in function.program(x)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(function(x), expected, rtol=2e-3, atol=2e-3)
