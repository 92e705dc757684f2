"""`T.cumsum` and `T.cummax`: each axis, both directions."""

import math

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError
from tilelang.ops.scan import ScanOp, named_scan


def running(values, op, reverse):
    """The scan of one row in plain Python."""
    rows, total = [], None
    for value in reversed(values) if reverse else values:
        total = value if total is None else total + value if op is ScanOp.SUM else max(total, value)
        rows.append(total)
    return rows[::-1] if reverse else rows


@pytest.mark.parametrize("op", list(ScanOp))
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float64"])
def test_scans_run_along_every_axis_in_both_directions(ops, draw, op, dim, reverse, dtype):
    src, dst = ops.tile("S", (2, 3, 5), dtype), ops.tile("D", (2, 3, 5), dtype)
    values = draw((2, 3, 5), dtype)
    result = np.zeros_like(values)
    expected = np.apply_along_axis(lambda row: running([int(v) for v in row], op, reverse), dim, values.astype("i8"))
    ops.apply(named_scan(op, src, dst, dim, reverse=reverse), {src: values, dst: result})
    np.testing.assert_array_equal(expected, result.astype("d"))


def test_a_scan_may_replace_its_source(ops):
    src = ops.tile("S", (4,), "int32")
    values = np.array([1, 2, 3, 4], np.int32)
    ops.apply(named_scan(ScanOp.SUM, src, src, 0), {src: values})
    assert [1, 3, 6, 10] == values.tolist()


@pytest.mark.parametrize("shape", [(0, 3), (1, 3)])
def test_short_dimensions(ops, shape):
    src, dst = ops.tile("S", shape), ops.tile("D", shape)
    values, result = np.ones(shape, "f"), np.zeros(shape, "f")
    ops.apply(named_scan(ScanOp.SUM, src, dst, 0), {src: values, dst: result})
    np.testing.assert_array_equal(values, result)


def test_nan_propagates_from_its_position(ops):
    src, dst = ops.tile("S", (4,)), ops.tile("D", (4,))
    result = np.zeros(4, "f")
    ops.apply(named_scan(ScanOp.MAX, src, dst, 0), {src: np.array([1, math.nan, 5, 0], "f"), dst: result})
    np.testing.assert_array_equal([1, math.nan, math.nan, math.nan], result)


def test_narrow_floats_run_in_float32(ops):
    src, dst = ops.tile("S", (4096,), "bfloat16"), ops.tile("D", (4096,), "bfloat16")
    storage = as_dtype("bfloat16").numpy
    result = np.zeros(4096, storage)
    ops.apply(named_scan(ScanOp.SUM, src, dst, 0), {src: np.ones(4096, storage), dst: result})
    assert 4096 == float(result[-1])


def test_extents_must_agree(ops):
    with pytest.raises(ProgramError, match=r"T.cumsum: 'S' is \(4, 3\) but 'D' is \(3, 4\)"):
        named_scan(ScanOp.SUM, ops.tile("S", (4, 3)), ops.tile("D", (3, 4)), 0).check()


def test_the_dimension_must_exist(ops):
    with pytest.raises(ProgramError, match=r"T.cummax: 'S' is \(4, 3\) and has no dimension 2"):
        named_scan(ScanOp.MAX, ops.tile("S", (4, 3)), ops.tile("D", (4, 3)), 2).check()


def test_a_scan_reads_one_side_and_writes_the_other(ops):
    scan = named_scan(ScanOp.SUM, ops.tile("S", (4,)), ops.tile("D", (4,)), 0)
    assert (scan.srcs, scan.dsts) == (scan.reads(), scan.writes())
