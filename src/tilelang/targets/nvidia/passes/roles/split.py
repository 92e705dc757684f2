"""The two roles of a specialized block: the program of those that bring tiles, and that of those that compute.

Takes a launch's body and its channels, gives a statement for each role. Invariant: the producer does the copies of the
channels in program order, under the loops and branches around them, and computes what it must know for that in scalars
of its own; the consumers do everything else, and touch a tile only between waiting for it and giving it back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, If, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, expressions, substitute, substitute_stmt, walk, walk_expr
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.isa.cache_policy import NORMAL, l2_policy
from tilelang.targets.nvidia.passes.roles.channels import (
    Channel,
    Role,
    Turn,
    await_empty,
    await_full,
    full_barrier,
    release,
)
from tilelang.targets.nvidia.passes.roles.flight import Flight, flight_of
from tilelang.targets.nvidia.passes.roles.multicast import Members, by_lane
from tilelang.targets.nvidia.passes.roles.ping_pong import Turns
from tilelang.transforms.versions import OnVersion


def producer(body: Stmt, channels: Sequence[Channel], members: Members) -> Stmt:
    """What the thread does that brings the tiles, which may be for other members of its cluster, too."""
    role = Role(channels)
    rewriter = _Producer(channels, role, members)
    made = rewriter.visit(body)
    inner = () if made is None else (made,)
    policies = [CallStmt(l2_policy(kind), (), result=var) for kind, var in rewriter.policies.items()]
    return _without_unused(Seq((*policies, *role.counters, *inner), loc=body.loc))


class _Producer:
    def __init__(self, channels: Sequence[Channel], role: Role, members: Members) -> None:
        self._of = {copy: each for each in channels for copy in each.ring.copies}
        self._role, self._members = role, members
        self._turns: dict[Channel, Turn] = {}
        origins = [each.ring.origins() for each in channels]
        self._computed = frozenset[Stmt]().union(*(each.statements for each in origins))
        # what variables and scalars of the original program are in this one
        self._buffers = {old: dataclasses.replace(old) for each in origins for old in each.buffers}
        self._values: dict[Var, Expr] = {}
        self.policies: dict[str, Var] = {}  # of the L2 cache, which are asked for once

    def visit(self, node: Stmt) -> Stmt | None:
        """What the producer does of a statement; None if that is nothing."""
        match node:
            case Seq():
                return self._sequence(node)
            case For():
                var = self._own(node.var)
                body = self.visit(node.body)
                if body is None:
                    return None
                start, stop = self._named(node.start), self._named(node.stop)
                kind = ForKind.SERIAL if node.kind is ForKind.PIPELINED else node.kind
                return dataclasses.replace(node, var=var, start=start, stop=stop, kind=kind, body=body, pipeline=None)
            case While():
                body = self.visit(node.body)
                return body and dataclasses.replace(node, condition=self._named(node.condition), body=body)
            case If():
                then = self.visit(node.then_body)
                other = None if node.else_body is None else self.visit(node.else_body)
                if then is None and other is None:
                    return None
                condition = self._named(node.condition)
                return dataclasses.replace(
                    node, condition=condition, then_body=then or Seq((), loc=node.loc), else_body=other
                )
        return substitute_stmt(node, self._values, self._buffers) if node in self._computed else None

    def _sequence(self, node: Seq) -> Stmt | None:
        busy = False
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, Bind):
                value = self._named(child.value)
                body.append(dataclasses.replace(child, var=self._own(child.var), value=value))
            elif isinstance(child, Copy) and child in self._of:
                body += self._bring(child, self._of[child])
                busy = True
            elif (made := self.visit(child)) is not None:
                body.append(made)
                busy = True
        return Seq(tuple(body), loc=node.loc) if busy else None

    def _own(self, var: Var) -> Var:
        """The producer's own variable for one of the program."""
        made = self._values[var] = Var(var.name, var.dtype, index=var.index)
        return made

    def _named(self, expr: Expr) -> Expr:
        """An expression as the producer says it."""
        return substitute(expr, self._values, self._buffers)

    def _bring(self, copy: Copy, each: Channel) -> list[Stmt]:
        made: list[Stmt] = []
        copies = each.ring.copies
        if copy is copies[0]:
            self._turns[each] = self._role.turn(each, self._named)
            turn = self._turns[each]
            made += [*turn.before, *await_empty(each, turn)]
        turn = self._turns[each]
        moved = substitute_stmt(copy, self._values, self._buffers)
        assert isinstance(moved, Copy)
        moved = _on_versions(moved, each, turn)
        moved = dataclasses.replace(moved, barrier=full_barrier(each, turn), cache_policy=self._policy(copy))
        axes = each.shared.get(copy.dst.buffer)
        made.append(moved if axes is None else self._members.share(moved, axes))
        if copy is copies[-1]:
            made += turn.after
        return [_at_place(s, copy) for s in made]

    def _policy(self, copy: Copy) -> Var | None:
        if copy.eviction is None or copy.eviction == NORMAL:
            return None
        return self.policies.setdefault(copy.eviction, Var(copy.eviction, SCALARS["uint64"]))


