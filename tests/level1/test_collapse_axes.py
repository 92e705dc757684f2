"""Axes that are neighbors wherever they are read become one."""

from collections.abc import Callable

import numpy as np
import pytest
from array_functions import trace

import tilelang.numpy as tnp
from tilelang.level1.collapse_axes import Reshapes, with_collapsed_axes
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.lower import lower
from tilelang.targets.target import parse_target


def extents(function: Callable[..., object], *shape: int) -> list[int]:
    (kernel,) = fused_kernels(trace(function, np.zeros(shape, np.float32)))
    return [int(repr(extent)) for extent in with_collapsed_axes(kernel, Reshapes()).extents.values()]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: tnp.sum(x, axis=(2, 3)), [4, 5, 42]),
        (lambda x: tnp.sum(x, axis=(1, 2, 3)), [4, 210]),
        (lambda x: tnp.var(x, axis=(0, 2, 3)), [5, 4, 42]),
        (lambda x: tnp.sum(x, axis=(1, 3)), [4, 6, 5, 7]),
        (lambda x: tnp.sum(x[:, :, :, :5], axis=(2, 3)), [4, 5, 6, 5]),
        (lambda x: tnp.sum(tnp.where(tnp.arange(7) > 2, x, 0), axis=(2, 3)), [4, 5, 6, 7]),
    ],
)
def test_axes(function: Callable[..., object], expected: list[int]) -> None:
    assert sorted(expected) == sorted(extents(function, 4, 5, 6, 7))


def test_a_program_gives_arrays_their_shapes_once() -> None:
    graph = trace(lambda x: (tnp.mean(x, axis=(1, 2, 3)), tnp.var(x, axis=(1, 2, 3))), np.zeros((4, 5, 6, 7), np.float32))
    text = lower(graph, parse_target("cpu")).text
    assert 1 == text.count("= T.reshape(x0, (4, 30, 7))") + text.count("= T.reshape(x0, (4, 5, 42))")
    assert 2 == text.count("T.reshape(")
