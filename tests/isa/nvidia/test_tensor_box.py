import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_copies import image_of_box

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.isa.machine import TensorMapView
from tilelang.isa.nvidia.tensor_box import map_fault, shared_pieces, swizzled, tensor_pieces

DTYPES = ("uint8", "float16", "float32", "float64")


def view_of(array: np.ndarray, box, swizzle, dtype):
    """A map of a dense array."""
    buffer = Buffer("A", tuple(const(n, INT32) for n in array.shape), as_dtype(dtype), Scope.GLOBAL)
    return TensorMapView(buffer, array.shape[::-1], array.strides[-2::-1], tuple(box), swizzle)


def moved(array, view, at, begin, *, elements=False):
    """The bytes of a box in shared memory from `begin` on, by the pieces that the two ends name."""
    source = tensor_pieces(view, at, elements=elements)
    places = shared_pieces(view, begin, source.size)
    image = np.zeros(int(np.prod(view.box[1:])) * max(view.box[0] * view.itemsize, view.swizzle), np.uint8)
    memory = array.reshape(-1).view(np.uint8)
    inside = np.ones(len(source.starts), bool) if source.inside is None else source.inside
    for start, place, there in zip(source.starts, places, inside, strict=True):
        image[place - begin : place - begin + source.size] = memory[start : start + source.size] if there else 0
    return image


@st.composite
def boxes(draw):
    """An array, a box within the rules, coordinates in and around the array, and where the box begins."""
    dtype = draw(st.sampled_from(DTYPES))
    size = as_dtype(dtype).storage_bytes
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.sampled_from([0, 32, 64, 128]))
    row = draw(st.sampled_from([row for row in (16, 32, 48, 64, 128) if not swizzle or row <= swizzle]))
    box = [row // size, *(draw(st.integers(1, (16, 8, 4, 2)[i])) for i in range(rank - 1))]
    dims = [draw(st.integers(1, 3)) * 16 // size, *(draw(st.integers(1, 9)) for _ in range(rank - 1))]
    at = [draw(st.integers(-side - 1, dim + 1)) for side, dim in zip(box, dims, strict=True)]
    begin = draw(st.integers(0, 9)) * 128
    array = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 255, (*dims[::-1], size), np.uint8)
    values = array.reshape(*dims[:0:-1], -1).view(as_dtype(dtype).numpy).reshape(dims[::-1])
    return values, box, at, swizzle, begin, dtype


@settings(max_examples=120, deadline=None)
@given(boxes())
def test_boxes_lie_in_shared_memory_as_the_formula_says(case):
    array, box, at, swizzle, begin, dtype = case
    view = view_of(array, box, swizzle, dtype)
    expected = image_of_box(array, at, box, swizzle, begin)
    np.testing.assert_array_equal(moved(array, view, at, begin), expected)
    np.testing.assert_array_equal(moved(array, view, at, begin, elements=True), expected)


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_swizzle_keeps_bytes_within_their_line_and_is_its_own_inverse(span):
    addresses = np.arange(4096)
    there = swizzled(addresses, span)
    np.testing.assert_array_equal(swizzled(there, span), addresses)
    np.testing.assert_array_equal(there // span, addresses // span)
    np.testing.assert_array_equal(there % 16, addresses % 16)


def test_the_chunks_of_rows_of_128_bytes_are_mixed_with_the_row():
    row, chunk = np.divmod(np.arange(64), 8)
    np.testing.assert_array_equal(swizzled(row * 128 + chunk * 16, 128), row * 128 + (chunk ^ row) * 16)


def test_pieces_are_as_large_as_the_edges_allow():
    array = np.zeros((4, 64), np.float16)
    view = view_of(array, (64, 4), 128, "float16")
    assert [16, 16, 2] == [tensor_pieces(view, at).size for at in ((0, 0), (-8, 1), (3, 0))]
    assert tensor_pieces(view, (0, 0)).inside is None


GOOD = {"dims": (64, 32), "strides": (128,), "box": (64, 32), "swizzle": 128, "itemsize": 2}


def test_maps_that_the_driver_accepts():
    assert not map_fault(**GOOD)
    assert not map_fault(**{**GOOD, "box": (32, 8)}), "a box narrower than the span"
    assert not map_fault(**{**GOOD, "dims": (60, 5)}), "a box larger than the tensor"
    assert not map_fault(**{**GOOD, "strides": (64,)}), "rows that overlap"
    assert not map_fault(**{**GOOD, "box": (256, 64), "swizzle": 0}), "a box of 32 KB"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"box": (128, 32)}, "fit into the span of its swizzle, 128 bytes, but these have 256"),
        ({"box": (64, 32), "swizzle": 64}, "fit into the span of its swizzle, 64 bytes, but these have 128"),
        ({"box": (64, 257)}, "1 to 256 elements, not 257"),
        ({"box": (64, 0)}, "1 to 256 elements, not 0"),
        ({"box": (4, 32)}, "multiples of 16 bytes, not 8"),
        ({"strides": (120,)}, "multiples of 16 bytes below"),
        ({"base": 8}, "begin at multiples of 16 bytes, not at 8"),
        ({"swizzle": 16}, "spans 0, 32, 64 or 128 bytes, not 16"),
        ({"dims": (0, 32)}, "1 to 4294967296 elements, not 0"),
        ({"box": (64,)}, "a box has 1 to 5 dimensions"),
    ],
)
def test_maps_that_the_driver_refuses(change, words):
    assert words in map_fault(**{**GOOD, **change})
