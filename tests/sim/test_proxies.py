"""Which writes of threads an engine is certain to see."""

import numpy as np
import pytest

from tilelang.errors import Loc
from tilelang.sim.clocks import Clocks
from tilelang.sim.history import AccessSites, History
from tilelang.sim.proxies import Proxies

LINE = Loc("kernel.py", 1)


class Board:
    """Threads that write, fence, and meet two by two."""

    def __init__(self):
        self.clocks = Clocks(64)
        self.proxies = Proxies(self.clocks)
        self._history = History(8, self.clocks, AccessSites())

    def write(self, thread):
        """The stamp of a write that happens now."""
        return self._history.stamps(np.array([thread]), LINE, "tile")

    def fence(self, thread, what="shared"):
        self.proxies.fence(what, np.array([thread]))

    def synchronize(self, *threads):
        self.clocks.synchronize(np.array(threads))

    def visible(self, thread, write, what="shared"):
        return not self.proxies.invisible(what, thread, write).any()


@pytest.fixture
def board():
    return Board()


def test_a_write_is_visible_after_the_writers_fence_and_a_meeting(board):
    write = board.write(5)
    assert not board.visible(0, write)
    board.fence(5)
    assert not board.visible(0, write), "nothing orders the fence before the engine"
    board.synchronize(0, 5)
    assert board.visible(0, write)
    assert not board.visible(1, write), "thread 1 knows nothing of the fence"


def test_a_meeting_of_the_whole_block_does_as_well(board):
    write = board.write(5)
    board.fence(5)
    board.clocks.synchronize_all()
    assert board.visible(1, write)


def test_a_fence_of_the_thread_that_starts_the_engine_is_none_of_the_writer(board):
    write = board.write(5)
    board.synchronize(0, 5)
    board.fence(0)
    assert not board.visible(0, write)


def test_to_global_memory_it_shows_all_that_its_thread_knew_by_then(board):
    write = board.write(5)
    board.fence(0, "global")
    board.synchronize(0, 5)
    assert not board.visible(0, write, "global"), "it came before the meeting"
    board.fence(0, "global")
    assert board.visible(0, write, "global")
    assert not board.visible(1, write, "global")
    assert not board.visible(0, write)
    board.synchronize(0, 1)
    assert board.visible(1, write, "global")
    own = board.write(0)
    assert not board.visible(0, own, "global")


def test_a_fence_behind_the_meeting_comes_too_late(board):
    write = board.write(5)
    board.synchronize(0, 5)
    board.fence(5)
    assert not board.visible(0, write)


def test_writes_after_the_fence_need_another(board):
    board.fence(5)
    write = board.write(5)
    board.synchronize(0, 5)
    assert not board.visible(0, write)


def test_a_thread_knows_of_its_own_fences(board):
    write = board.write(5)
    assert not board.visible(5, write)
    board.fence(5)
    assert board.visible(5, write)


def test_each_kind_of_memory_has_its_fences(board):
    write = board.write(5)
    board.fence(5, "barriers")
    assert (True, False, False) == tuple(board.visible(5, write, what) for what in ("barriers", "shared", "global"))
    board.fence(5, "shared")
    assert (True, False) == (board.visible(5, write), board.visible(5, write, "global"))


def test_engines_see_what_engines_wrote_and_what_nobody_wrote(board):
    agent = board.clocks.agent("a barrier")
    assert board.visible(0, board.write(agent))
    assert board.visible(0, np.array([0]))


def test_many_writes_are_told_apart(board):
    first = board.write(5)
    board.fence(5)
    second = board.write(5)
    third = board.write(6)
    board.fence(6)
    board.clocks.synchronize_all()
    writes = np.concatenate([first, second, third])
    assert [False, True, False] == board.proxies.invisible("shared", 0, writes).tolist()


def test_old_fences_may_be_forgotten_without_blaming_anybody(board):
    write = board.write(5)
    board.fence(5)
    board.synchronize(0, 5)
    for _ in range(2000):
        board.fence(5)
    assert board.visible(0, write)
