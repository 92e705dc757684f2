"""The thread groups of a launch: which threads execute a statement together, and which groups access a buffer.

Takes a launch, gives `ThreadGroups`. Invariant: a statement belongs to the innermost group around it; groups of the
same threads are identified, and the block is the group of all threads.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Group, If, Launch, Stmt
from tilelang.ir.visit import sub_statements


def contains(group: Group, other: Group) -> bool:
    """Whether all threads of the other group are in this one."""
    return group.first <= other.first and other.end <= group.end


class ThreadGroups:
    """The thread groups of one launch.

    Attributes:
        block: All threads.
    """

    def __init__(self, launch: Launch) -> None:
        self.block = Group(0, launch.num_threads)
        self._around: dict[Stmt, Group] = {}
        self._visit(launch.body, self.block)
        self._is_one = len(set(self._around.values())) == 1
        self._users: dict[Buffer, dict[Group, None]] = {}
        for access in () if self._is_one else accesses(launch.body).all:
            self._users.setdefault(access.buffer.storage, {})[self.around(access.stmt)] = None

    def around(self, stmt: Stmt) -> Group:
        """The threads that execute a statement of the launch together."""
        return self._around.get(stmt, self.block)

    def users(self, buffer: Buffer) -> tuple[Group, ...]:
        """The groups that access a buffer or a view of it, in order of first use."""
        return (self.block,) if self._is_one else tuple(self._users.get(buffer.storage, ()))

    def only_user(self, buffer: Buffer) -> Group | None:
        """The group that accesses a buffer, if there is only one."""
        users = self.users(buffer)
        return users[0] if len(users) == 1 else None

    def _visit(self, stmt: Stmt, group: Group) -> None:
        self._around[stmt] = group
        if isinstance(stmt, If) and stmt.group is not None:
            group = dataclasses.replace(stmt.group, collective=False)
        for child in sub_statements(stmt):
            self._visit(child, group)
