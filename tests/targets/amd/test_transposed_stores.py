"""Blocks of tiles that threads store to LDS transposed, and layouts of such tiles."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import SCALARS
from tilelang.layout.shared_memory import offsets
from tilelang.lowering.operand_layout import WarpAccess, conflict_cycles
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.transposed_stores import block_layout, by_steps, layouts, store_accesses

DTYPES = {1: "int8", 2: "float16", 4: "float32"}


@given(st.tuples(*[st.sampled_from([16, 32, 64, 128, 256])] * 2), st.sampled_from([1, 2, 4]), st.sampled_from([64, 128, 256]))
def test_threads_hold_each_element_once_in_blocks_of_wide_rows(shape, item_bytes, threads):
    blocks = block_layout(shape, item_bytes, threads)
    if blocks is None:
        return
    places = blocks.table.reshape(-1, 2)
    assert shape[0] * shape[1] == len(places) == len({tuple(place) for place in places.tolist()})
    run = 8 // item_bytes
    first = blocks.table[:, :run]
    assert (first[:, :, 0] == first[:, :1, 0]).all()
    assert (first[:, :, 1] == first[:, :1, 1] + np.arange(run)).all()


@pytest.mark.parametrize("shape", [(64, 96), (8, 8), (64, 64)])
def test_tiles_without_a_block_for_each_thread_have_none(shape):
    assert (block_layout(shape, 2, 128) is None) == (shape != (64, 64))


SHAPES = [(128, 64), (64, 128), (256, 64), (128, 32)]


@pytest.mark.parametrize(
    ("arch", "item_bytes", "shape"),
    [
        each
        for each in itertools.product(["gfx942", "gfx1100", "gfx1201"], [1, 2, 4], SHAPES)
        if each != ("gfx942", 1, (128, 32))  # which has fewer blocks than a wave has lanes
    ],
)
def test_some_layout_has_no_bank_conflicts_for_stores_and_reads(arch, item_bytes, shape):
    machine = MACHINES[arch]
    lane, chunk = np.arange(machine.warp_size), 16 // item_bytes
    stores = list(store_accesses(shape, item_bytes, machine.warp_size))
    assert stores
    for rows in (16, 32):
        if rows > machine.warp_size // 2:
            continue
        accesses = [*stores, WarpAccess(lane % rows, lane // rows * chunk % shape[1], 16)]
        dtype = SCALARS[DTYPES[item_bytes]]
        lost = [sum(conflict_cycles(each, access, dtype, machine) for access in accesses) for each in layouts(shape, item_bytes)]
        assert 0 in lost


@pytest.mark.parametrize("shape", [(128, 64), (64, 32), (32, 16), (16, 256)])
def test_layouts_permute_the_chunks_of_a_tile(shape):
    for layout in layouts(shape, 2):
        places = layout.table.reshape(-1, 2)
        assert shape == layout.output_shape
        assert len(places) == len({tuple(place) for place in places.tolist()})


@pytest.mark.parametrize("shape", [(64, 4), (63, 16), (64, 20)])
def test_tiles_of_broken_lines_have_none(shape):
    assert [] == list(layouts(shape, 2))


@pytest.mark.parametrize("lanes", [32, 64])
def test_all_lanes_store_within_the_tile(lanes):
    shapes = [(rows, columns) for rows in (16, 24, 48, 64, 96) for columns in (16, 24, 48, 80, 96, 128)]
    found = [(shape, access) for shape in shapes for access in store_accesses(shape, 2, lanes)]
    assert found
    for (height, length), access in found:
        assert lanes == len(access.rows) == len(access.columns)
        assert (access.rows < height).all() and (access.columns < length).all()


@pytest.mark.parametrize(("shape", "item_bytes"), [((128, 64), 2), ((64, 128), 1), ((256, 32), 2), ((32, 16), 4)])
def test_steps_of_a_layout_differ_by_a_constant_and_rows_of_a_block_by_two_bits(shape, item_bytes):
    rows, columns = shape
    place = offsets(by_steps(shape, item_bytes))
    assert sorted(place.reshape(-1)) == list(range(rows * columns))
    chunk = 16 // item_bytes
    steps = place.reshape(rows, -1, 2 * chunk)
    expected = np.arange(steps.shape[1])[:, None] * rows * 2 * chunk
    np.testing.assert_array_equal(steps - steps[:, :1], np.broadcast_to(expected, steps.shape))
    row = np.arange(rows)
    flipped = place[row // 8 * 8, 0] ^ (row % 2 * 4 + row // 2 % 2) * chunk
    np.testing.assert_array_equal(flipped + row % 8 * 8 * chunk, place[:, 0])


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_neither_loads_nor_transposed_stores_have_bank_conflicts_in_it(arch):
    machine, shape, dtype = MACHINES[arch], (128, 64), SCALARS["float16"]
    lane, layout = np.arange(machine.warp_size), by_steps(shape, 2)
    assert not any(conflict_cycles(layout, each, dtype, machine) for each in store_accesses(shape, 2, machine.warp_size))
    reads = [lane % 4 + lane // 4 % 2 * 8 + lane // 8 % 2 * 4 + lane // 16 % 2 * 16, lane % 2 * 8 + lane // 2 % 8]
    read = WarpAccess(reads[arch.startswith("gfx1")], lane // 32 * 8, 16)
    assert not conflict_cycles(layout, read, dtype, machine)


@pytest.mark.parametrize("shape", [(48, 64), (64, 24)])
def test_other_tiles_have_no_layout_by_steps(shape):
    assert by_steps(shape, 2) is None
