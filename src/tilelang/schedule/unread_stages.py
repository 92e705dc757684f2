"""Releases of pipeline stages that no gemm may have read since the wait for them.

A gemm by all warps of a group completes only when all of them have issued it, so that behind it any one may release the
stage for all. Where nothing was multiplied, as in iterations of which a group computes nothing, the others may not have
seen yet that the stage is full: by the time they look, it may have been filled once more, which looks as if it had not
been filled at all.

Takes the body of a launch at tile level, gives the releases. Invariant: for every other release, each path from a wait
for its pipeline holds a gemm that reads one of its tiles.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.ir.pipeline import Pipeline, PipelineStmt, Release, Wait
from tilelang.ir.stmt import Bind, Break, Continue, For, If, Stmt, While
from tilelang.ir.visit import sub_statements, walk
from tilelang.ops.gemm import Gemm
from tilelang.schedule.iteration import trip_count


def unread_releases(body: Stmt, domain: Domain) -> frozenset[Stmt]:
    """The releases of stages that may be unread.

    Args:
        body: The body of a launch.
        domain: What holds in it.
    """
    found = _Unread([stmt.pipeline for stmt in walk(body) if isinstance(stmt, Release)], domain)
    found.visit(body)
    return frozenset(found.releases)


class _Unread:
    def __init__(self, pipelines: list[Pipeline], domain: Domain) -> None:
        self._tiles = {each: {tile.storage for tile in each.tiles} for each in pipelines}
        self._domain = domain
        self._waiting: set[Pipeline] = set()  # those of which a stage may be unread since the last wait
        self._jumps: list[set[Pipeline]] = []  # the same at jumps out of each loop around, or to its next iteration
        self.releases: set[Stmt] = set()

    def visit(self, stmt: Stmt) -> None:
        match stmt:
            case Wait(pipeline=each):
                self._waiting.add(each)
            case Release(pipeline=each) if each in self._waiting:
                self.releases.add(stmt)
            case Gemm(a=a, b=b):
                read = {a.buffer.storage, b.buffer.storage}
                self._waiting = {each for each in self._waiting if read.isdisjoint(self._tiles.get(each, ()))}
            case Bind():
                self._domain = self._domain.with_value(stmt.var, stmt.value)
            case If():
                before = set(self._waiting)
                self.visit(stmt.then_body)
                after_then, self._waiting = self._waiting, before
                if stmt.else_body is not None:
                    self.visit(stmt.else_body)
                self._waiting |= after_then
            case For():
                inside = self._domain.with_loop(stmt.var, stmt.start, stmt.stop, stmt.step)
                self._loop(stmt.body, inside, lambda: proves(trip_count(stmt) >= 1, self._domain))
            case While():
                self._loop(stmt.body, self._domain, lambda: False)
            case Break() | Continue():
                self._jumps[-1] |= self._waiting
            case _ if not isinstance(stmt, PipelineStmt):
                for child in sub_statements(stmt):
                    self.visit(child)

    def _loop(self, body: Stmt, domain: Domain, runs: Callable[[], bool]) -> None:
        outside, before, after = self._domain, set(self._waiting), None
        while after is None or not after <= before:
            before |= after or set()
            self._waiting, self._domain = set(before), domain
            self._jumps.append(set())
            self.visit(body)
            after = self._waiting | self._jumps.pop()
        self._domain = outside
        self._waiting = after if before <= after or runs() else after | before
