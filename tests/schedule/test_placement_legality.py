"""Legal placements of the statements of a loop, and the versions that they need."""

import dataclasses

import pytest
from lazy_copies import AllAsynchronous

import tilelang.language as T
from tilelang.ir.stmt import For, Launch, PipelineSpec
from tilelang.ir.visit import walk
from tilelang.saved_schedule import Placement
from tilelang.schedule.loop_body import LoopBody
from tilelang.schedule.placement_legality import (
    outside_uses,
    placement_override,
    runs_ahead,
    version_counts,
    violation,
)


def summed(*, between=False, after=False):
    """The body of a loop that copies a tile and adds it, and what is used outside of it."""

    @T.prim_func
    def main(A: T.Tensor((8, 64), "int32"), C: T.Tensor((8, 8), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "int32")
            total = T.alloc_fragment((8, 8), "int32")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[0, k * 8], tile)
                if between:
                    T.copy(total, tile)
                for i, j in T.Parallel(8, 8):
                    total[i, j] += tile[i, j]
            if after:
                T.copy(tile, total)
            T.copy(total, C)

    (launch,) = (s for s in walk(main.body) if isinstance(s, Launch))
    (loop,) = (s for s in walk(launch.body) if isinstance(s, For) and s.pipeline is not None)
    return LoopBody(loop), outside_uses(launch)[loop]


def names(versions):
    return {buffer.name: count for buffer, count in versions.items()}


@pytest.mark.parametrize("last", [1, 2, 3])
def test_buffers_have_as_many_versions_as_stages_lie_between_their_uses(last):
    body, _ = summed()
    assert 2 == len(body.statements)
    assert {"tile": last + 1} == names(version_counts(body, Placement((0, last), (0, 1))))


def test_a_use_before_the_next_copy_of_the_same_time_needs_no_further_version():
    body, _ = summed()
    assert {} == names(version_counts(body, Placement((0, 1), (1, 0))))
    assert {"tile": 2} == names(version_counts(body, Placement((0, 2), (1, 0))))


@pytest.mark.parametrize("most, versions", [(0, {}), (1, {}), (2, {"tile": 2}), (3, {"tile": 2})])
def test_a_version_that_saves_a_barrier_before_an_asynchronous_copy_is_made_if_there_may_be_as_many(most, versions):
    body, outside = summed()
    behind = Placement((0, 1), (1, 0))
    assert {} == names(version_counts(body, behind, most))  # threads copy themselves
    loop = AllAsynchronous().visit(body.loop)
    assert versions == names(version_counts(LoopBody(loop), behind, most))


def test_copies_may_run_ahead_of_their_readers_and_not_behind_them():
    body, outside = summed()
    assert violation(body, Placement((0, 2), (0, 1)), outside) is None
    assert "would be used before it is filled" in violation(body, Placement((2, 0), (1, 0)), outside).reason


def test_what_is_read_after_the_loop_has_no_versions():
    body, outside = summed(after=True)
    assert "is also read outside of the loop" in violation(body, Placement((0, 2), (0, 1)), outside).reason


def test_the_statements_of_a_dependence_that_forbids_it_are_named():
    @T.prim_func
    def main(A: T.Tensor((8, 64), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "int32")
            for k in T.Pipelined(7, num_stages=2):
                T.copy(A[0, k * 8], tile)
                T.copy(tile, A[0, k * 8 + 8])

    (loop,) = (s for s in walk(main.body) if isinstance(s, For))
    reason = violation(LoopBody(loop), Placement((0, 1), (0, 1)), {}).reason
    load = main.loc.line + 4
    assert (
        f"the statement in line {load + 1} writes 'A', which the statement in line {load} still uses in another iteration"
    ) == reason


def test_a_tile_that_stages_write_is_not_split():
    body, outside = summed(between=True)
    assert 3 == len(body.statements)
    assert violation(body, Placement((0, 1, 2), (0, 1, 2)), outside) is not None


AHEAD, TOGETHER, BEHIND = Placement((0, 1), (0, 1)), Placement((0, 0), (0, 1)), Placement((1, 0), (0, 1))


@pytest.mark.parametrize(
    ("spec", "given", "expected"),
    [
        (PipelineSpec(3), None, None),
        (PipelineSpec(3), AHEAD, (AHEAD, "")),
        (PipelineSpec(3), Placement((0, 0, 1), (0, 1, 2)), None),
        (PipelineSpec(3, (0, 1), (0, 1)), None, (AHEAD, "")),
        (PipelineSpec(3, (0, 1), (0, 1)), TOGETHER, (None, "all stages are equal")),
        (PipelineSpec(3, (0, 1), (1, 0)), None, (None, "'tile' would be used before it is filled")),
    ],
)
def test_the_compiler_may_place_what_the_user_does_not(spec, given, expected):
    body, outside = summed()
    assert expected == placement_override(dataclasses.replace(body.loop, pipeline=spec), outside, given)


def test_a_copy_runs_ahead_if_all_uses_of_its_tile_are_in_later_stages():
    body, _ = summed()
    (tile,) = (buffer for buffer in body.storages if buffer.name == "tile")
    assert [True, False, False] == [runs_ahead(body, 0, tile, placed) for placed in (AHEAD, TOGETHER, BEHIND)]
