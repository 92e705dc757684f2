"""The memory of frames: calls under `reserve_frames` map none."""

import resource
import sys
from collections.abc import Callable

import pytest

from tilelang.call_stack import reserve_frames


def descend(depth: int) -> int:
    return 0 if depth == 0 else 1 + descend(depth - 1)


def up_and_down(times: int, depth: int) -> int:
    """Calls at every depth, some of which are at the end of a chunk."""
    for _ in range(times):
        descend(3)
    return up_and_down(times, depth - 1) if depth else 0


def faults(function: Callable[..., object], *args: int) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function(*args)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_function_keeps_its_result_and_errors() -> None:
    @reserve_frames
    def halved(number: int, *, by: int = 2) -> float:
        """Halves."""
        return number / by

    assert (2.0, "halved", "Halves.") == (halved(4), halved.__name__, halved.__doc__)
    with pytest.raises(ZeroDivisionError):
        halved(4, by=0)


@pytest.mark.skipif(
    sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info < (3, 14), reason="frames lie elsewhere"
)
def test_recursions_map_no_memory() -> None:
    @reserve_frames
    def all_at_once() -> None:
        up_and_down(500, 300)

    plain = faults(up_and_down, 500, 300)
    if plain < 500:
        pytest.skip("the system does not count page faults")
    assert 20 * faults(all_at_once) < plain
