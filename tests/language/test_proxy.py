import dataclasses
from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, StagingError, TileLangError, UnknownName
from tilelang.ir.expr import Cast, Const, Expr, Load, Var, as_expr, int_const
from tilelang.ir.stmt import Store
from tilelang.language.proxy import BufferProxy, RegionProxy
from tilelang.language.stage import Stager
from tilelang.ops.copy import Copy
from tilelang.ops.describe import extent_text
from tilelang.ops.fill import Fill

Tensor = Callable[..., BufferProxy]
i = Var("i", INT32, index=True)


def where(element: object) -> list[str]:
    assert isinstance(element, Load)
    return [extent_text(index) for index in element.indices]


def test_facts_of_a_buffer(tensor: Tensor) -> None:
    a = tensor("A", (4, T.dyn["K"]), "float16")
    assert 4 == a.shape[0]
    assert a.shape[1] is T.dyn["K"]
    assert (2, "A", "global", 4) == (a.ndim, a.name, a.scope(), len(a))
    assert a.dtype == "float16"
    assert "float16" == a.dtype(1).dtype
    assert [] == a.strides
    strided = BufferProxy(dataclasses.replace(a.buffer, strides=(T.dyn["K"], as_expr(1))))
    assert (T.dyn["K"], 1) == (strided.strides[0], strided.strides[1])
    assert [1] == strided[0, :].strides


def test_full_indices_give_an_element(tensor: Tensor) -> None:
    a = tensor("A", (4, 8))
    assert ["i", "7"] == where(a[i, 7])
    assert "float32" == a[0, 0].dtype  # type: ignore[union-attr]


def test_negative_constants_count_from_the_end(tensor: Tensor) -> None:
    a = tensor("A", (4, T.dyn["K"]))
    assert ["3", "K + -1"] == where(a[-1, -1])


def test_negative_expressions_do_not(tensor: Tensor) -> None:
    assert ["i - 1"] == where(tensor("A", (4,))[i - 1])


def test_fewer_indices_and_dots_select_the_rest_whole(tensor: Tensor, box: Callable[..., list[str]]) -> None:
    a = tensor("A", (2, 4, 8))
    for region, expected in (
        (a[1], ["1+1", "0+4", "0+8"]),
        (a[..., 3], ["0+2", "0+4", "3+1"]),
        (a[0, ..., 2:4], ["0+1", "0+4", "2+2"]),
        (a[...], ["0+2", "0+4", "0+8"]),
    ):
        assert isinstance(region, RegionProxy)
        assert expected == box(region.region)


def test_slices_with_symbolic_ends_have_constant_extents_where_possible(tensor: Tensor) -> None:
    a = tensor("A", (64, T.dyn["K"]))
    assert (16, 32) == a[i * 16 : (i + 1) * 16, i * 32 : i * 32 + 32].shape
    assert (4, T.dyn["K"]) == (a[-4:].shape[0], a[-4:].shape[1])
    assert "K - i" == extent_text(a[:, i:].shape[1])


def test_regions_can_be_indexed_further(tensor: Tensor, box: Callable[..., list[str]]) -> None:
    a = tensor("A", (2, 16, 32))
    tile = a[1, 4:12]
    assert isinstance(tile, RegionProxy)
    assert (8, 32) == tile.shape
    assert ["1", "4 + i", "0"] == where(tile[i, 0])
    assert ["1", "11", "31"] == where(tile[-1, -1])
    assert ["1+1", "6+2", "0+32"] == box(tile[2:4].region)  # type: ignore[union-attr]
    with pytest.raises(ProgramError, match="index 8 is out of range"):
        tile[8, 0]


def test_scalar_buffers(tensor: Tensor, stager: Stager) -> None:
    x = tensor("x", ())
    assert [] == where(x[()]) == where(x[0])
    x[()] = 1
    assert isinstance(x + 1, Expr)
    assert isinstance(stager.statements[0], Store)


def test_storing_converts_to_the_dtype_of_the_buffer(tensor: Tensor, stager: Stager) -> None:
    a, b = tensor("A", (4,), "float16"), tensor("B", (4,), "int32")
    a[i] = b[i]
    a[i] += 1
    first, second = stager.statements
    assert isinstance(first, Store)
    assert isinstance(first.value, Cast)
    assert isinstance(second, Store)
    assert "float16" == second.value.dtype


def test_assigning_to_a_region_fills_or_copies(tensor: Tensor, stager: Stager, box: Callable[..., list[str]]) -> None:
    a, b = tensor("A", (4, 8)), tensor("B", (2, 8))
    a[1] = 3
    a[2:] = b
    fill, copy = stager.statements
    assert isinstance(fill, Fill)
    assert ["1+1", "0+8"] == box(fill.dst)
    assert isinstance(fill.value, Const)
    assert isinstance(copy, Copy)
    assert ["2+2", "0+8"] == box(copy.dst)
    with pytest.raises(ProgramError, match=r"assignment: 'A' is \(4, 8\) but 'B' is \(2, 8\)"):
        a[...] = b


