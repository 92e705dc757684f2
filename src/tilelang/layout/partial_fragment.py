"""`T.PartialFragment`: which threads hold parts of the totals of a reducer.

Takes what a `Fragment` takes, gives one whose copies stand for parts that are yet to be combined. Invariant: it says
nothing of results; how parts of totals are held is decided by the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.api import public
from tilelang.errors import ProgramValueError
from tilelang.layout.fragment import Fragment


@public
class PartialFragment(Fragment):
    """The layout of a reducer while threads hold parts of its totals: `T.annotate_layout({acc: PartialFragment(...)})`.

    Args:
        shape: As of `T.Fragment`, and so the functions.
        forward_fn: Gives (thread, place) of an element, or of a part with its number as the last argument.
        forward_thread_fn: Gives the thread alone.
        replicate: How many threads hold something for each element.
        forward_index_fn: Gives the place.
        combine: How many of them hold different parts, those whose number is the same modulo `combine` the same one;
            all of them without it.

    Raises:
        ProgramValueError: `combine` does not divide `replicate`. The others as of `T.Fragment`.
    """

    def __init__(
        self,
        shape: Sequence[int] | int,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
        combine: int | None = None,
    ) -> None:
        super().__init__(shape, forward_fn, forward_thread_fn, replicate, forward_index_fn)
        self.combine = replicate if combine is None else combine
        if isinstance(self.combine, bool) or not isinstance(self.combine, int) or self.combine < 1:
            raise ProgramValueError(f"T.PartialFragment: combine must be a positive int, got {combine!r:.40}")
        if replicate % self.combine:
            raise ProgramValueError(
                f"T.PartialFragment: combine ({combine}) must evenly divide replicate ({replicate})",
                hint="leave it out where all threads of an element hold different parts",
            )

    @staticmethod
    def from_fragment(fragment: Fragment) -> PartialFragment:
        """The same map, whose copies are parts."""

        def thread(*at: Any) -> Any:
            return fragment.map_forward_thread(at)

        return PartialFragment(fragment.shape, None, thread, fragment.replicate_size, fragment)

    def as_post_collective(self) -> Fragment:
        """The same map once the parts are combined: its copies are equal."""

        def thread(*at: Any) -> Any:
            return self.map_forward_thread(at)

        return Fragment(self.shape, None, thread, self.replicate_size, self)


@public
def make_fully_replicated_partial_fragment(shape: Sequence[int], thread_extent: int) -> PartialFragment:
    """Every one of `thread_extent` threads holds a part of each element, in row-major order.

    Raises:
        ProgramTypeError: An extent is no positive int.
    """
    return PartialFragment(shape, None, lambda *at: at[-1] if thread_extent > 1 else 0, thread_extent)
