"""Layouts of global tensors: what a kernel finds where, on every way of running it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import NoLowering, ProgramError
from tilelang.ir.func import PrimFunc
from tilelang.ir.printer import to_text
from tilelang.passes.tile.apply_tensor_layouts import apply_tensor_layouts

WAYS = (
    {"execution_backend": "reference"},
    {"target": "cpu"},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}},
    {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_80"}},
)


def permuted(values: np.ndarray, place: Callable[..., Any]) -> np.ndarray:
    """The memory of a tensor whose elements lie where a function says."""
    layout = T.Layout(values.shape, place)
    memory = np.zeros(layout.output_shape, values.dtype)
    memory[tuple(np.moveaxis(layout.table, -1, 0))] = values
    return memory.reshape(values.shape)


def eight_rows(i: Any, j: Any) -> list[Any]:
    return [i // 8, j, i % 8]


def atomics() -> PrimFunc:
    @T.prim_func
    def main(P: T.Tensor((64, 32), "float32"), dQ: T.Tensor((64, 32), "float32")) -> None:
        with T.Kernel(4, threads=128):
            p = T.alloc_fragment((64, 32), "float32")
            T.copy(P, p)
            T.atomic_add(dQ, p)
            T.annotate_layout({dQ: T.Layout((64, 32), eight_rows)})

    return main


def every_access() -> PrimFunc:
    """Element by element, as operators and as atomics; the tile overhangs the tensor on all sides."""

    @T.prim_func
    def main(
        A: T.Tensor((24, 12), "float32"), B: T.Tensor((24, 12), "float32"), C: T.Tensor((24, 12), "float32")
    ) -> None:
        with T.Kernel(2, 2, threads=32) as (bx, by):
            T.annotate_layout({A: lambda i, j: (j, i % 4, i // 4), B: eight_rows, C: lambda i, j: (j, i)})
            T.annotate_safe_value({A: 5})
            s = T.alloc_shared((16, 8), "float32")
            T.copy(A[bx * 16, by * 8], s)
            for i, j in T.Parallel(16, 8):
                B[bx * 16 + i, by * 8 + j] = s[i, j] + A[bx * 16 + i - 1, by * 8 + j]
            for i, j in T.Parallel(16, 8):
                T.atomic_max(C[bx * 16 + i, by * 8 + j], s[i, j])

    return main


@pytest.mark.parametrize("way", WAYS, ids=["reference", "cpu", "hopper", "ampere"])
def test_accesses_go_through_the_layout(way: dict[str, Any]) -> None:
    values = np.arange(64 * 32, dtype=np.float32).reshape(64, 32)
    added = np.zeros_like(values)
    tilelang.compile(atomics(), **way)(values, added)
    assert np.array_equal(permuted(4 * values, eight_rows), added)

    a = np.random.default_rng(0).integers(-9, 9, (24, 12)).astype(np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    tilelang.compile(every_access(), **way)(permuted(a, lambda i, j: (j, i % 4, i // 4)), b, c)
    above = np.vstack([np.full((1, 12), 5, np.float32), a[:-1]])
    assert np.array_equal(permuted(a + above, eight_rows), b)
    assert np.array_equal(permuted(np.maximum(a, 0), lambda i, j: (j, i)), c)


@settings(max_examples=8)
@given(st.permutations(range(3)), st.sampled_from([(4, 6, 8), (3, 5, 7)]))
def test_one_kernel_reads_back_what_another_one_wrote(order: list[int], shape: tuple[int, ...]) -> None:
    def place(*at: Any) -> tuple[Any, ...]:
        return tuple(at[axis] for axis in order)

    @T.prim_func
    def main(A: T.Tensor(shape, "int32"), W: T.Tensor(shape, "int32"), B: T.Tensor(shape, "int32")) -> None:
        with T.Kernel(shape[0], threads=32) as b:
            T.annotate_layout({W: T.Layout(shape, place)})
            T.copy(A[b, :, :], W[b, :, :])
        with T.Kernel(shape[1], threads=32) as b:
            T.annotate_layout({W: T.Layout(shape, place)})
            T.copy(W[:, b, :], B[:, b, :])

    a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    w, b = np.zeros_like(a), np.zeros_like(a)
    tilelang.compile(main, execution_backend="reference")(a, w, b)
    assert np.array_equal(a, b)
    assert np.array_equal(permuted(a, place), w)


def test_sizes_may_be_known_at_the_call_only() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 16), "int32"), B: T.Tensor((n, 16), "int32")) -> None:
        with T.Kernel(T.ceildiv(n, 16), threads=32) as b:
            T.annotate_layout({B: T.Layout(B.shape, lambda i, j: (i // 8, j // 4, i % 8, j % 4))})
            T.copy(A[b * 16 : b * 16 + 16, :], B[b * 16 : b * 16 + 16, :])

    a = np.arange(40 * 16, dtype=np.int32).reshape(40, 16)
    for way in WAYS[:3]:
        b = np.zeros_like(a)
        tilelang.compile(main, **way)(a, b)
        assert np.array_equal(permuted(a, lambda i, j: (i // 8, j // 4, i % 8, j % 4)), b)


def test_operators_stay_where_dimensions_keep_their_order() -> None:
    @T.prim_func
    def main(Q: T.Tensor((2, 64, 4, 32), "float32"), O: T.Tensor((2, 64, 4, 32), "float32")) -> None:
        with T.Kernel(4, threads=128) as h:
            T.annotate_layout({Q: lambda b, m, h, d: (b, h, m, d), O: lambda b, m, h, d: (d, b, m, h)})
            q = T.alloc_shared((64, 32), "float32")
            T.copy(Q[1, 0:64, h, :], q)
            T.copy(q, O[1, 0:64, h, :])

    text = to_text(apply_tensor_layouts(main).body)
    assert "T.copy(Q_permuted[1, h, :, :], q)" in text
    assert "O_permuted[j, 1, i, h] = q[i, j]" in text
    assert text.count("T.copy") == 1
    assert "T.annotate_layout({Q: lambda _i, _j, _k, _l: (_i, _k, _j, _l)})" in to_text(main.body)


def test_operators_along_a_dimension_find_it_where_the_layout_put_it() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8,), "float32")) -> None:
        with T.Kernel(8, threads=32) as i:
            T.annotate_layout({A: lambda i, j: (j, i)})
            row = T.alloc_fragment((1,), "float32")
            T.reduce_sum(A[i, 0:16], row, dim=0)
            T.copy(row, B[i])

    a = np.arange(128, dtype=np.float32).reshape(8, 16)
    for way in WAYS:
        b = np.zeros(8, np.float32)
        tilelang.compile(main, **way)(permuted(a, lambda i, j: (j, i)), b)
        assert np.array_equal(a.sum(axis=1), b)


def test_scans_of_tensors_with_a_layout_are_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.annotate_layout({A: lambda i, j: (j, i)})
            T.cumsum(A, B, dim=1)

    with pytest.raises(NoLowering, match="T.cumsum: 'A' has a layout in this kernel that splits its region"):
        apply_tensor_layouts(main)


def test_functions_without_layouts_stay_as_they_are() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.clear(A)

    assert main is apply_tensor_layouts(main)


def test_what_a_layout_takes_apart_is_refused() -> None:
    @T.prim_func
    def view(A: T.Tensor((4, 8), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.annotate_layout({A: lambda i, j: (j, i)})
            B = T.reshape(A, (32,))
            B[0] = 1.0

    with pytest.raises(ProgramError) as caught:
        apply_tensor_layouts(view)
    assert "'B' is a view of 'A', which has a layout in this kernel" == caught.value.message

    @T.prim_func
    def address(A: T.Tensor((4, 8), "float32")) -> None:
        with T.Kernel(1, threads=32):
            T.annotate_layout({A: lambda i, j: (j, i)})
            T.evaluate(T.call_extern("handle", "f", T.address_of(A[0, 0])))

    with pytest.raises(NoLowering) as refused:
        apply_tensor_layouts(address)
    assert (
        "the address of 'A' is taken, which has a layout in this kernel, so that its elements are not contiguous"
    ) == refused.value.message