def test_constant_indices_out_of_range(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4, 8))
    s = T.alloc_shared((4, 8))
    for buffer in (a, s):
        with pytest.raises(ProgramError) as caught:
            buffer[4, 0]
        expected = f"index 4 is out of range for dimension 0 of '{buffer.name}', which has extent 4"
        assert expected == caught.value.message
        assert "valid indices are -4 to 3" == caught.value.hint


def test_an_empty_tensor_may_be_named_where_it_begins(tensor: Tensor) -> None:
    assert ["0"] == where(tensor("A", (0,))[0])


def test_regions_of_tensors_may_hang_over_the_edge_and_tiles_may_not(tensor: Tensor, stager: Stager) -> None:
    assert (128,) == tensor("A", (100,))[0:128].shape
    s = T.alloc_shared((100,))
    with pytest.raises(ProgramError, match="dimension 0 of 'shared': the slice 0:128 leaves the extent 100"):
        s[0:128]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ((0, 0, 0), "'A' has 2 dimensions (4, 8) but is given 3 indices"),
        ((..., ...), "'A': an index can hold only one `...`"),
        ("x", "index 0 of 'A' is 'x', not an integer"),
        ((0, 1.5), "index 1 of 'A' is a float32, not an integer"),
        ((i / 2, 0), "index 0 of 'A' is a float32, not an integer"),
        (None, "index 0 of 'A' is None, not an integer"),
        (slice(0, 4, 2), "dimension 0 of 'A': a slice with a step is not a region"),
        (slice(3, 1), "dimension 0 of 'A': the slice 3:1 ends before it starts"),
    ],
)
def test_bad_indices(tensor: Tensor, key: object, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        tensor("A", (4, 8))[key]
    assert message == caught.value.message


def test_a_tile_is_no_index(tensor: Tensor) -> None:
    with pytest.raises(ProgramError) as caught:
        tensor("A", (4,))[tensor("I", (8,), "int32")]
    assert "index 0 of 'A' is the whole of 'I' (8,)" == caught.value.message


def test_a_tile_is_no_element(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4,))
    with pytest.raises(ProgramError, match=r"an element of 'A' is assigned the whole of 'B' \(4,\)"):
        a[0] = tensor("B", (4,))


@pytest.mark.parametrize(
    "use",
    [
        lambda a: a + 1,
        lambda a: 1 - a,
        lambda a: -a,
        lambda a: abs(a),
        lambda a: a < 1,
        lambda a: a == 1,
        lambda a: bool(a),
        lambda a: list(a),
        lambda a: 1 in a,
        lambda a: i * a,
        lambda a: T.exp(a),
        lambda a: T.max(a, 0),
    ],
)
def test_a_tile_is_no_value(tensor: Tensor, use: Callable[[BufferProxy], object]) -> None:
    for tile in (tensor("A", (4, 8)), tensor("A", (4, 8))[1]):
        with pytest.raises(StagingError, match="'A' is a tile .* and cannot be used as"):
            use(tile)  # type: ignore[arg-type]


def test_the_length_of_a_symbolic_dimension_is_not_known(tensor: Tensor) -> None:
    with pytest.raises(StagingError, match="'A' has no length in Python"):
        len(tensor("A", (T.dyn["n"],)))


def test_buffers_are_keys(tensor: Tensor) -> None:
    a, b = tensor("A", (4,)), tensor("A", (4,))
    assert {a: 1, b: 2}[a] == 1
    assert a == BufferProxy(a.buffer)
    assert a != b
    assert a != a[0:2]
    assert a is not None and a != None  # noqa: E711


def test_unknown_attributes(tensor: Tensor) -> None:
    a = tensor("A", (4,))
    with pytest.raises(UnknownName) as caught:
        _ = a.shpae
    assert "'A' is a tile (4,) and has no attribute 'shpae'" == caught.value.message
    assert "did you mean 'shape'?" == caught.value.hint
    assert not hasattr(a, "data_ptr")
    assert not hasattr(a, "__array_interface__")


def test_a_tile_has_an_address(tensor: Tensor) -> None:
    a = tensor("A", (4,))
    pointer = a.access_ptr("r")
    assert ("r", a.region.buffer) == (pointer.mode, pointer.region.buffer)
    with pytest.raises(ProgramError, match="access_ptr: mode is 'x'"):
        a.access_ptr("x")


def test_stores_outside_of_a_kernel_are_errors(tensor: Tensor) -> None:
    with pytest.raises(TileLangError, match=r"assigning to 'A\[...\]': may only be used inside a kernel"):
        tensor("A", (4,))[0] = 1


def test_vectors_are_stored_whole(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4,), "float16x2")
    a[0] = a[1]
    with pytest.raises(ProgramError, match="'A' holds float16x2, but the value is float32: they differ in lanes"):
        a[0] = 1.0


def test_representations_say_what_and_where(tensor: Tensor) -> None:
    a = tensor("A", (4, 8))
    assert "<A: float32 (4, 8) in global>" == repr(a)
    assert "<region (8,) of A>" == repr(a[1])
    assert 8 == int_const(a[1].region.extent[1])  # type: ignore[union-attr]
