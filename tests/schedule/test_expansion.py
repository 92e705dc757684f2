"""Expanded pipelines: prologue, steady state, commits and waits by the instructions of a target."""

import dataclasses

import pytest

import tilelang.language as T
from tilelang.ir.stmt import CallStmt, For, ForKind, If, Launch, PipelineSpec
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.instruction import Instruction
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import AsyncCopies
from tilelang.schedule.expansion import expand_loops, with_versions

COMMIT, WAIT = (Instruction(name, {}, {}, lambda warp, *operands: None) for name in ("commit", "wait"))
LATE = AsyncCopies(lambda stmt: isinstance(stmt, Copy) and stmt.dst.buffer.name == "tile", COMMIT, WAIT)
SYNCHRONOUS = AsyncCopies(lambda stmt: False, COMMIT, WAIT)


def launch(stage, order=(0, 1), trips=8):
    """A loop that copies a tile and adds it, with a placement."""

    @T.prim_func
    def main(A: T.Tensor((8, 64), "int32"), C: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "int32")
            total = T.alloc_fragment((8, 8), "int32")
            T.clear(total)
            for k in T.Pipelined(trips, num_stages=3):
                T.copy(A[0, k * 8], tile)
                for i, j in T.Parallel(8, 8):
                    total[i, j] += tile[i, j]
            T.copy(total, C)

    (found,) = (s for s in walk(main.body) if isinstance(s, Launch))
    return dataclasses.replace(found, body=_Place(PipelineSpec(3, order, stage)).visit(found.body))


class _Place(Rewriter):
    def __init__(self, spec):
        self._spec = spec

    def stmt(self, node):
        made = self.rebuild_stmt(node)
        return dataclasses.replace(made, pipeline=self._spec) if isinstance(made, For) and made.pipeline else made


def calls(body, routine):
    return [s for s in walk(body) if isinstance(s, CallStmt) and s.routine is routine]


@pytest.mark.parametrize("last", [1, 2, 3])
def test_copies_that_run_ahead_are_committed_at_each_time_and_waited_for(last):
    expanded = expand_loops(launch((0, last)).body, LATE)
    assert not any(isinstance(s, For) and s.kind is ForKind.PIPELINED for s in walk(expanded.body))
    assert last + 1 == len(calls(expanded.body, COMMIT))
    assert [last - 1] == [call.args[0].value for call in calls(expanded.body, WAIT)]
    assert last + 1 == len(expanded.copies)
    assert [last + 1] == [new.static_shape[0] for _, new in expanded.versions]


def test_only_copies_of_an_iteration_that_exists_run():
    expanded = expand_loops(launch((0, 2), trips=1).body, LATE)
    assert 2 == sum(isinstance(s, Copy) and s.dst.buffer.name == "tile" for s in walk(expanded.body))  # of 3 times
    assert 1 == sum(isinstance(s, If) for s in walk(expanded.body))


def test_statements_that_no_unit_completes_later_are_not_waited_for():
    expanded = expand_loops(launch((0, 1), (1, 0)).body, SYNCHRONOUS)
    assert [] == calls(expanded.body, COMMIT) + calls(expanded.body, WAIT)
    assert (frozenset(), []) == (frozenset(expanded.copies), list(expanded.versions))


def test_versions_replace_their_buffers():
    before = launch((0, 2))
    expanded = expand_loops(before.body, LATE)
    after = with_versions(before, expanded, expanded.body)
    assert [("tile", 3)] == [(buffer.name, count) for buffer, count in after.plan.versions]
    names = [s.buffer.static_shape for s in walk(after.body) if type(s).__name__ == "Alloc" and s.buffer.name == "tile"]
    assert [(3, 8, 8)] == names
