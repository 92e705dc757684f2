from collections.abc import Callable

import numpy as np
import pytest
from harness import run_everywhere

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramWarning, StagingError
from tilelang.ir.expr import Var
from tilelang.ir.stmt import Store
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.im2col import Im2Col

Tensor = Callable[..., BufferProxy]
Box = Callable[..., list[str]]
k = Var("k", INT32, index=True)


def test_copy_of_a_position_into_a_tile(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s = tensor("A", (100, 64), "float16"), T.alloc_shared((32, 16), "float32")
    T.copy(a[k * 32, 16], s)
    copy = stager.statements[-1]
    assert isinstance(copy, Copy)
    assert ["k * 32+32", "16+16"] == box(copy.src)


def test_copy_accepts_what_steers_gpus(tensor: Tensor, stager: Stager) -> None:
    a, s = tensor("A", (32,)), T.alloc_shared((32,))
    T.copy(a, dst=s, coalesced_width=8, disable_tma=True, eviction_policy="evict_first", loop_layout=None)
    T.copy(a, s, coalesced_width=8, prefer_instruction="cp_async", annotations={"coalesced_width": 4, "order": 1})
    T.copy(a, s, prefer_instruction="tma")
    T.async_copy(a, s, coalesced_width=2, annotations={})
    found = stager.statements[1:]
    assert [Copy] * 4 == [type(x) for x in found]
    assert [8, 4, None, 2] == [x.coalesced_width for x in found]  # type: ignore[attr-defined]
    assert [False, False, True, False] == [x.allow_bulk for x in found]  # type: ignore[attr-defined]


def test_async_copies_go_from_global_to_shared_memory(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(ValueError, match="T.async_copy: only supports global->shared, but this one is from 'shared'"):
        T.async_copy(T.alloc_shared((4,)), T.alloc_fragment((4,)))


def test_a_copy_of_one_element_is_an_assignment(tensor: Tensor, stager: Stager) -> None:
    a, s = tensor("A", (32,), "int64"), T.alloc_local((4,), "int32")
    T.copy(a[k], s[0])
    store = stager.statements[-1]
    assert isinstance(store, Store)
    assert "int32" == store.value.dtype
    T.copy(a[k], s[0], annotations={"order": 1})
    assert isinstance(stager.statements[-1], Copy)


def test_a_copy_between_positions_of_tensors_warns_where_a_tile_may_have_been_meant() -> None:
    with pytest.warns(ProgramWarning) as caught:

        @T.prim_func
        def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
            with T.Kernel(2, 2) as (bx, by):
                T.copy(A[by * 32, bx * 32], B[by * 32, bx * 32])
                for i, j in T.Parallel(32, 32):
                    T.copy(A[i, j], B[i, j])
                tx = T.get_thread_binding()
                T.copy(A[tx, 0], B[tx, 0])

    (warning,) = caught
    first, *_, hint = str(warning.message).splitlines()
    assert (
        "T.copy: copies one element per block, since neither A[by * 32, bx * 32] nor B[by * 32, bx * 32] says how large "
        "a tile is"
    ) == first
    assert (
        "hint: give one of them extents, as in A[by * 32 : by * 32 + 32, bx * 32 : bx * 32 + 32], or write "
        "B[by * 32, bx * 32] = A[by * 32, bx * 32] for one element"
    ) == hint


def test_copy_of_different_extents_is_an_error(stager: Stager) -> None:
    with pytest.raises(ValueError, match=r"T.copy: 'shared' is \(64, 32\) but 'fragment' is \(32, 32\)"):
        T.copy(T.alloc_shared((64, 32)), T.alloc_fragment((32, 32)))


def test_extents_of_one_in_the_source_are_broadcast_from_everywhere_to_everywhere() -> None:
    shape = (16, 64)

    @T.prim_func
    def main(
        Row: T.Tensor((1, 64), "int32"),
        Column: T.Tensor((16, 1), "int32"),
        Line: T.Tensor((64,), "int32"),
        B: T.Tensor((9, *shape), "int32"),
    ):
        with T.Kernel(1, threads=64):
            row_s, column_f = T.alloc_shared((1, 64), "int32"), T.alloc_fragment((16, 1), "int32")
            tile_s, tile_f = T.alloc_shared(shape, "int32"), T.alloc_fragment(shape, "int32")
            T.copy(Row, row_s)
            T.copy(Column, column_f)
            for number, source in enumerate((Row, row_s, column_f)):
                T.copy(source, B[3 * number, :, :])
                T.copy(source, tile_s)
                T.copy(tile_s, B[3 * number + 1, :, :])
                T.copy(source if number else Line, tile_f)
                T.copy(tile_f, B[3 * number + 2, :, :])

    row, column = np.arange(64, dtype=np.int32)[None], np.arange(16, dtype=np.int32)[:, None]
    given = (row, column, row[0] + 1, np.zeros((9, *shape), np.int32))
    found = run_everywhere(main, *given)[-1]
    sources = [row, row, row + 1, row, row, row, column, column, column]
    np.testing.assert_array_equal([np.broadcast_to(source, shape) for source in sources], found)


def test_an_unknown_option_is_an_error(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(StagingError, match="T.copy: got an unexpected keyword argument 'disable_tam'"):
        T.copy(tensor("A", (4,)), tensor("B", (4,)), disable_tam=True)


def test_transpose(stager: Stager) -> None:
    T.transpose(T.alloc_shared((4, 8)), T.alloc_shared((8, 4)))
    assert isinstance(stager.statements[-1], Transpose)
    with pytest.raises(ProgramError, match="T.transpose"):
        T.transpose(T.alloc_shared((4, 8)), T.alloc_shared((4, 8)))


def test_im2col(tensor: Tensor, stager: Stager) -> None:
    T.c2d_im2col(tensor("I", (1, 8, 8, 4)), T.alloc_shared((16, 4)), k, 0, 3, 1, 1, 1)
    op = stager.statements[-1]
    assert isinstance(op, Im2Col)
    assert (3, 1, 1, 1) == (op.kernel, op.stride, op.dilation, op.pad)
    with pytest.raises(ProgramError, match="kernel must be an int"):
        T.im2col(tensor("I", (1, 8, 8, 4)), T.alloc_shared((16, 4)), k, 0, k, 1, 1, 1)


def test_options_of_copies_and_loops_are_checked():
    def staged(body):
        @T.prim_func
        def f(A: T.Tensor((16,), T.float32), B: T.Tensor((16,), T.float32)):
            with T.Kernel(1) as _:
                body(A, B)

        return f

    for body, message in (
        (lambda a, b: T.copy(a, b, coalesced_width=3), "T.copy: coalesced_width is 3"),
        (lambda a, b: T.copy(a, b, eviction_policy="soon"), "T.copy: eviction_policy is 'soon'"),
        (lambda a, b: T.copy(a, b, annotations={"eviction_policy": 1}), "T.copy: eviction_policy is 1"),
        (lambda a, b: T.copy(a, b, prefer_instruction="dma"), "T.copy: prefer_instruction is 'dma'"),
        (lambda a, b: T.copy(a, b, annotations=8), "T.copy: annotations are 8, not a dict"),
        (lambda a, b: T.copy(a, b, loop_layout=1), "T.copy: loop_layout is 1, not a Fragment"),
        (lambda a, b: T.Parallel(4, 4, loop_layout=T.Fragment(4, lambda i: (i, 0))), "T.Parallel: loop_layout has 1 dimensions"),
    ):
        with pytest.raises(ProgramError) as caught:
            staged(body)
        assert caught.value.message.startswith(message)


def test_shapes_of_copies():
    """The side in the innermost memory says how much is copied; only the ends of tensors are ends."""

    @T.prim_func
    def main(
        A: T.Tensor((12, 6), "int32"),
        I: T.Tensor((4,), "int64"),
        n: T.int32,
        short: T.Tensor((12, 6), "int32"),
        tile: T.Tensor((8, 6), "int32"),
        rows: T.Tensor((12, 6), "int32"),
        row: T.Tensor((6,), "int32"),
        spread: T.Tensor((3, 4, 6), "int32"),
        single: T.Tensor((2, 3), "int32"),
    ):
        with T.Kernel(1, threads=32):
            s, f = T.alloc_shared((8, 6), "int32"), T.alloc_fragment((8, 6), "int32")
            one = T.alloc_shared((1, 6), "int32")
            v = T.alloc_local((2,), "int32")
            T.copy(A[:, :2], short[:, :3])
            T.copy(A[n : n + 2, :], s)
            T.copy(s, tile)
            T.copy(s, f)
            T.copy(f, rows[6 : 6 + n, :])
            T.copy(A[3:4, :], row)
            T.copy(A[3:4, :], one)
            T.copy(one, spread[1, 0:4, :])
            T.copy(A[5, 0:6], spread[2, 0:2, 0:6])
            T.copy(I[2], v[1])
            for i, j in T.Parallel(2, 3):
                T.copy(v[1], single[i, j])

    a, n = np.arange(72, dtype=np.int32).reshape(12, 6), 7
    wanted = [np.zeros(shape, np.int32) for shape in ((12, 6), (8, 6), (12, 6), (6,), (3, 4, 6), (2, 3))]
    short, tile, rows, row, spread, single = wanted
    short[:, :2] = a[:, :2]
    tile[:5] = a[7:]
    rows[6:] = tile[:6]
    row[:] = a[3]
    spread[1], spread[2, :2] = a[3], a[5]
    single[:] = -4
    numbers = np.array([1, 2, -4, 3])
    result = run_everywhere(main, a, numbers, n, *(np.zeros_like(x) for x in wanted))[3:]
    for want, got in zip(wanted, result, strict=True):
        np.testing.assert_array_equal(want, got)
