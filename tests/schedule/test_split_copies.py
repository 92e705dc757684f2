"""Copies of a loop, divided in loads to registers and stores from them."""

import pytest
from gathered_rows import gathered

from tilelang.ir.stmt import For
from tilelang.ir.visit import walk
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.split_copies import computing, filled_by, prefetchable, split_copies


def loop_of(form):
    return next(s for s in walk(gathered(form).body) if isinstance(s, For))


@pytest.mark.parametrize(
    ("form", "copies", "others"),
    [
        ("row", 1, 0),
        ("other", 1, 0),
        ("table", 2, 0),  # the table of indices as well
        ("converted", 0, 1),
        ("computed", 0, 1),
        ("half", 0, 0),
        ("shifted", 0, 1),
    ],
)
def test_what_copies_and_what_computes(form, copies, others):
    body = LoopBody(loop_of(form))
    assert (copies, others) == (len(prefetchable(body)), len(computing(body)))


def test_a_gather_fills_its_tile():
    (copy,) = prefetchable(LoopBody(loop_of("row")))
    assert ("tile", (8, 16)) == (filled_by(copy).buffer.name, filled_by(copy).static_extent)


def test_the_parts_stand_in_the_order_of_the_program():
    loop = loop_of("row")
    split = split_copies(loop, prefetchable(LoopBody(loop)), [])
    index, load, store = LoopBody(split.loop).statements[:3]
    assert ({load}, {store}, {index: load}) == (split.loads, split.stores, split.needed_by)
    assert ["index_rows", "tile_next"] == sorted(alloc.buffer.name for alloc in split.registers)
    (parts,) = split.parts.values()
    assert {index, load, store} == parts


def test_what_computes_a_tile_stays_behind_its_loads():
    loop = loop_of("computed")
    split = split_copies(loop, [], computing(LoopBody(loop)))
    load, changed = LoopBody(split.loop).statements[:2]
    assert {load: changed} == split.needed_by
    assert (set(), set()) == (split.loads, split.stores)
