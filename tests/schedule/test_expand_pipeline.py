"""Expanded pipelines: prologue, steady state, commits and waits by the instructions of a target."""

import dataclasses

import pytest

import tilelang.language as T
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, If, Launch, ParallelLoop, PipelineSpec
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.instruction import Instruction
from tilelang.lowering.chunks import ChunkPlan
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expand_pipeline import expand_launch

COMMIT, WAIT = (Instruction(name, {}, {}, lambda warp, *operands: None) for name in ("commit", "wait"))
GROUPS = CopyGroups(COMMIT, WAIT)


def launch(stage, order=(0, 1), trips=8, plan=ChunkPlan(4)):
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
    return dataclasses.replace(found, body=_Place(PipelineSpec(3, order, stage), plan).visit(found.body))


class _Place(Rewriter):
    def __init__(self, spec, plan):
        self._spec, self._plan = spec, plan

    def stmt(self, node):
        if isinstance(node, Copy) and node.dst.buffer.name == "tile":
            return dataclasses.replace(node, plan=self._plan)
        made = self.rebuild_stmt(node)
        return dataclasses.replace(made, pipeline=self._spec) if isinstance(made, For) and made.pipeline else made


def calls(body, routine):
    return [s for s in walk(body) if isinstance(s, CallStmt) and s.routine is routine]


def expand(before):
    """The expanded launch, and the copies that its loops commit and wait for."""
    copies = set()

    def finish(body, emitted):
        copies.update(emitted)
        return body

    return expand_launch(before, GROUPS, finish), copies


@pytest.mark.parametrize("last", [1, 2, 3])
def test_copies_that_run_ahead_are_committed_at_each_time_and_waited_for(last):
    expanded, copies = expand(launch((0, last)))
    assert not any(isinstance(s, For) and s.kind is ForKind.PIPELINED for s in walk(expanded.body))
    assert last + 1 == len(calls(expanded.body, COMMIT))
    assert [last - 1] == [call.args[0].value for call in calls(expanded.body, WAIT)]
    assert last + 1 == len(copies)
    assert [last + 1] == [count for _, count in expanded.plan.versions]


def test_only_copies_of_an_iteration_that_exists_run():
    expanded, _ = expand(launch((0, 2), trips=1))
    assert 2 == sum(isinstance(s, Copy) and s.dst.buffer.name == "tile" for s in walk(expanded.body))  # of 3 times
    assert 1 == sum(isinstance(s, If) for s in walk(expanded.body))


def test_statements_that_no_unit_completes_later_are_not_waited_for():
    expanded, copies = expand(launch((0, 1), (1, 0), plan=ACCEPTED))
    assert [] == calls(expanded.body, COMMIT) + calls(expanded.body, WAIT)
    assert (set(), ()) == (copies, expanded.plan.versions)


def test_versions_replace_their_buffers():
    after, _ = expand(launch((0, 2)))
    assert [("tile", 3)] == [(buffer.name, count) for buffer, count in after.plan.versions]
    names = [s.buffer.static_shape for s in walk(after.body) if type(s).__name__ == "Alloc" and s.buffer.name == "tile"]
    assert [(3, 8, 8)] == names



def test_the_wait_is_before_the_first_user_of_a_tile_though_later_ones_come_before_that():
    @T.prim_func
    def main(A: T.Tensor((8, 64), "int32"), C: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "int32")
            first, total = T.alloc_fragment((8, 8), "int32"), T.alloc_fragment((8, 8), "int32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 8], tile)
                T.copy(tile, first)
                for i, j in T.Parallel(8, 8):
                    total[i, j] += tile[i, j] * first[i, j]
            T.copy(total, C)

    (found,) = (s for s in walk(main.body) if isinstance(s, Launch))
    placed = _Place(PipelineSpec(3, (2, 1, 0), (0, 2, 3)), ChunkPlan(4)).visit(found.body)
    expanded, _ = expand(dataclasses.replace(found, body=placed))
    (loop,) = (s for s in walk(expanded.body) if isinstance(s, For) and s.kind is ForKind.SERIAL)
    kinds = {ParallelLoop: "add", If: "ahead"}
    order = [s.routine.name if isinstance(s, CallStmt) else kinds[type(s)] for s in loop.body.body if not isinstance(s, Bind)]
    assert ["add", "wait", "ahead", "ahead", "commit"] == order
    assert [1, 1] == [call.args[0].value for call in calls(expanded.body, WAIT)]  # before the loop, and in it


@pytest.mark.parametrize(("order", "is_free"), [((2, 0, 1), True), ((1, 0, 2), False)])
def test_what_is_unused_for_a_part_of_an_iteration_is_replaced_beyond_the_last(order, is_free):
    """The computation runs after the last use of the rows and before they are loaded anew, or after that."""

    @T.prim_func
    def main(A: T.Tensor((64, 8), "int32"), C: T.Tensor((64, 8), "int32")):
        with T.Kernel(1, threads=32):
            rows, total = T.alloc_fragment((8, 8), "int32"), T.alloc_fragment((8, 8), "int32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[k * 8, 0], rows)
                T.copy(rows, C[k * 8, 0])
                for i, j in T.Parallel(8, 8):
                    total[i, j] += 1

    (found,) = (s for s in walk(main.body) if isinstance(s, Launch))
    before = dataclasses.replace(found, body=_Place(PipelineSpec(2, order, (0, 1, 1)), ACCEPTED).visit(found.body))
    (zeros,) = (s for s in walk(before.body) if isinstance(s, Fill))
    expanded = expand_launch(before, GROUPS, lambda body, _: body, beyond_last=lambda stmt: zeros)
    (branch,) = (s for s in walk(expanded.body) if isinstance(s, If))
    assert (zeros if is_free else None) is branch.else_body
