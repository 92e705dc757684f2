"""Tiles whose layout is settled before any operator asks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from distributed_tiles import launches

import tilelang
import tilelang.language as T
from tilelang.analysis.fixed_layouts import fixed_layouts, viewed_tiles
from tilelang.errors import ProgramValueError
from tilelang.layout.shared_memory import row_major
from tilelang.layout.xor_swizzle import swizzled


def test_annotated_tiles_and_those_with_several_names_have_theirs() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            said = T.alloc_shared((64, 64), "float16")
            viewed = T.alloc_shared((64, 64), "float16")
            free = T.alloc_shared((64, 64), "float16")
            T.annotate_layout({said: T.make_swizzled_layout(said)})
            other = T.view(viewed, (32, 128))
            T.copy(A, said)
            T.copy(A, viewed)
            T.copy(A, free)
            T.copy(other[0:32, 0:64], A[0:32, :])

    (launch,) = launches(main)
    found = {buffer.name: layout for buffer, layout in fixed_layouts(launch).items()}
    assert found == {
        "said": swizzled((64, 64), 16, 128),
        "viewed": row_major((64, 64)),
        "other": row_major((32, 128)),
    }
    assert {"viewed", "other"} == {buffer.name for buffer in viewed_tiles(launch)}


def named_anew(dtype: str, shape: tuple[int, int], layout: Callable[[Any], Any], other: Any = None) -> Any:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            h = T.view(a, shape, dtype)
            T.annotate_layout({a: layout(a)})
            if other is not None:
                T.annotate_layout({h: other})
            T.copy(A, a)
            T.copy(h, B)

    return main


NAMES = {
    "narrower": ("float16", (64, 128), T.make_swizzled_layout),
    "wider": ("int64", (64, 32), T.make_swizzled_layout),
    "of another shape": ("float32", (32, 128), T.make_swizzled_layout),
    "turned round": ("float16", (128, 64), lambda a: T.Layout(a.shape, lambda i, j: (j, i))),
    "padded": ("int8", (64, 256), lambda a: T.Layout(a.shape, lambda i, j: i * 68 + j)),
}


@pytest.mark.parametrize("name", NAMES)
def test_all_names_of_a_tile_follow_its_layout(name: str) -> None:
    dtype, shape, layout = NAMES[name]
    values = np.random.default_rng(0).random((64, 64)).astype(np.float32)
    for arch in ("sm_90a", "sm_75"):
        out = np.zeros(shape, dtype)
        target = {"kind": "cuda", "arch": arch}
        kernel = tilelang.compile(
            named_anew(dtype, shape, layout), execution_backend="simulator", target=target  # type: ignore[arg-type]
        )
        kernel(values, out)
        assert values.tobytes() == out.tobytes()


def test_a_view_has_the_layout_of_its_bytes() -> None:
    (launch,) = launches(named_anew(*NAMES["narrower"]))
    found = {buffer.name: layout for buffer, layout in fixed_layouts(launch).items()}
    swizzle = T.make_swizzled_layout(T.Tensor((64, 64), "float32"))
    assert {"a": swizzle, "h": swizzle.reshape((64, 128), 32, 16)} == found


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_80"}])
def test_layouts_that_not_all_names_can_have(target: Any) -> None:
    transposed = named_anew("int64", (64, 32), NAMES["turned round"][2])
    with pytest.raises(ProgramValueError) as caught:
        tilelang.compile(transposed, target=target)
    message = "T.annotate_layout: the layout of 'a' takes elements of 'h' apart, which names the same bytes as int64"
    assert message == caught.value.message

    twice = named_anew("float16", (64, 128), T.make_swizzled_layout, T.Layout((64, 128), lambda i, j: (i, j)))
    with pytest.raises(ProgramValueError) as caught:
        tilelang.compile(twice, target=target)
    message = "T.annotate_layout: the layout of 'a' is not the one of 'h', which names the same bytes"
    assert message == caught.value.message
