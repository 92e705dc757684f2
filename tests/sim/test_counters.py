"""Sectors of global memory, wavefronts of shared memory, and the table."""

import numpy as np
import pytest

from tilelang.errors import Loc
from tilelang.sim.counters import Counters, distinct_sectors
from tilelang.targets.machine import Machine

LANES = np.arange(32)
MACHINE = Machine("warps", warp_size=32, shared_banks=32, bank_bytes=4)
LINE = Loc("kernel.py", 3)


def shared_load(addresses, width, lanes=LANES, machine=MACHINE):
    """The wavefronts of a load from shared memory, and how many it would take without conflicts."""
    counters = Counters()
    counters.shared_access("load", addresses, lanes, width, LINE, machine)
    traffic = counters.traffic["shared load"]
    return traffic.transactions, traffic.ideal


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 4, 4, 4),
        (LANES * 4 + 4, 4, 5),
        (LANES * 16, 16, 16),
        (LANES * 128, 4, 32),
        (LANES * 0, 4, 1),
        (LANES * 0 + 28, 8, 2),
        (LANES[:0], 4, 0),
    ],
)
def test_a_request_costs_the_sectors_that_its_lanes_touch(addresses, width, expected):
    assert expected == distinct_sectors(addresses, width)


@pytest.mark.parametrize(
    ("name", "addresses", "width", "expected"),
    [
        ("neighbors", LANES * 4, 4, (1, 1)),
        ("one word for all", LANES * 0, 4, (1, 1)),
        ("halves of words", LANES * 2, 2, (1, 1)),
        ("stride of two words", LANES * 8, 4, (2, 1)),
        ("a column of 32 words", LANES * 128, 4, (32, 1)),
        ("a padded column", LANES * 132, 4, (1, 1)),
        ("8 bytes per lane", LANES * 8, 8, (2, 2)),
        ("16 bytes per lane", LANES * 16, 16, (4, 4)),
        ("rows of 64 halves, 16 bytes each", LANES * 128, 16, (32, 4)),
        ("the same rows, chunks swizzled", LANES * 128 + (LANES % 8) * 16, 16, (4, 4)),
    ],
)
def test_shared_memory_serves_one_word_per_bank_and_wavefront(name, addresses, width, expected):
    assert expected == shared_load(addresses, width)


def test_only_active_lanes_cost():
    lanes = np.array([0, 1, 9])
    assert (1, 1) == shared_load(lanes * 128 * 0, 4, lanes)
    assert (2, 2) == shared_load(lanes * 16, 16, lanes)


def test_warps_and_banks_are_those_of_the_machine():
    lanes = np.arange(64)
    wave = Machine("wave", warp_size=64, shared_banks=64, bank_bytes=4)
    assert [(1, 1), (2, 1), (64, 1)] == [shared_load(lanes * step, 4, lanes, wave) for step in (4, 8, 256)]


def test_kinds_and_lines_are_summed():
    counters = Counters()
    first, second = Loc("k.py", 3), Loc("k.py", 4)
    counters.shared_access("load", LANES * 128, LANES, 4, first, MACHINE)
    counters.shared_access("load", LANES * 4, LANES, 4, second, MACHINE)
    counters.global_access("store", LANES * 8, 4, second)
    counters.count("load shared 32", 2)
    load = counters.traffic["shared load"]
    assert (2, 256, 33, 2, 31) == (load.requests, load.bytes, load.transactions, load.ideal, load.extra)
    assert 31 == counters.bank_conflicts
    assert 0 == counters.lines["shared load", second].extra
    assert 8 == counters.traffic["global store"].transactions
    assert 4 == counters.traffic["global store"].extra


def test_the_table_names_the_costly_lines():
    counters = Counters(launches=1, blocks=2, warps=8)
    counters.shared_access("load", LANES * 128, LANES, 4, Loc("/home/user/kernel.py", 3), MACHINE)
    counters.shared_access("load", LANES * 4, LANES, 4, Loc("/home/user/kernel.py", 4), MACHINE)
    counters.count("load shared 32", 2)
    text = counters.table()
    assert "launches 1   blocks 2   warps 8   block barriers 0" == text.splitlines()[0]
    assert "shared load kernel.py:3" in text
    assert "kernel.py:4" not in text
    assert [line.split() for line in text.splitlines() if line.startswith("shared load ")][0] == (
        "shared load 2 256 33 2 31".split()
    )


def test_a_run_without_accesses_has_a_table_too():
    assert "instruction" in Counters().table()


def test_engines_fill_the_sectors_that_they_move():
    counters = Counters()
    counters.bulk_access("bulk load", 80, LINE)
    assert (1, 80, 3, 3) == tuple(vars(counters.traffic["bulk load"]).values())
    assert ("bulk load", LINE) in counters.lines
