"""Chunks that are aligned and in one row on both sides."""

import pytest
from thread_kernels import buffer

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.lowering.chunks import chunk_elements
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy


def copy(shape, source, start=(0, 0), dtype="float16"):
    region = Region(buffer("A", source, dtype), tuple(map(as_expr, start)), tuple(map(as_expr, shape)))
    return Copy(region, whole(buffer("S", shape, dtype, Scope.SHARED)))


@pytest.mark.parametrize(
    ("op", "sizes", "elements"),
    [
        (copy((64, 32), (1024, 1024)), (4, 8, 16), 8),
        (copy((64, 32), (1024, 1024)), (4,), 2),
        (copy((64, 32), (1024, 1024), dtype="float32"), (16,), 4),
        (copy((64, 12), (1024, 1024)), (4, 16), 2),
        (copy((64, 12), (1024, 1024)), (16,), 0),
        (copy((64, 32), (1024, 1024), (0, 4)), (8, 16), 4),
        (copy((64, 32), (1024, 1021)), (4, 8, 16), 0),
    ],
)
def test_chunks_are_of_the_largest_size_that_is_proven(op, sizes, elements):
    assert elements == chunk_elements(op, sizes)
