"""Chunks that are aligned and in one row on both sides."""

import dataclasses

import pytest
from thread_kernels import buffer, index

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.lowering.chunks import chunk_at, chunk_elements, chunks_refusal
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.targets.target import Target

CONTEXT = LoweringContext(Target("cuda", "sm_80"), CompileOptions(), 128)


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


def test_rows_of_unknown_length_have_no_chunks():
    image = buffer("A", (4, index("columns") * 128), "int32")  # of which a window is copied, as by T.im2col
    assert 0 == chunk_elements(Copy(whole(image), whole(buffer("S", (4, 16), "int32", Scope.SHARED))), (16,))


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        (copy((64, 32), (1024, 1024)), ""),
        (dataclasses.replace(copy((64, 32), (1024, 1024)), layout=object()), "the user fixes which thread copies what"),
        (Copy(*map(whole, (buffer("A", (8,), "float16"), buffer("B", (8,), "float16")))), "copies from global to shared memory only"),
        (
            Copy(whole(buffer("A", (8,), "float32")), whole(buffer("S", (8,), "float16", Scope.SHARED))),
            "does not convert float32 to float16",
        ),
    ],
)
def test_what_only_registers_can_do(op, reason):
    assert reason == chunks_refusal(op, CONTEXT)


def test_instructions_give_no_other_values_than_0_out_of_bounds():
    op = copy((64, 32), (1024, 1024))
    values = dataclasses.replace(CONTEXT, nonzero_safe=frozenset({op.src.buffer}))
    assert "'A' does not read 0 out of bounds" == chunks_refusal(op, values)
    assert "" == chunks_refusal(copy((64, 32), (1024, 1024)), values)


def test_a_chunk_has_extent_1_but_for_its_row():
    source = buffer("A", (8, 64), "float16")
    chunk = chunk_at(whole(source), (as_expr(3), as_expr(16)), 8)
    assert (source, (1, 8)) == (chunk.buffer, chunk.static_extent)
    assert [3, 16] == [index.value for index in chunk.start]
