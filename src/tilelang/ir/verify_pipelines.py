"""Checks the statements on pipelines of a launch: what each partition may do, and in which order.

Takes the body of a launch at tile level. Whether consumers wait and release as often as they should depends on trip
counts; that, phases, and reads of stages that are not full are for the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Expr
from tilelang.ir.pipeline import (
    Acquire,
    Commit,
    InitPipelines,
    OrderArrive,
    OrderBarrier,
    OrderWait,
    Pipeline,
    PipelineStmt,
    Release,
    ReleaseTo,
    Wait,
)
from tilelang.ir.stmt import Group, If, Seq, Stmt
from tilelang.ir.visit import sub_statements, walk, written_buffers

_Acquired = Mapping[Pipeline, Expr]  # the indices of stages


def verify_pipelines(body: Stmt) -> None:
    """Raises if statements on pipelines are missing or misplaced.

    Raises:
        CompilerBug: A stage is filled without acquire, or not committed in the sequence that acquires it; a pipeline is
            used without initialization, or in another partition than it says, or lacks an operation.
    """
    statements = [stmt for stmt in walk(body) if isinstance(stmt, PipelineStmt)]
    if statements:
        _Check(statements).visit(body, None, {})


class _Check:
    def __init__(self, statements: list[PipelineStmt]) -> None:
        self._pipelines: dict[Pipeline, None] = {}
        self._orders: dict[OrderBarrier, None] = {}
        for stmt in statements:
            if isinstance(stmt, InitPipelines):
                self._pipelines |= dict.fromkeys(stmt.pipelines)
                self._orders |= dict.fromkeys(stmt.orders)
        self._tiles: dict[Buffer, Pipeline] = {tile.storage: each for each in self._pipelines for tile in each.tiles}
        for each in self._pipelines:
            kinds = {type(s) for s in statements if getattr(s, "pipeline", None) is each}
            _need_both(f"pipeline '{each.name}'", kinds, Acquire, Wait)
            if each.empty is not None:
                _need_both(f"pipeline '{each.name}'", kinds, Wait, Release)
        for order in self._orders:
            kinds = {type(s) for s in statements if getattr(s, "order", None) is order}
            _need_both(f"order '{order.name}'", kinds, OrderWait, OrderArrive)

    def visit(self, stmt: Stmt, group: Group | None, acquired: _Acquired) -> None:
        """Checks a statement that a group of threads executes between acquires and commits."""
        with stmt.loc:
            if isinstance(stmt, Seq):
                self._sequence(stmt, group, acquired)
                return
            if isinstance(stmt, PipelineStmt):
                self._use(stmt, group)
                return
            for buffer in written_buffers(stmt):
                each = self._tiles.get(buffer.storage)
                if each is not None and each not in acquired:
                    raise _bug(f"pipeline '{each.name}'", f"'{buffer.name}' is written outside of Acquire and Commit")
            inside = stmt.group if isinstance(stmt, If) and stmt.group is not None else group
            for child in sub_statements(stmt):
                self.visit(child, inside, acquired)

    def _sequence(self, node: Seq, group: Group | None, around: _Acquired) -> None:
        acquired: dict[Pipeline, Expr] = dict(around)
        for child in node.body:
            if isinstance(child, Acquire):
                if child.pipeline in acquired:
                    raise _bug(f"pipeline '{child.pipeline.name}'", "a stage is acquired while another one is filled")
                acquired[child.pipeline] = child.index
            elif isinstance(child, Commit):
                index = acquired.pop(child.pipeline, None)
                if index is None or child.pipeline in around:
                    raise _bug(f"pipeline '{child.pipeline.name}'", "a stage is committed that was not acquired here")
                if not same_expr(index, child.index):
                    raise _bug(f"pipeline '{child.pipeline.name}'", "another stage is committed than was acquired")
            self.visit(child, group, acquired)
        for each in acquired:
            if each not in around:
                raise _bug(f"pipeline '{each.name}'", "a stage is acquired, but never committed")

    def _use(self, stmt: PipelineStmt, group: Group | None) -> None:
        match stmt:
            case OrderWait(order=order) | OrderArrive(order=order):
                if order not in self._orders:
                    raise _bug(f"order '{order.name}'", "is never initialized")
            case Acquire(pipeline=each) | Commit(pipeline=each):
                self._known(each)
                if not _is_within(group, each.producer):
                    raise _bug(f"pipeline '{each.name}'", "others than its producer fill it")
            case Wait(pipeline=each) | Release(pipeline=each) | ReleaseTo(pipeline=each):
                self._known(each)
                if not _is_within(group, each.consumers):
                    raise _bug(f"pipeline '{each.name}'", "others than its consumers wait for it, or release it")
                if isinstance(stmt, Release) and each.empty is None:
                    raise _bug(f"pipeline '{each.name}'", "is released, but no stage is filled twice")

    def _known(self, each: Pipeline) -> None:
        if each not in self._pipelines:
            raise _bug(f"pipeline '{each.name}'", "is never initialized")


def _need_both(what: str, kinds: set[type[PipelineStmt]], *pair: type[PipelineStmt]) -> None:
    """Raises if statements are of one kind of a pair, but none of the other."""
    for kind, other in (pair, pair[::-1]):
        if kind in kinds and other not in kinds:
            raise _bug(what, f"has {kind.__name__}, but no {other.__name__}")


def _is_within(group: Group | None, threads: Group) -> bool:
    return group is not None and threads.first <= group.first and group.end <= threads.end


def _bug(what: str, message: str) -> CompilerBug:
    return CompilerBug(f"verify: {what}: {message}")
