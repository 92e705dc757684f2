"""Inserts barriers between the threads of a group (named barriers), for conflicting accesses within the group.

Takes a thread-level function with its block barriers; analyzes the body of each thread group as the program of a block
of these threads, recursively. Where subgroups (single warps, or several if the machine has barriers for them) have no
conflicts with each other, each gets a barrier of its own, so that one may compute while another stores. Invariant: only
barriers are added.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from tilelang.analysis.thread_accesses import transfers_ownership
from tilelang.analysis.uniformity import Uniformity, uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.errors import CompilerBug, Loc
from tilelang.ir.expr import Expr
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Bind, CallStmt, For, Group, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, uses, walk
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.passes.thread.insert_barriers import insert_barriers
from tilelang.targets.gpu.isa.sync import SYNC_GROUP_OR
from tilelang.transforms.place_barriers import block_barrier


class Barriers(Protocol):
    """Barriers of a machine for thread groups larger than a warp, allocated for one launch."""

    def barrier(self, group: Group, loc: Loc) -> Stmt:
        """A barrier of the threads of a group, which are more than a warp.

        Raises:
            NoLowering: The machine has none, or all are in use.
        """

    def vote(self, group: Group, call: CallStmt) -> Stmt:
        """What stands for a call of `SYNC_GROUP_OR` by the threads of a group, which are more than a warp.

        Raises:
            NoLowering: The machine has none, or all are in use.
        """

    def subgroups(self, group: Group, thread: Expr) -> Sequence[tuple[int, Callable[[Loc], Stmt]]]:
        """Sizes of subgroups of neighboring threads that can have a barrier each, with a function that makes it.

        Args:
            group: The group.
            thread: The index of the executing thread in the group.
        """


def insert_group_barriers(of_launch: Callable[[Launch], Barriers]) -> Pass:
    """The pass for a machine; `of_launch` makes the barriers of a launch."""

    def run(func: PrimFunc, context: PassContext) -> PrimFunc:
        domain, warp_size = of_function(func), context.target.machine.warp_size
        return with_launches(func, lambda launch: _grouped(launch, domain, of_launch, warp_size))

    return Pass(
        "insert_group_barriers", run, Level.THREAD, Level.THREAD,
        requires=(Property.BLOCK_BARRIERS_INSERTED, Property.THREAD_GROUPS_DETECTED, Property.LOGICAL_INDICES),
        establishes=(Property.GROUP_BARRIERS_INSERTED,),
    )


class _Groups(Rewriter):
    """Inserts barriers into the groups of a launch, or of a group's body treated as a launch."""

    def __init__(
        self, launch: Launch, threads: Group, domain: Domain, uniform: Uniformity, barriers: Barriers, warp_size: int
    ) -> None:
        self._launch, self._threads, self._domain = launch, threads, domain
        self._uniform, self._barriers, self._warp_size = uniform, barriers, warp_size
        self._loops = 0  # depth of loops around the current statement
        self._busy: list[Group] = []  # preceding groups that the program itself synchronizes with each other

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, If) and node.group is not None:
            return self._group(node, node.group)
        if isinstance(node, CallStmt) and node.routine is SYNC_GROUP_OR:
            return self._barriers.vote(self._threads, node)
        if self._uniform.diverges(node) and any(transfers_ownership(s) for s in walk(node)):
            self._busy.append(self._threads)
        self._loops += isinstance(node, For | While)
        rebuilt = self.rebuild_stmt(node)
        self._loops -= isinstance(node, For | While)
        return rebuilt

    def _group(self, node: If, group: Group) -> Stmt:
        first, *rest = statements_of(node.then_body)
        body = Seq(tuple(rest), loc=node.then_body.loc)
        if not isinstance(first, Bind):
            raise CompilerBug("insert_group_barriers: the body of a group must begin with the thread's index in it")
        inside = dataclasses.replace(self._launch, body=body, threads=(group.count, 1, 1), thread=first.var)
        warp = self._warp_size
        alone = functools.partial(block_barrier, group.count, warp)
        barrier = alone if group.count <= warp else functools.partial(self._barriers.barrier, group)
        before: list[Stmt] = []
        if any(transfers_ownership(s) for s in walk(body)):
            # no block barrier orders earlier accesses of these threads where the program synchronizes groups itself
            if group.count > 1 and (self._loops or any(group.overlaps(other) for other in self._busy)):
                before = [barrier(node.loc)]
            self._busy.append(group)
        if group.count > 1:
            thread = self._launch.thread
            if thread is not None and any(uses(s, thread) for s in rest):
                raise CompilerBug("insert_group_barriers: the body of a group must use the thread's index in it")
            subgroups: list[tuple[int, Callable[[Loc], Stmt]]] = []
            if group.count > warp and group.count % warp == group.first % warp == 0:
                subgroups.append((warp, functools.partial(block_barrier, warp, warp)))
            subgroups += self._barriers.subgroups(group, first.var)
            inside = insert_barriers(inside, warp, self._domain, self._uniform, barrier, subgroups)
        groups = _Groups(inside, group, self._domain, self._uniform, self._barriers, warp)
        new_body = groups.visit(inside.body) or body
        return dataclasses.replace(node, then_body=Seq((first, *before, new_body), loc=node.then_body.loc))


def _grouped(launch: Launch, domain: Domain, of_launch: Callable[[Launch], Barriers], warp_size: int) -> Launch:
    if not any(isinstance(s, If) and s.group for s in walk(launch.body)):
        return launch
    block = Group(0, launch.num_threads)
    groups = _Groups(launch, block, domain, uniformity(launch), of_launch(launch), warp_size)
    return dataclasses.replace(launch, body=groups.visit(launch.body) or launch.body)
