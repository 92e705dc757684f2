"""Timelines are plain values."""

from tilelang.errors import NOWHERE
from tilelang.ir.timeline import Timeline, TimelineSpan


def test_timelines_of_the_same_spans_are_equal():
    span = TimelineSpan("warps", "a", "line 3", 0, 100)
    assert Timeline("in order", ("warps",), (span,), 100) == Timeline("in order", ("warps",), (span,), 100, NOWHERE)
