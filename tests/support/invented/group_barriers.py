"""Barriers of groups of threads: those of one wave, since a machine without others joins only all waves of a block."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from invented.machines import WAVE_SIZE
from tilelang.errors import Loc, NoLowering
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import Group, Launch, Stmt


class WaveBarriers:
    """The barriers of a launch."""

    def __init__(self, launch: Launch) -> None:
        """Any launch has the same."""

    def barrier(self, group: Group, loc: Loc) -> NoReturn:
        """Refuses groups of several waves."""
        raise NoLowering(
            f"T.ws: a group of {group.count} threads has no barrier on this machine, which joins all threads of a block "
            f"or {WAVE_SIZE}",
            loc=loc,
            hint=f"let groups of {WAVE_SIZE} threads share memory, or write T.sync_threads between groups",
        )

    def subgroups(self, group: Group, thread: Expr) -> list[tuple[int, Callable[[Loc], Stmt]]]:
        """None besides single waves."""
        return []
