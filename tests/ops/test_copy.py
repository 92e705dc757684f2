"""`T.copy` and `T.transpose`: checks and reference."""


import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import digest
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.printer import to_text
from tilelang.ir.request import Request
from tilelang.ir.scalar import convert
from tilelang.ops.copy import Copy, Transpose
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.machine import NOTHING

FLOAT = as_dtype("float32")


def test_different_extents_are_refused_with_names_and_shapes(ops):
    with pytest.raises(ProgramError) as error:
        Copy(ops.tile("A_s", (64, 32)), ops.tile("B_s", (32, 32))).check()
    assert "T.copy: 'A_s' is (64, 32) but 'B_s' is (32, 32)" == error.value.message
    assert "slice the larger side, or allocate both with equal extents" == error.value.hint


def test_unit_extents_are_ignored(ops):
    Copy(ops.tile("A", (1, 64, 1, 32)), ops.tile("B", (64, 32, 1))).check()


def test_symbolic_extents_are_not_checked_at_compile_time(ops):
    n = Var("n", as_dtype("int32"), index=True)
    Copy(ops.tile("A", (n, 4)), ops.tile("B", (8, 4))).check()


def test_ranks_that_differ_are_refused_even_with_symbolic_extents(ops):
    n = Var("n", as_dtype("int32"), index=True)
    with pytest.raises(ProgramError, match=r"'A' is \(n, n \* 2\) but 'B' is \(8,\)"):
        Copy(ops.tile("A", (n, n * 2)), ops.tile("B", (8,))).check()


def test_a_barrier_holds_no_data(ops):
    with pytest.raises(ProgramError, match="T.copy: 'bar' is a barrier and holds no data"):
        Copy(ops.tile("bar", (4,), scope=Scope.BARRIER), ops.tile("B", (4,))).check()


def test_vectors_keep_their_lanes(ops):
    with pytest.raises(ProgramError, match="'A' holds float16x2 but 'B' holds float16"):
        Copy(ops.tile("A", (4,), "float16x2"), ops.tile("B", (4,), "float16")).check()


def test_a_copy_reads_one_side_and_writes_the_other(ops):
    copy = Copy(ops.tile("A", (4,)), ops.tile("B", (4,)))
    assert ((copy.src,), (copy.dst,)) == (copy.reads(), copy.writes())


@pytest.mark.parametrize("source", ["float32", "bfloat16", "float8_e4m3fn", "int8", "uint4", "bool"])
def test_every_dtype_is_converted_to_every_other(ops, draw, source):
    for name, dtype in SCALARS.items():
        src, dst = ops.tile("A", (3, 5), source), ops.tile("B", (3, 5), name)
        a, b = draw((3, 5), source), np.zeros((3, 5), dtype.numpy)
        ops.apply(Copy(src, dst), {src: a, dst: b})
        assert np.asarray(convert(a, dtype)).tobytes() == b.tobytes(), name


@given(st.data())
def test_a_copy_writes_its_region_only(data):
    rank = data.draw(st.integers(1, 3))
    size = st.integers(0, 4)
    extent = tuple(data.draw(size) for _ in range(rank))
    starts = [tuple(data.draw(size) for _ in range(rank)) for _ in "ab"]
    shapes = [tuple(s + e + data.draw(size) for s, e in zip(start, extent, strict=True)) for start in starts]
    src, dst = (Buffer(n, tuple(map(as_expr, s)), FLOAT, Scope.GLOBAL) for n, s in zip("ab", shapes, strict=True))
    a, b = (np.random.default_rng(1).random(shape, np.float32) for shape in shapes)
    expected = b.copy()
    from_box, to_box = (tuple(slice(s, s + e) for s, e in zip(start, extent, strict=True)) for start in starts)
    expected[to_box] = a[from_box]
    boxes = [
        Region(buffer, tuple(map(as_expr, start)), tuple(map(as_expr, extent)))
        for buffer, start in zip((src, dst), starts, strict=True)
    ]

    run_reference(PrimFunc("copy", (TensorParam(src), TensorParam(dst)), Copy(*boxes)), [a, b])
    np.testing.assert_array_equal(expected, b)


def test_out_of_bounds_of_global_memory_reads_zero_and_drops(ops):
    src = Buffer("A", (as_expr(3), as_expr(3)), FLOAT, Scope.GLOBAL)
    dst = Buffer("B", (as_expr(3), as_expr(4)), FLOAT, Scope.GLOBAL)
    a, b = np.arange(1, 10, dtype="f").reshape(3, 3), np.full((3, 4), 9, "f")
    ops.apply(Copy(ops.region(src, (-1, 3), (1, 3)), ops.region(dst, (1, 3), (2, 3))), {src: a, dst: b})
    np.testing.assert_array_equal([[9, 9, 9, 9], [9, 9, 0, 0], [9, 9, 2, 3]], b)


