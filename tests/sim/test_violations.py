"""The words of errors: element, thread, what it did, the other place, and what to write instead."""

import pytest

from tilelang.errors import DataRace, Loc, MissingProxyFence, ReadBeforeWrite
from tilelang.sim import violations
from tilelang.sim.history import AccessSite, Conflict

THERE = AccessSite(Loc("kernel.py", 4), "tile")


def conflict(thread=1, other=2, before="written", now="read", pending=False, one_warp=False):
    return Conflict((0,), thread, other, before, now, THERE, pending, one_warp=one_warp)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            violations.outside_dimension("A[1, 8]", 7, 8, 1, 1, 8),
            "A[1, 8]: thread 7 accesses index 8 of dimension 1, which has extent 8",
        ),
        (
            violations.outside_dimension("A[1, 6]", 7, 6, 4, 1, 8),
            "A[1, 6]: thread 7 accesses index 6 of 4 elements of dimension 1, which has extent 8",
        ),
        (
            violations.outside_buffer("A", 7, 62, 4, 64),
            "'A': thread 7 accesses 4 elements at offset 62, but the buffer ends at 64",
        ),
        (
            violations.scattered_vector("A", 4, 1, 64),
            "'A': a vector of 4 along dimension 1, whose neighbors are 64 elements apart",
        ),
        (
            violations.misaligned("A[2]", 0, 4, 16, 8, 16),
            "A[2]: thread 0 accesses 4 elements (16 bytes) at byte 8, which is no multiple of 16",
        ),
        (violations.undefined("A[2]", 3, "shared"), "A[2] is read by thread 3 before anything was written there"),
        (
            violations.disagreeing("A[2]", 3, 4),
            "A[2] is written by threads 3 and 4 of one warp in one statement, with different values",
        ),
    ],
)
def test_messages(error, expected):
    assert expected == error.message
    assert error.hint


def test_a_workspace_needs_another_hint():
    assert "workspace" in violations.undefined("A[2]", 3, "global").hint


def test_a_race_names_both_places():
    error = violations.conflicting("tile[3]", "tile", conflict(1, 40))
    assert isinstance(error, DataRace)
    assert "tile[3] is written by thread 40 and read by thread 1 of one block, and nothing orders the two" == error.message
    assert ("written here by thread 40", 4) == (error.notes[0].text, error.notes[0].loc.line)
    assert "put T.sync_threads() between the two" == error.hint


def test_lanes_of_a_warp_may_synchronize_by_themselves():
    assert "T.sync_warp()" in violations.conflicting("tile[3]", "tile", conflict(1, 2, one_warp=True)).hint


def test_another_name_for_the_same_bytes_is_told():
    assert "written here by thread 2 as 'tile'" == violations.conflicting("x[3]", "x", conflict()).notes[0].text


@pytest.mark.parametrize(
    ("before", "now", "kind", "verb"),
    [
        ("written", "read", ReadBeforeWrite, "fills"),
        ("written", "written", DataRace, "fills"),
        ("read", "written", DataRace, "reads"),
    ],
)
def test_what_is_under_way(before, now, kind, verb):
    error = violations.conflicting("tile[3]", "tile", conflict(before=before, now=now, pending=True))
    assert kind is type(error)
    assert f"tile[3] is {now} by thread 1 while an asynchronous copy of thread 2 that {verb} it" in error.message
    assert "the copy was started here" == error.notes[0].text


def test_engines_are_no_threads_of_the_block():
    found = Conflict((0,), 1, 99, "written", "read", THERE, from_async_unit=True)
    error = violations.conflicting("tile[3]", "tile", found)
    assert isinstance(error, DataRace)
    assert (
        "tile[3] is written by an asynchronous copy and read by thread 1, and nothing orders the two" == error.message
    )
    assert "transaction barrier" in error.hint


def test_a_missing_proxy_fence_names_who_should_have_executed_it():
    error = violations.unfenced("tile[3]", "read", 0, 40, THERE)
    assert isinstance(error, MissingProxyFence)
    assert "tile[3] was written by thread 40 and is read by an asynchronous copy of thread 0" in error.message
    assert ("written here by thread 40", 4) == (error.notes[0].text, error.notes[0].loc.line)
    assert "T.fence_proxy_async()" in error.hint


def test_a_block_that_ends_too_early():
    error = violations.unfinished_read("tile", 7)
    assert "'tile': the block ends while a copy that thread 7 started may still read it" == error.message
    assert "groups to be read" in error.hint
