"""TMA copies on a GPU against the formula of the simulator tests: every rank and swizzle."""

import numpy as np
import pytest
from device_launch import Module, architecture, needs_gpu
from device_text import cuda_source
from tensor_copies import box_again, first_stored, image_of_box

from tilelang.codegen.source import TensorMapText
from tilelang.dtypes import as_dtype
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_INIT, MBARRIER_WAIT
from tilelang.targets.nvidia.isa.tma import TMA_STORE_COMMIT, tma_load, tma_reduce, tma_store, tma_store_wait
from tilelang.targets.nvidia.isa.types import INTEGERS
from tilelang.targets.nvidia.machines import Feature
from tilelang.targets.nvidia.runtime.cuda_driver import open_driver
from tilelang.targets.nvidia.runtime.tensor_map import TensorMaps, TensorMapShape
from tilelang.targets.target import Target

pytestmark = needs_gpu

SKIP = 384  # bytes of shared memory before the box, so that it does not begin where the pattern of chunks does
CASES = [  # dtype, extents innermost first, box, coordinates, swizzle
    ("float16", (48,), (64,), (-8,), 0),
    ("float32", (40, 20), (32, 16), (16, 9), 128),
    ("float16", (40, 20), (32, 16), (-8, -5), 64),
    ("uint8", (48, 20), (32, 16), (16, 2), 32),
    ("float16", (64, 9), (64, 8), (0, 0), 128),
    ("float16", (64, 9), (32, 8), (8, 3), 128),  # rows narrower than the span
    ("float32", (24, 6, 5), (16, 4, 3), (12, 4, -1), 64),
    ("float16", (64, 16, 4), (64, 8, 2), (0, 12, 3), 128),
    ("int32", (8, 5, 4, 3), (8, 3, 2, 2), (0, 3, 3, 2), 32),
    ("float16", (16, 5, 4, 3, 3), (16, 2, 2, 2, 2), (8, 4, -1, 2, 2), 32),
]


def kernel(case):
    """Loads a box, shows shared memory, stores the box into one tensor and adds it to another."""
    dtype, _, box, at, swizzle = case
    rank, row = len(box), box[0] * as_dtype(dtype).storage_bytes
    rows = int(np.prod(box[1:]))
    size, taken = rows * row, rows * max(row, swizzle)
    places, stored = (list(map(str, place)) for place in (at, first_stored(at)))
    fold = tma_reduce(rank, "add") if as_dtype(dtype) != "uint8" else tma_store(rank)
    records = [MBARRIER_INIT, MBARRIER_ARRIVE_EXPECT_TX, MBARRIER_WAIT, FENCE_PROXY_ASYNC, tma_load(rank)]
    records += [tma_store(rank), fold, TMA_STORE_COMMIT, tma_store_wait(0, read=False)]
    text = {record.name: record.texts["cuda"] for record in records}
    lines = [
        "extern __shared__ __align__(1024) uint8_t memory[];",
        "uint64_t* bar = (uint64_t*)memory;",
        f"uint8_t* tile = memory + {SKIP};",
        f"for (int i = threadIdx.x; i < {taken}; i += 32) tile[i] = 0;",
        f"{text['fence_proxy_async']};",
        "__syncthreads();",
        "if (threadIdx.x == 0) {",
        f"{text['mbarrier_init'].format('bar', 1)};",
        f"{text['fence_proxy_async']};",
        f"{text['mbarrier_arrive_expect_tx'].format('bar', size)};",
        f"{text[f'tma_load_{rank}d'].format('tile', 'a', 'bar', *places)};",
        "}",
        "__syncthreads();",
        f"{text['mbarrier_wait'].format('bar', 0)};",
        f"for (int i = threadIdx.x; i < {taken}; i += 32) image[i] = tile[i];",
        "if (threadIdx.x == 0) {",
        f"{text[f'tma_store_{rank}d'].format('b', 'tile', *stored)};",
        f"{text[fold.name].format('c', 'tile', *stored)};",
        f"{text['tma_store_commit']};",
        f"{text['tma_store_wait_0']};",
        "}",
    ]
    maps = ", ".join(f"const __grid_constant__ tl_tensor_map {name}" for name in "abc")
    body = " ".join(lines)
    source = f'extern "C" __global__ void k({maps}, uint8_t* image) {{ {body} }}'
    return cuda_source([INTEGERS, *(record.helpers["cuda"] for record in records)], [source])


def encoded(array, address, text):
    """The map of a dense array that lies at an address of the GPU's memory."""
    shape = TensorMapShape(text, "A", array.shape[::-1], array.strides[-2::-1])
    assert not shape.refusal(address)
    driver = open_driver()
    return TensorMaps(shape, driver.map_encoder("cuTensorMapEncodeTiled"), driver.error)[address]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_boxes_are_where_the_formula_says(case):
    if not Target("cuda", architecture()).has(Feature.TMA):
        pytest.skip("has no copy engine")
    dtype, dims, box, at, swizzle = case
    a = (np.arange(np.prod(dims)) % 100 + 1).reshape(dims[::-1]).astype(as_dtype(dtype).numpy)
    b, c = np.zeros_like(a), np.ones_like(a)
    expected_image = image_of_box(a, at, box, swizzle, SKIP)
    image = np.full_like(expected_image, 255)
    text = TensorMapText(0, as_dtype(dtype), (), (), box, swizzle)
    Module(kernel(case)).run_with_maps(
        "k", [a, b, c], [image], lambda array, place: encoded(array, place, text), shared=SKIP + image.nbytes
    )
    np.testing.assert_array_equal(image, expected_image)
    moved = box_again(a, at, box)
    expected = np.where(moved.covered, moved.values, 0).astype(a.dtype)
    folded = np.where(moved.covered, moved.values + (0 if dtype == "uint8" else 1), 1).astype(a.dtype)
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(c, folded)