def test_transpose_of_a_tile(ops, draw):
    src, dst = ops.tile("A", (3, 5), "float16"), ops.tile("B", (5, 3), "float32")
    a, b = draw((3, 5), "float16"), np.zeros((5, 3), "f")
    ops.apply(Transpose(src, dst), {src: a, dst: b})
    np.testing.assert_array_equal(a.T.astype("f"), b)


def test_transpose_of_a_row_is_a_column(ops):
    src, dst = ops.tile("A", (1, 1, 4)), ops.tile("B", (4, 1))
    a, b = np.arange(4, dtype="f").reshape(1, 1, 4), np.zeros((4, 1), "f")
    ops.apply(Transpose(src, dst), {src: a, dst: b})
    np.testing.assert_array_equal(a.reshape(4, 1), b)


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (2, 3, 1), (2, 1, 3), (1, 2, 3), (1, 1, 3)])
def test_transpose_of_a_batch(ops, draw, shape):
    turned = (*shape[:-2], shape[-1], shape[-2])
    src, dst = ops.tile("A", shape), ops.tile("B", turned)
    a, b = draw(shape, "float32"), np.zeros(turned, "f")
    ops.apply(Transpose(src, dst), {src: a, dst: b})
    np.testing.assert_array_equal(a.swapaxes(-1, -2), b)


def test_transpose_needs_swapped_extents(ops):
    with pytest.raises(ProgramError) as error:
        Transpose(ops.tile("A", (64, 32)), ops.tile("B", (64, 32))).check()
    assert "T.transpose: 'A' is (64, 32) but 'B' is (64, 32)" == error.value.message
    assert "the destination of an (m, n) tile is an (n, m) tile" == error.value.hint


def test_transpose_needs_matrices(ops):
    with pytest.raises(ProgramError, match=r"'A' is \(2, 3, 4\), but a tile of two dimensions is needed"):
        Transpose(ops.tile("A", (2, 3, 4)), ops.tile("B", (4, 3, 2))).check()


def counted(ops, src=Scope.GLOBAL, dst=Scope.SHARED, of=Scope.BARRIER, extent=(1, 1)):
    barrier = ops.tile("full", (2,), "uint64", of)
    region = ops.region(barrier.buffer, extent)
    return Copy(ops.tile("A", (4, 8), scope=src), ops.tile("A_s", (4, 8), scope=dst), barrier=region)


def test_a_barrier_may_count_the_bytes_of_a_copy_into_shared_memory(ops):
    copy = counted(ops)
    copy.check()
    assert "full" not in {region.buffer.name for region in (*copy.reads(), *copy.writes())}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"of": Scope.SHARED}, "'full' is (1,) and is no single barrier"),
        ({"extent": (0, 2)}, "'full' is (2,) and is no single barrier"),
        ({"src": Scope.SHARED}, "this one is from 'A' (shared.dyn) to 'A_s' (shared.dyn)"),
        ({"dst": Scope.FRAGMENT}, "to 'A_s' (local.fragment)"),
    ],
)
def test_other_barriers_and_copies_are_refused(ops, change, words):
    with pytest.raises(ProgramError) as error:
        counted(ops, **change).check()
    assert words in error.value.message


def test_a_copy_with_a_barrier_has_the_same_reference(ops, draw):
    src, dst, a = ops.tile("A", (4, 8)), ops.tile("A_s", (4, 8)), draw((4, 8), "float32")
    b, bar = np.zeros((4, 8), "f"), ops.tile("full", (1,), "uint64", Scope.BARRIER)
    copy = Copy(src, dst, barrier=bar)
    func = PrimFunc("test", tuple(TensorParam(r.buffer) for r in (src, dst, bar)), copy)
    run_reference(func, [a, b, np.zeros(1, np.uint64)])
    np.testing.assert_array_equal(a, b)
    assert "barrier=full" in to_text(func)
    other = PrimFunc("test", func.params, Copy(src, dst))
    assert digest(func) != digest(other)


def test_a_request_by_name_is_a_copys_name_and_only_lowering(ops):
    copy = counted(ops)
    assert ("T.copy", "") == (copy.name, copy.required_lowering)
    named = dataclasses.replace(copy, request=Request("T.fast_copy", "copy.fast", NOTHING, "T.copy"))
    assert ("T.fast_copy", "copy.fast") == (named.name, named.required_lowering)
    with pytest.raises(ProgramError, match="T.fast_copy: "):
        dataclasses.replace(named, src=named.dst, dst=named.src).check()
    assert digest(PrimFunc("test", (), copy)) != digest(PrimFunc("test", (), named))
