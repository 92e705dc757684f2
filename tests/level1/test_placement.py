"""Where the elements of axes are."""

import level1_programs as graphs

from tilelang.level1.fuse import fused_kernels
from tilelang.level1.placement import Tiling, next_origin, place_axes


def test_divided_whole_and_single_axes() -> None:
    (kernel,) = fused_kernels(graphs.attention((2, 3, 40, 72, 32)))
    axis = {each.name: each for each in kernel.extents}
    placement = place_axes(kernel, Tiling({axis["i"]: 16, axis["j"]: 32}, 128, 2))
    points = {name: repr(placement.places[each].point) for name, each in axis.items()}
    assert {"b": "b", "h": "h", "i": "bx * block_i + i", "c": "c", "j": "j_step * block_j + j", "e": "e"} == points
    assert ["bx", "h", "b"] == [var.name for var, _ in placement.grid]
    assert ["j"] == [each.name for each in placement.steps]
    assert "(bx + 1) * block_i" == repr(next_origin(placement.places[axis["i"]]))
    assert "32" == repr(next_origin(placement.places[axis["c"]]))
