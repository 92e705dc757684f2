import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_copies import image_of_box

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.isa.simulated import TensorMapView
from tilelang.targets.nvidia.isa.tensor_box import map_fault, pixel_pieces, shared_pieces, swizzled, tensor_pieces

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


@settings(max_examples=2 * settings().max_examples)
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


# -- pixels ------------------------------------------------------------------------------------------------------------
@st.composite
def windows(draw):
    """An image (N, H, W, C), (kernel, stride, dilation, pad), a tap, the first row of a tile, and its rows."""
    kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    pad, reach = draw(st.integers(0, 3)), dilation * (kernel - 1)
    height, width = (draw(st.integers(max(1, reach + 1 - 2 * pad), 8)) for _ in range(2))
    image = np.arange(1, 2 * height * width * 16 + 1, dtype="int32").reshape(2, height, width, 16)
    tap = (draw(st.integers(0, kernel - 1)), draw(st.integers(0, kernel - 1)))
    return image, (kernel, stride, dilation, pad), tap, draw(st.integers(0, 40)), draw(st.integers(1, 40))


@settings(max_examples=80, deadline=None)
@given(windows(), st.sampled_from([0, 8]))
def test_pixels_follow_each_other_as_outputs_of_a_convolution_do(case, channel):
    image, (kernel, stride, dilation, pad), (kh, kw), row, rows = case
    number, height, width, _ = image.shape
    reach = dilation * (kernel - 1)
    tops, lefts = (range(-pad, size + pad - reach, stride) for size in (height, width))
    bases = list(itertools.product(range(number), tops, lefts))
    row %= len(bases)
    padded = np.pad(image, ((0, 0), (pad + reach,) * 2, (pad + reach,) * 2, (0, 0)))
    expected = np.zeros((rows, 8), "int32")
    for i, (n, top, left) in enumerate(bases[row : row + rows]):
        at = (top + kh * dilation + pad + reach, left + kw * dilation + pad + reach)
        expected[i] = padded[(n, *at)][channel : channel + 8]
    corner = (-pad, pad - reach, stride)
    buffer = Buffer("A", tuple(const(n, INT32) for n in image.shape), as_dtype("int32"), Scope.GLOBAL)
    view = TensorMapView(buffer, image.shape[::-1], image.strides[-2::-1], (8, rows), 0, (corner, corner))
    assert "" == map_fault(view.dims, view.strides, view.box, 0, 4, pixels=view.pixels)
    n, top, left = bases[row]
    pieces = pixel_pieces(view, (channel, left, top, n), (kw * dilation, kh * dilation))
    memory, found = image.reshape(-1), []
    for place, start in enumerate(pieces.starts):
        inside = pieces.inside is None or pieces.inside[place]
        found.append(memory[start // 4 : (start + pieces.size) // 4] if inside else np.zeros(pieces.size // 4, "int32"))
    np.testing.assert_array_equal(expected, np.concatenate(found).reshape(rows, 8))


IMAGE = {"dims": (16, 9, 7, 2), "strides": (32, 288, 2016), "box": (16, 64), "swizzle": 32, "itemsize": 2}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pixels": ((0, 0, 1),)}, "pixels are those of images with 2 spatial dimensions, beside channels and a number"),
        ({"box": (16, 1025)}, "a box has 1 to 1024 pixels, not 1025"),
        ({"pixels": ((0, 0, 1), (-129, 0, 1))}, "corners lie -128 to 127 elements from the image's, not -129 and 0"),
        ({"pixels": ((0, 0, 9), (0, 0, 1))}, "base pixels are 1 to 8 elements apart, not 9"),
        ({"pixels": ((0, 0, 1), (0, -7, 1))}, "no base pixel lies between 0 and -1"),
        ({"box": (32, 64)}, "the rows of a box fit into the span of its swizzle, 32 bytes, but these have 64"),
        ({}, ""),
    ],
)
def test_a_map_of_pixels_that_cannot_be_is_explained(change, why):
    assert why == map_fault(**{**IMAGE, "pixels": ((-1, -1, 1), (-1, -1, 2)), **change})