def _on_versions(copy: Copy, each: Channel, turn: Turn) -> Copy:
    made = OnVersion(_versions(each, turn)).visit(copy)
    assert isinstance(made, Copy)
    return made


def _versions(each: Channel, turn: Turn) -> dict[Buffer, tuple[Buffer, Expr]]:
    return {old: (new, turn.version) for old, new in each.tiles.items() if new is not old}


def _at_place(made: Stmt, near: Stmt) -> Stmt:
    return made if made.loc.file else dataclasses.replace(made, loc=near.loc)


def _without_unused(body: Seq) -> Stmt:
    """The producer's program without names that nothing in it uses."""
    while True:
        used = {e for s in walk(body) for root in expressions(s) for e in walk_expr(root) if isinstance(e, Var)}
        made = _Drop(used).visit(body)
        assert isinstance(made, Seq)
        if made is body:
            return body
        body = made


class _Drop(Rewriter):
    def __init__(self, used: set[Var]) -> None:
        self._used = used

    def expr(self, node: Expr) -> Expr:
        return node

    def stmt(self, node: Stmt) -> Stmt | None:
        return None if isinstance(node, Bind) and node.var not in self._used else self.rebuild_stmt(node)


# -- those that compute ----------------------------------------------------------------------------------------------
def consumer(
    body: Stmt, channels: Sequence[Channel], thread: Expr, in_flight: int = 0, turns: Turns | None = None
) -> Stmt:
    """What the threads do that compute.

    Args:
        body: The body of the launch.
        channels: What others bring.
        thread: The index of the executing thread in the block, of which consumers are the first.
        in_flight: Products that are under way while the next one begins, in loops that let them.
        turns: The order among warpgroups that take turns with tiles, if they do.
    """
    role = Role(channels)
    rewriter = _Consumer(channels, role, thread)
    if in_flight:
        loops = [s for s in walk(body) if isinstance(s, For)]
        flights = [flight for loop in loops if (flight := flight_of(loop, channels, turns)) is not None]
        rewriter.flights = {flight.loop: flight for flight in flights}
    made = rewriter.visit(body) or Seq((), loc=body.loc)
    on_versions = OnVersion(rewriter.versions).visit(made) or Seq((), loc=body.loc)
    senders = [Bind(each.sender, by_lane(each.senders, thread)) for each in channels if each.crosses]
    return Seq((*senders, *role.counters, on_versions), loc=body.loc)


class _Consumer(Rewriter):
    def __init__(self, channels: Sequence[Channel], role: Role, thread: Expr) -> None:
        self._channels, self._role, self._thread = channels, role, thread
        self._copies = {copy for each in channels for copy in each.ring.copies}
        self._tiles = {tile for each in channels for tile in each.tiles}
        self._loops = {each.ring.loop for each in channels}
        self.versions: dict[Buffer, tuple[Buffer, Expr]] = {}
        self.flights: dict[For, Flight] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Seq):
            return self._sequence(node)
        made = self.rebuild_stmt(node)
        if isinstance(node, For) and node in self._loops and isinstance(made, For):
            made = dataclasses.replace(made, kind=ForKind.SERIAL, pipeline=None)
            if node in self.flights:
                around = self.flights[node].around(made, self._thread)
                return Seq(tuple(_at_place(s, node) for s in around), loc=node.loc)
        return made

    def _sequence(self, node: Seq) -> Stmt:
        flight = next((flight for flight in self.flights.values() if flight.loop.body is node), None)
        mine = [each for each in self._channels if each.ring.home is node]
        turns = {each: self._role.turn(each) for each in mine}
        for each, turn in turns.items():
            self.versions.update(_versions(each, turn))
        body: list[Stmt] = []
        for child in node.body:
            if child in self._copies or isinstance(child, Alloc) and child.buffer in self._tiles:
                continue
            for each in mine:
                if each.ring.first is child:
                    made = [*turns[each].before, *await_full(each, turns[each])]
                    body += [_at_place(s, child) for s in made]
            if flight is not None and child is flight.product:
                made = [flight.product_started(), *flight.releases_before(self._thread)]
                body += [_at_place(s, child) for s in made]
                continue
            rewritten = self.visit(child)
            body += [] if rewritten is None else [rewritten]
            for each in mine:
                if each.ring.last is child:
                    made = [*release(each, turns[each].version, self._thread), *turns[each].after]
                    body += [_at_place(s, child) for s in made]
        return Seq(tuple(body), loc=node.loc)
