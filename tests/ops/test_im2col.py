"""`T.c2d_im2col` against the loops of its definition."""

import itertools

import numpy as np
import pytest

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import as_expr
from tilelang.ops.im2col import Im2Col


def patches(image, kernel, stride, dilation, pad):
    """The whole im2col matrix, one element at a time."""
    batch, height, width, channels = image.shape
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    reach = dilation * (kernel - 1) + 1
    rows = []
    for n, top, left in itertools.product(
        range(batch), range(0, height + 2 * pad - reach + 1, stride), range(0, width + 2 * pad - reach + 1, stride)
    ):
        window = padded[n, top : top + reach : dilation, left : left + reach : dilation, :]
        rows.append(window.reshape(-1))
    return np.array(rows).reshape(len(rows), kernel * kernel * channels)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pad"), [(1, 1, 1, 0), (3, 1, 1, 1), (3, 2, 1, 0), (2, 1, 3, 2), (3, 2, 2, 3)]
)
def test_tiles_cover_the_matrix_and_are_zero_beyond_it(ops, kernel, stride, dilation, pad):
    image = np.random.default_rng(2).integers(1, 9, (2, 6, 7, 3)).astype("f")
    matrix = patches(image, kernel, stride, dilation, pad)
    rows, columns = 16, 8
    tall, wide = -(-matrix.shape[0] // rows) + 1, -(-matrix.shape[1] // columns) + 1
    expected = np.zeros((tall * rows, wide * columns), "f")
    expected[: matrix.shape[0], : matrix.shape[1]] = matrix
    source, dst = ops.tile("img", image.shape, scope=Scope.GLOBAL), ops.tile("col", (rows, columns))
    for i, j in itertools.product(range(tall), range(wide)):
        result = np.full((rows, columns), -1, "f")
        op = Im2Col(source, dst, as_expr(i), as_expr(j), kernel, stride, dilation, pad)
        ops.apply(op, {source: image, dst: result})
        np.testing.assert_array_equal(
            expected[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns], result, f"tile {i}, {j}"
        )


def test_a_kernel_larger_than_the_image_gives_zeros(ops):
    source, dst = ops.tile("img", (1, 2, 2, 1), scope=Scope.GLOBAL), ops.tile("col", (4, 9))
    result = np.ones((4, 9), "f")
    op = Im2Col(source, dst, as_expr(0), as_expr(0), 3, 1, 1, 0)
    ops.apply(op, {source: np.ones((1, 2, 2, 1), "f"), dst: result})
    np.testing.assert_array_equal(np.zeros((4, 9)), result)


def test_it_reads_the_image_and_writes_the_tile(ops):
    op = Im2Col(ops.tile("img", (1, 2, 2, 1)), ops.tile("col", (4, 4)), as_expr(0), as_expr(0), 1, 1, 1, 0)
    assert ((op.src,), (op.dst,)) == (op.reads(), op.writes())


@pytest.mark.parametrize(
    ("image", "col", "kernel", "expected"),
    [
        ((4, 4, 1), (4, 4), 1, r"'img' is \(4, 4, 1\), but an image is \(batch, height, width, channels\)"),
        ((1, 4, 4, 1), (4,), 1, r"'col' is \(4,\), but a tile of two constant extents is needed"),
        ((1, 4, 4, 1), (2, 4, 4), 1, r"'col' is \(2, 4, 4\), but a tile of two dimensions is needed"),
        ((1, 4, 4, 1), (4, 4), 0, "kernel is 0, but at least 1 is needed"),
    ],
)
def test_operands_that_do_not_fit_are_refused(ops, image, col, kernel, expected):
    with pytest.raises(ProgramError, match=f"T.c2d_im2col: {expected}"):
        Im2Col(ops.tile("img", image), ops.tile("col", col), as_expr(0), as_expr(0), kernel, 1, 1, 0).check()
