"""Operands in boxes: what descriptors and additions tell is where the layout puts each element."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowered_gemm import buffer, constant

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Var, int_const
from tilelang.layout.boxes import Boxes
from tilelang.layout.shared_memory import offsets, padded
from tilelang.targets.nvidia.isa.matrix_descriptor import Operand, encode
from tilelang.targets.nvidia.lowerings.wgmma_operand import Tile


def tile(shape, at, extent, *, transposed=False, unit=64, dtype="float16"):
    region = Region(buffer("t", shape, dtype, Scope.SHARED), tuple(map(constant, at)), tuple(map(constant, extent)))
    rows = extent[-1] if transposed else extent[-2]
    return Tile(region, transposed, rows, unit)


def addresses(found, boxes, row, k, unit):
    """The byte of each element that an instruction reads whose descriptor was moved to a row and k."""
    leading, stride, code = found.distances(boxes)
    operand = Operand(unit, found.region.dtype, found.transposed)
    start = [int_const(index) for index in found.region.start]
    places = offsets(found.layout(boxes)) * found.size
    first = int(places[start[-2], start[-1]])
    moved = first + 16 * int_const(found.chunks(boxes, constant(row), constant(k)))
    chunks = operand.chunks(encode(moved, leading, stride, {0: 0, 1: 128, 2: 64, 3: 32}[code]))
    lines = (chunks[..., None] + np.arange(0, 16, found.size)).reshape(len(chunks), -1)
    return (lines.T if found.transposed else lines), places, start


@st.composite
def tiles(draw):
    dtype = draw(st.sampled_from(["float16", "tfloat32", "int8"]))
    transposed = dtype == "float16" and draw(st.booleans())
    size = as_dtype(dtype).storage_bytes
    step, unit = 32 // size, draw(st.sampled_from([8, 24, 64]))
    depth, rows = step * draw(st.integers(1, 3)), unit * draw(st.integers(1, 3))
    extent = (depth, rows) if transposed else (rows, depth)
    at = 8 * draw(st.integers(0, 3)), draw(st.sampled_from([0, 16 // size, 32 // size, 64 // size, 128 // size]))
    margin = 8 * draw(st.integers(0, 2)), 16 // size * draw(st.integers(0, 5))
    shape = tuple(a + e + m for a, e, m in zip(at, extent, margin, strict=True))
    return tile(shape, at, extent, transposed=transposed, unit=unit, dtype=dtype)


@given(tiles())
def test_every_instruction_finds_its_elements(found):
    step = 32 // found.size
    depth = int_const(found.region.extent[-2 if found.transposed else -1])
    for boxes in found.candidates():
        for row in range(0, found.rows, found.unit):
            for k in range(0, depth, step):
                read, places, (line, column) = addresses(found, boxes, row, k, found.unit)
                if found.transposed:
                    part = places[line + k : line + k + step, column + row : column + row + found.unit].T
                else:
                    part = places[line + row : line + row + found.unit, column + k : column + k + step]
                np.testing.assert_array_equal(part, read)


def test_the_widest_boxes_come_first():
    wide = tile((64, 128), (0, 0), (64, 128))
    assert [Boxes(128, 64), Boxes(64, 32), Boxes(32, 16), Boxes(0, 8)] == list(wide.candidates())
    assert [Boxes(0, 8)] == list(tile((64, 24), (0, 0), (64, 16)).candidates())
    assert [] == list(tile((60, 64), (0, 0), (60, 64)).candidates())


def test_rows_that_are_split_begin_at_boxes_or_stay_in_one():
    assert Boxes(64, 32) == next(tile((16, 192), (0, 0), (16, 192), transposed=True, unit=96).candidates())
    assert Boxes(128, 64) == next(tile((16, 128), (0, 0), (16, 128), transposed=True, unit=32).candidates())


@pytest.mark.parametrize(("begin", "widest"), [(64, 128), (32, 128), (16, 128), (8, 0)])
def test_parts_along_k_begin_where_a_step_may(begin, widest):
    assert widest == next(tile((64, 128), (0, begin), (64, 16)).candidates()).mode_bytes


def test_a_start_that_is_no_constant_must_be_a_multiple_for_certain():
    stage = Var("k", INT32, index=True)
    whole = tile((192, 256), (0, 0), (64, 64))
    for start, suits in (
        ((stage * 64, stage * 64), True),
        ((stage * 64, stage * 8), False),
        ((stage, constant(0)), False),
    ):
        moved = Tile(Region(whole.region.buffer, start, whole.region.extent), False, 64, 64)
        assert suits is moved.suits(Boxes(128, 64))


def test_layouts_that_are_no_boxes_do_not_suit():
    found = tile((64, 64), (0, 0), (64, 64))
    assert found.boxes_of(padded((64, 64), 8)) is None
    assert Boxes(128, 64) == found.boxes_of(found.layout(Boxes(128, 64)))
