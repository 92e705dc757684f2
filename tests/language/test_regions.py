from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import Var
from tilelang.language.proxy import BufferProxy
from tilelang.language.regions import align, as_buffer, neighbor, repeated, scalar_operand, tile_dim, tile_region
from tilelang.language.stage import Stager
from tilelang.ops.describe import extent_text

Tensor = Callable[..., BufferProxy]
Box = Callable[..., list[str]]
i, j = (Var(name, INT32, index=True) for name in "ij")


def test_a_position_takes_its_extents_from_the_other_side(tensor: Tensor, stager: Stager, box: Box) -> None:
    q, s = tensor("Q", (2, 4, 100, 64)), T.alloc_shared((32, 64))
    src, dst = align(q[i, j, i * 32, 0], s, "T.copy")  # type: ignore[arg-type]
    assert ["i+1", "j+1", "i * 32+32", "0+64"] == box(src)
    assert ["0+32", "0+64"] == box(dst)
    back = align(s, q[i, j, i * 32, 0], "T.copy")[1]  # type: ignore[arg-type]
    assert box(src) == box(back)


def test_unit_extents_of_the_tile_are_dropped_to_fit_a_position(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s = tensor("A", (64, 64)), T.alloc_shared((1, 8, 1, 16))
    assert ["i+8", "j+16"] == box(align(a[i, j], s, "T.copy")[0])  # type: ignore[arg-type]
    row = T.alloc_shared((1, 64))
    assert ["0+1", "0+1", "i+1", "0+64"] == box(align(tensor("Q", (2, 2, 9, 64))[0, 0, i, 0], row, "T.copy")[0])  # type: ignore[arg-type]


def test_a_stage_of_a_buffer_counts_without_the_stage(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s = tensor("A", (64, 64)), T.alloc_shared((2, 8, 16))
    src, dst = align(a[i, j], s[i % 2], "T.copy")  # type: ignore[arg-type,index]
    assert ["i+8", "j+16"] == box(src)
    assert ["i % 2+1", "0+8", "0+16"] == box(dst)


def test_two_positions_are_one_element(tensor: Tensor, box: Box) -> None:
    a, b = tensor("A", (4, 4)), tensor("B", (4,))
    src, dst = align(a[i, j], b[i], "T.copy")  # type: ignore[arg-type]
    assert (["i+1", "j+1"], ["i+1"]) == (box(src), box(dst))


def test_elements_by_their_positions_on_chip(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s, x = tensor("A", (64, 64)), T.alloc_shared((8, 16)), T.alloc_local((4,))
    for position in (s[i, j], s[0, 3], s[0, 0], x[0]):  # type: ignore[index]
        src, dst = align(position, a[i, j], "T.copy")  # type: ignore[arg-type]
        assert all(part.endswith("+1") for part in (*box(src), *box(dst)))


def test_the_innermost_side_says_how_much_is_copied(tensor: Tensor, stager: Stager, box: Box) -> None:
    a, s, f = tensor("A", (64, 64)), T.alloc_shared((8, 16)), T.alloc_fragment((8, 16))
    for src, dst, expected in (
        (a[0:4, 0:16], s, "8 16 8 16"),
        (a[0:j, 0:16], s, "8 16 8 16"),
        (f, a[i : i + 4, 0:20], "8 16 8 16"),
        (a[0:6, 0:3], a[8:10, 0:4], "6 3 6 3"),
        (s[0:4, :], f[0:4, :], "4 16 4 16"),
        (a[i, 0:16], s[1:2, :], "1 16 1 16"),
    ):
        sides = align(src, dst, "T.copy")  # type: ignore[arg-type]
        assert expected.split() == [part.split("+")[-1] for side in sides for part in box(side)]


def test_elements_of_the_source_are_not_left_out(tensor: Tensor, stager: Stager) -> None:
    a, s = tensor("A", (64, 64)), T.alloc_shared((8, 16))
    for src, dst, found in (
        (a[0:9, 0:16], s, "'A' is (9, 16) but 'shared' is (8, 16)"),
        (s, T.alloc_fragment((4, 16)), "'shared' is (8, 16) but 'fragment' is (4, 16)"),
        (s, a[0, 0:16], "'shared' is (8, 16) but 'A' is (16,)"),
        (a, tensor("B", (64, 65)), "'A' is (64, 64) but 'B' is (64, 65)"),
    ):
        with pytest.raises(ValueError) as caught:
            align(src, dst, "T.copy")  # type: ignore[arg-type]
        assert f"T.copy: {found}" == caught.value.message


def test_a_source_is_repeated_where_its_extent_is_1(tensor: Tensor, stager: Stager) -> None:
    a, s, f = tensor("A", (64, 64)), T.alloc_shared((8, 16)), T.alloc_fragment((16,))
    for src, dst, expected in (
        (a[i : i + 1, 0:16], s, (None, 1)),
        (a[i, 0:16], s, (None, 1)),
        (f, s, (1,)),
        (a[0:8, 0:1], s, (0, None)),
        (a[i : i + 1, 0:1], s, (None, None)),
        (a[0:8, 0:16], s, None),
        (a[0:4, 0:1], s, None),
        (s, f, None),
        (a[i, j], s, None),
    ):
        found = repeated(src, dst)  # type: ignore[arg-type]
        assert expected == (found and found.axes)


def test_a_tile_of_too_many_dimensions_does_not_fit_a_position(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(ProgramError) as caught:
        align(tensor("A", (64,))[i], T.alloc_shared((8, 8)), "T.copy")  # type: ignore[arg-type]
    assert "T.copy: 'A' has 1 dimensions, too few for the (8, 8) of 'shared'" == caught.value.message


def test_different_extents_are_an_error_that_names_both(tensor: Tensor, stager: Stager) -> None:
    a, b = T.alloc_shared((64, 32)), T.alloc_shared((32, 32))
    with pytest.raises(ProgramError) as caught:
        align(a, b, "T.copy")
    assert "T.copy: 'shared' is (64, 32) but 'shared_1' is (32, 32)" == caught.value.message
    assert "slice the larger side, as in shared[0:32, 0:32], or pass equal extents" == caught.value.hint


def test_a_whole_tensor_beside_a_smaller_tile_is_told_how_to_name_a_position(tensor: Tensor, stager: Stager) -> None:
    with pytest.raises(ProgramError) as caught:
        align(tensor("A", (64, 32)), T.alloc_shared((32, 32)), "T.copy")
    assert "name where the tile begins, as in A[0, 0]: its extents then come from the other side" == caught.value.hint


def test_a_region_may_not_leave_its_tile(tensor: Tensor, stager: Stager) -> None:
    s = T.alloc_shared((32, 64))
    with pytest.raises(ProgramError) as caught:
        align(tensor("A", (32, 32)), s[0, 48], "T.copy")  # type: ignore[arg-type]
    assert "T.copy: the region 48:80 leaves dimension 1 of 'shared', which has extent 64" == caught.value.message


def test_what_is_no_place_in_memory(tensor: Tensor) -> None:
    a = tensor("A", (4,))
    with pytest.raises(ProgramError, match="T.fill: an operand is a value, not a place in memory"):
        tile_region(a[0] + 1, "T.fill")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="T.fill: an operand is 3, not a place in memory"):
        tile_region(3, "T.fill")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="T.gemm: 'A' is given as one element, but a tile is needed"):
        tile_region(a[0], "T.gemm")  # type: ignore[arg-type]


def test_dimensions_are_counted_as_the_user_sees_them(tensor: Tensor) -> None:
    a = tensor("A", (2, 8, 16))
    assert [0, 2, 1] == [tile_dim(a, dim, "T.cumsum") for dim in (0, -1, -2)]
    assert [1, 2, 2] == [tile_dim(a[1], dim, "T.cumsum") for dim in (0, 1, -1)]  # type: ignore[arg-type]
    for dim in (3, -4):
        with pytest.raises(ProgramError, match=rf"T.cumsum: 'A' is \(2, 8, 16\) and has no dimension {dim}"):
            tile_dim(a, dim, "T.cumsum")
    with pytest.raises(ProgramError, match="dim is 1.0, not an int"):
        tile_dim(a, 1.0, "T.cumsum")


def test_whole_buffers(tensor: Tensor) -> None:
    a = tensor("A", (4, 4))
    assert a.buffer is as_buffer(a, "T.view")
    for part in (a[0], a[0, 0], 3):
        with pytest.raises(ProgramError, match="T.view: needs a whole buffer"):
            as_buffer(part, "T.view")


def test_scalars(tensor: Tensor) -> None:
    assert 2 == scalar_operand(2, "T.fill", "the value").value  # type: ignore[union-attr]
    with pytest.raises(ProgramError, match=r"T.fill: the value is the tile 'A' \(4,\), not a scalar"):
        scalar_operand(tensor("A", (4,)), "T.fill", "the value")
    with pytest.raises(ProgramError, match="T.fill: the value is None, not a number"):
        scalar_operand(None, "T.fill", "the value")


def test_neighbors_lie_along_the_last_dimension(tensor: Tensor) -> None:
    element = neighbor(tensor("A", (4, 4))[i, j], 2)  # type: ignore[arg-type]
    assert ["i", "j + 2"] == [extent_text(index) for index in element.indices]
