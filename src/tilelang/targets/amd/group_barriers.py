"""Barriers of groups of threads: of single waves only, as the hardware has one barrier per work-group.

Takes a launch, gives the barriers of its groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tilelang.errors import Loc, NoLowering
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import CallStmt, Group, Launch, Stmt


class WaveBarriers:
    """The barriers of a launch."""

    def __init__(self, launch: Launch) -> None:
        """All launches have the same barriers."""

    def barrier(self, group: Group, loc: Loc) -> NoReturn:
        """Refuses groups of several waves."""
        raise NoLowering(
            f"T.ws: a group of {group.count} threads has no barrier on AMD GPUs, which join all threads of a block or "
            "those of one wave",
            loc=loc,
            hint="let groups of one wave share memory, or write T.sync_threads between groups",
        )

    def vote(self, group: Group, call: CallStmt) -> NoReturn:
        """Refuses them, too."""
        self.barrier(group, call.loc)

    def subgroups(self, group: Group, thread: Expr) -> list[tuple[int, Callable[[Loc], Stmt]]]:
        """None: only single waves have barriers."""
        return []
