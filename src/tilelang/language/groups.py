"""`T.ws`: what only some groups of four warps do, together (level 3).

Takes numbers of groups, emits a branch that their threads take. Invariant: a group is of neighbors; whether they are
whole warps is checked for the machine that is compiled for.
"""

from __future__ import annotations

from types import TracebackType

from tilelang.errors import ProgramError
from tilelang.ir.builder import as_body
from tilelang.ir.stmt import Group, If
from tilelang.language.api import api
from tilelang.language.stage import current
from tilelang.language.threads import linear_thread

__all__ = [
    "ws",
]

WARP_GROUP_THREADS = 128  # on every machine; Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"


class ws:
    """`with T.ws(0):` lets only the first 128 threads of the block do what stands inside, together.

    `T.Parallel` and tile operators inside are shared out among these threads, and barriers that they need there are
    theirs alone. Fragments of one group are distributed over its registers; others are kept in shared memory.
    Tiles are printed there once. What else stands inside is executed by each of them, as in CUDA. Groups run at the
    same time; order what they share with `T.alloc_barrier`, or leave it to the end of the branches, after which all
    threads go on.

    Args:
        groups: Numbers of neighboring groups of 128 threads.

    Raises:
        ProgramError: There is no such group, or they are no neighbors; when it is compiled, that the block is no whole
            number of warps.
    """

    @api
    def __init__(self, *groups: int) -> None:
        self._stager = current("T.ws")
        thread = linear_thread("T.ws")
        assert self._stager.hints is not None
        x, y, z = self._stager.hints.threads
        threads = x * y * z
        there = -(-threads // WARP_GROUP_THREADS)
        if not groups or not all(isinstance(group, int) and 0 <= group < there for group in groups):
            raise ProgramError(
                f"T.ws: expected numbers of groups, got {groups!r:.40}",
                hint=f"{threads} threads make groups 0 to {there - 1} of {WARP_GROUP_THREADS}",
            )
        low, high = min(groups), max(groups)
        if len(groups) != high - low + 1 or len(set(groups)) != len(groups):
            raise ProgramError(f"T.ws: {groups!r:.40} are not neighbors", hint="write one `with` for each of them")
        first = low * WARP_GROUP_THREADS
        self._group = Group(first, min((high + 1) * WARP_GROUP_THREADS, threads) - first)
        self._condition = self._group.condition(thread)

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        self._stager.open_block()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        body = self._stager.close_block()
        if kind is None:
            self._stager.emit(If(self._condition, as_body(body, self._loc), group=self._group, loc=self._loc))
