"""Inserts the barriers that groups of threads need among themselves, which are their own: others do not come there.

Takes a thread-level function in which barriers of the block stand where they are needed; treats what each group does
together as the program of a block of these threads, and groups in it likewise. Where the warps of a group, or teams of
several that have barriers, never meet on shared memory, each waits for its own threads only, so that one may compute
while another stores. Invariant: nothing but barriers of groups is added.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.analysis.uniform import Uniformity, uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Bind, For, Group, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, any_expr, walk
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.thread.insert_barriers import insert_barriers
from tilelang.transforms.place_barriers import block_barrier

_LOWEST = 8  # numbers below are the program's own, whichever it computes


class Barriers(Protocol):
    """The barriers of a machine for groups of threads of one launch; those of a warp are the same for all machines."""

    def barrier(self, group: Group, loc: Loc) -> Stmt:
        """A barrier of the threads of a group, which are more than a warp.

        Raises:
            NoLowering: The machine has none, or none is left.
        """

    def teams(self, group: Group, thread: Expr) -> Sequence[tuple[int, Callable[[Loc], Stmt]]]:
        """Numbers of neighbors of a group that may have barriers of their own, and what makes those.

        Args:
            group: The group.
            thread: The executing thread's place in it.
        """


def insert_group_barriers(of_launch: Callable[[Launch], Barriers]) -> Pass:
    """The pass for a machine with these barriers."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        domain, warp_size = of_function(func), context.target.machine.warp_size
        return with_launches(func, lambda launch: _grouped(launch, domain, of_launch, warp_size))

    return Pass(
        "insert_group_barriers", run, Level.THREAD, Level.THREAD,
        requires=(Property.BLOCK_BARRIERS_PLACED, Property.THREAD_GROUPS, Property.LOGICAL_INDICES),
        establishes=(Property.GROUP_BARRIERS_PLACED,),
    )


class _Groups(Rewriter):
    """The groups that stand in a launch, or in what a group does as if it were one."""

    def __init__(
        self, launch: Launch, threads: Group, domain: Domain, uniform: Uniformity, barriers: Barriers, warp_size: int
    ) -> None:
        self._launch, self._threads, self._domain = launch, threads, domain
        self._uniform, self._barriers, self._warp_size = uniform, barriers, warp_size
        self._loops = 0  # around the current statement
        self._busy: list[Group] = []  # those up to here that the program itself orders among each other

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If) and node.group is not None:
            return self._group(node, node.group)
        if self._uniform.diverges(node) and any(transfers_ownership(s) for s in walk(node)):
            self._busy.append(self._threads)
        self._loops += isinstance(node, For | While)
        made = self.rebuild_stmt(node)
        self._loops -= isinstance(node, For | While)
        return made

    def _group(self, node: If, group: Group) -> Stmt:
        first, *rest = node.then_body.body if isinstance(node.then_body, Seq) else (node.then_body,)
        body = Seq(tuple(rest), loc=node.then_body.loc)
        if not isinstance(first, Bind):
            raise CompilerBug("insert_group_barriers: a group must say first which of its threads is executing")
        inside = dataclasses.replace(self._launch, body=body, threads=(group.count, 1, 1), thread=first.var)
        warp = self._warp_size
        alone = functools.partial(block_barrier, group.count, warp)
        barrier = alone if group.count <= warp else functools.partial(self._barriers.barrier, group)
        before: list[Stmt] = []
        if any(transfers_ownership(s) for s in walk(body)):
            # where the program orders groups itself, no barrier of the block does it for what these threads did before
            if group.count > 1 and (self._loops or any(group.overlaps(other) for other in self._busy)):
                before = [barrier(node.loc)]
            self._busy.append(group)
        if group.count > 1:
            thread = self._launch.thread
            if any(any_expr(s, lambda e: e is thread) for s in rest):
                raise CompilerBug("insert_group_barriers: a group must name its threads by their place in it")
            teams: list[tuple[int, Callable[[Loc], Stmt]]] = []
            if group.count > warp and group.count % warp == group.first % warp == 0:
                teams.append((warp, functools.partial(block_barrier, warp, warp)))
            teams += self._barriers.teams(group, first.var)
            inside = insert_barriers(inside, warp, self._domain, self._uniform, barrier, teams)
        groups = _Groups(inside, group, self._domain, self._uniform, self._barriers, warp)
        made = groups.visit(inside.body) or body
        return dataclasses.replace(node, then_body=Seq((first, *before, made), loc=node.then_body.loc))


def _grouped(launch: Launch, domain: Domain, of_launch: Callable[[Launch], Barriers], warp_size: int) -> Launch:
    if not any(isinstance(s, If) and s.group for s in walk(launch.body)):
        return launch
    block = Group(0, launch.num_threads)
    groups = _Groups(launch, block, domain, uniformity(launch), of_launch(launch), warp_size)
    return dataclasses.replace(launch, body=groups.visit(launch.body) or launch.body)
