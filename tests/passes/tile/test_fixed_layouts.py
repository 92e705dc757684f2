"""Tiles whose layout is settled before any operator asks."""

from spread_tiles import launches

import tilelang.language as T
from tilelang.layout.memory import row_major
from tilelang.layout.swizzle_modes import swizzled
from tilelang.passes.tile.fixed_layouts import fixed_layouts, viewed_tiles


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
