"""Conflicts between accesses of threads: what is one, and what is ordered."""

import numpy as np
import pytest

from tilelang.errors import Loc
from tilelang.sim.clocks import Clocks
from tilelang.sim.history import AccessSites, History, thread_of, time_of

LINE = Loc("kernel.py", 7)


class Board:
    """A history of 8 units with the calls that tests need."""

    def __init__(self, threads=64, warp_size=32):
        self.clocks = Clocks(threads, warp_size=warp_size)
        self.history = History(8, self.clocks, AccessSites())

    def stamps(self, threads, loc=LINE):
        return self.history.stamps(np.array(threads), loc, "tile")

    def read(self, threads, units):
        return self.history.read(np.array(units), self.stamps(threads))

    def write(self, threads, units, differs=True):
        units = np.array(units)
        return self.history.write(units, self.stamps(threads), lambda: np.full(units.shape, differs))

    def atomic(self, threads, units, stores=True):
        return self.history.atomic(np.array(units), self.stamps(threads), stores=stores)


@pytest.fixture
def board():
    return Board()


def test_reads_do_not_conflict(board):
    assert board.read([0], [3]) is None
    assert board.read([40], [3]) is None


def test_a_read_after_the_write_of_another_thread_conflicts(board):
    board.write([5], [3])
    found = board.read([40], [3])
    assert (40, 5, "written", "read", False) == (found.thread, found.other, found.before, found.now, found.pending)
    assert LINE == found.site.loc
    assert "tile" == found.site.buffer


def test_a_thread_does_not_conflict_with_itself(board):
    board.write([5], [3])
    assert board.read([5], [3]) is None
    assert board.write([5], [3]) is None


def test_a_barrier_ends_conflicts(board):
    board.write([5], [3])
    board.clocks.synchronize_all()
    assert board.read([40], [3]) is None
    assert "read" == board.write([5], [3]).before
    board.clocks.synchronize_all()
    assert board.write([5], [3]) is None


def test_lanes_of_one_warp_conflict_until_the_warp_synchronizes(board):
    board.write([5], [3])
    assert board.read([6], [3]) is not None
    board.clocks.synchronize(np.arange(32))
    assert board.read([6], [3]) is None
    assert board.read([32], [3]) is not None


def test_the_first_conflicting_position_is_reported(board):
    board.write([5], [6])
    found = board.read([40, 41, 42], [1, 6, 6])
    assert (1,) == found.position
    assert 41 == found.thread


def test_two_writes_of_one_value_do_not_conflict(board):
    board.write([5], [3])
    assert board.write([6], [3], differs=False) is None
    assert "written" == board.write([7], [3]).before


@pytest.mark.parametrize("readers", [([0], [33]), ([33], [0]), ([0, 1], [33]), ([33], [0, 1])])
def test_a_write_meets_readers_of_any_warp(board, readers):
    for group in readers:
        board.read(group, [3] * len(group))
    assert board.write([0], [3]).other in (1, 33)
    assert board.write([33], [3]).other in (0, 1)


def test_all_lanes_that_read_one_unit_in_one_statement_count(board):
    board.read(list(range(32)), [3] * 32)
    assert board.write([31], [3]) is not None
    assert board.write([0], [3]) is not None


def test_a_reader_of_another_warp_of_64_threads_is_remembered():
    """Threads 0 and 40 belong to one warp, so that both of their reads leave the slot of other warps to thread 70."""
    board = Board(threads=128, warp_size=64)
    for thread in (70, 0, 40):
        board.read([thread], [3])
    board.clocks.synchronize(np.arange(64))
    assert 70 == board.write([0], [3]).other


def test_atomics_do_not_conflict_with_each_other_but_with_plain_accesses(board):
    assert board.atomic([0], [3]) is None
    assert board.atomic([40], [3]) is None
    assert "updated by an atomic" == board.read([1], [3]).before
    assert "updated by an atomic" == board.write([1], [3]).before
    board.read([2], [4])
    assert "read" == board.atomic([3], [4]).before
    board.write([2], [5])
    assert "written" == board.atomic([3], [5]).before


def test_an_atomic_that_only_reads_conflicts_with_plain_writes_alone(board):
    board.read([0], [3])
    assert board.atomic([40], [3], stores=False) is None
    assert board.read([41], [3]) is None
    board.atomic([0], [4], stores=False)
    assert board.atomic([40], [4]) is None
    board.atomic([0], [5], stores=False)
    assert "read by an atomic" == board.write([40], [5]).before
    board.write([0], [6])
    assert "written" == board.atomic([40], [6], stores=False).before


def test_what_is_on_its_way_must_not_be_touched(board):
    units = np.array([3])
    board.history.begin_pending_write(units, board.stamps([0]))
    assert board.read([0], [3]).pending
    assert board.write([0], [3]).pending
    assert board.atomic([0], [3]).pending
    board.history.end_pending_write(units)
    assert board.read([0], [3]) is None


def test_the_source_of_a_copy_may_be_read_but_not_written(board):
    units = np.array([3])
    board.history.begin_pending_read(units, board.stamps([0]))
    assert board.read([0], [3]) is None
    assert "read" == board.write([0], [3]).before
    board.history.end_pending_read(units)
    assert board.write([0], [3]) is None


def test_asking_leaves_no_trace(board):
    board.history.write(np.array([3]), board.stamps([0]), lambda: np.ones(1, bool), enter=False)
    board.history.read(np.array([4]), board.stamps([0]), enter=False)
    assert board.write([40], [3]) is None
    assert board.write([40], [4]) is None


def test_the_first_meeting_after_the_floor_is_seen(board):
    """Place 0 and thread 0 make the least stamp of a time."""
    board.clocks.synchronize_all()
    history = board.history
    history.write(np.array([0]), history.stamps(np.array([0]), LINE, "first"), lambda: np.ones(1, bool))
    assert board.read([1], [0]) is not None


def test_threads_that_update_one_unit_are_ordered(board):
    board.write([0], [1])
    board.history.follow_atomics(np.array([3]), np.array([0]))
    board.history.follow_atomics(np.array([3]), np.array([40]))
    assert board.read([40], [1]) is None
    assert board.read([41], [1]) is not None


def test_what_engines_have_done_is_noted_without_being_judged(board):
    agent = board.clocks.agent("a barrier")
    units = np.array([3])
    board.write([0], [3])
    stamps = board.stamps([agent])
    board.history.has_written(units, stamps)
    assert stamps.tolist() == board.history.writers(units).tolist()
    found = board.read([0], [3])
    assert (True, "written", LINE) == (found.from_async_unit, found.before, found.site.loc)
    board.clocks.acquire(np.array([0]), board.clocks.release_agent(agent))
    assert board.read([0], [3]) is None
    board.history.has_read(np.array([4]), board.stamps([agent]))
    assert board.write([0], [4]).from_async_unit


def test_stamps_say_who_and_when_and_where(board):
    stamps = board.stamps([7])
    assert (7, board.clocks.now) == (thread_of(stamps)[0], time_of(stamps)[0])
    assert LINE == board.history.site(int(stamps[0])).loc
