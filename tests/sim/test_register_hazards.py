"""Registers that a pending wgmma uses are not accessed by other instructions."""

import numpy as np
import pytest

from tilelang.errors import DataRace, Loc
from tilelang.sim.register_hazards import RegisterHazards
from tilelang.sim.storage import Footprint
from tilelang.targets.nvidia.isa.async_units import WGMMA


class Warp:
    def __init__(self):
        self.mask, self.lanes, self.threads = np.ones(32, bool), None, np.arange(32) + 96
        self.loc, self.counters, self.footprint = Loc("kernel.py", 7), None, None
        self.fences, self.completing = 0, False

    def changed(self):
        pass


def asked(registers, warp, offset, count, *, write):
    """What work touches, as it is asked for it."""
    warp.footprint = Footprint(WGMMA)
    assert not registers.access(warp, offset, count, write=write)
    ((memory, lanes, units),) = warp.footprint.writes if write else warp.footprint.reads
    warp.footprint = None
    assert memory is registers
    return lanes, units


@pytest.fixture
def warp():
    return Warp()


@pytest.mark.parametrize(("offset", "count"), [(4, 1), (0, 5), (np.full(32, 7), 1), (np.arange(32) % 8, 1)])
def test_sums_of_a_product_are_neither_read_nor_written(warp, offset, count):
    registers = RegisterHazards("C", 16)
    lanes, units = asked(registers, warp, 4, 4, write=True)
    registers.begin_pending_write(warp, lanes, units)
    for write in (False, True):
        with pytest.raises(DataRace, match="'C'.* while a wgmma that accumulates in them") as error:
            registers.access(warp, offset, count, write=write)
        assert 7 == error.value.notes[0].loc.line
        assert "wait for it first: T.wait_wgmma(0), or" in error.value.hint
    assert registers.access(warp, 0, 4, write=True)
    assert registers.access(warp, np.full(32, 8), 8, write=True)
    registers.end_pending_write(units)
    assert registers.access(warp, offset, count, write=True)


def test_operands_of_a_product_may_be_read(warp):
    registers = RegisterHazards("A", 8)
    lanes, units = asked(registers, warp, 0, 4, write=False)
    registers.begin_pending_read(warp, lanes, units)
    assert registers.access(warp, 0, 4, write=False)
    with pytest.raises(DataRace, match="while a wgmma that reads them"):
        registers.access(warp, 3, 1, write=True)
    registers.end_pending_read(units)
    assert registers.access(warp, 3, 1, write=True)


def test_several_products_share_sums(warp):
    registers = RegisterHazards("C", 8)
    lanes, units = asked(registers, warp, 0, 8, write=True)
    registers.begin_pending_write(warp, lanes, units)
    registers.begin_pending_write(warp, lanes, units)
    registers.end_pending_write(units)
    with pytest.raises(DataRace):
        registers.access(warp, 0, 1, write=False)
    warp.completing = True
    assert registers.access(warp, 0, 8, write=True)  # the product itself


def test_the_last_access_of_the_program_is_known_by_the_fences_before_it(warp):
    registers = RegisterHazards("C", 8)
    assert 0 == registers.fences_at_last_access
    registers.access(warp, 0, 1, write=False)
    assert 0 == registers.fences_at_last_access
    warp.fences, warp.completing = 3, True
    registers.access(warp, 0, 1, write=True)
    assert 0 == registers.fences_at_last_access
    warp.completing = False
    registers.access(warp, 0, 1, write=True)
    assert 3 == registers.fences_at_last_access
