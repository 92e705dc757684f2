"""Passes run in order, are checked, and can be looked at."""

import dataclasses

import pytest

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import CompilerBug, ResourceError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.func import Level
from tilelang.ir.launch import LaunchPlan, WarpSchedule
from tilelang.ir.stmt import Alloc, Break, Launch, Seq
from tilelang.ir.visit import walk
from tilelang.passes.base import Pass, with_launches
from tilelang.passes.runner import run_passes
from tilelang.saved_schedule import ScheduleOverrides


def make():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[0] = 1.0

    return main


def renamed(to):
    return Pass(f"to_{to}", lambda func, _: dataclasses.replace(func, name=to), Level.TILE, Level.TILE)


def test_passes_run_in_order():
    assert "c" == run_passes(make(), (renamed("b"), renamed("c"))).name


def test_snapshots_begin_with_the_input_and_follow_the_passes():
    snapshots = []
    run_passes(make(), (renamed("b"), renamed("c")), snapshots=snapshots)
    assert ["input", "to_b", "to_c"] == [s.name for s in snapshots]
    assert "A[0] = " in snapshots[0].text


def test_a_pass_is_not_given_a_function_of_another_level():
    step = Pass("late", lambda func, _: func, Level.THREAD, Level.THREAD)
    with pytest.raises(CompilerBug, match="pass late: reads thread level, got tile level"):
        run_passes(make(), (step,))


def test_a_pass_that_breaks_its_promise_is_named(monkeypatch):
    monkeypatch.setenv("TILELANG_CHECK", "1")
    step = Pass("lazy", lambda func, _: func, Level.TILE, Level.THREAD)
    with pytest.raises(CompilerBug, match="pass lazy: writes thread level, but gave tile level"):
        run_passes(make(), (step,))


def test_a_pass_that_leaves_an_ill_formed_function_is_named(monkeypatch):
    monkeypatch.setenv("TILELANG_CHECK", "1")
    step = Pass("wild", lambda func, _: dataclasses.replace(func, body=Break()), Level.TILE, Level.TILE)
    with pytest.raises(CompilerBug, match="after pass wild: "):
        run_passes(make(), (step,))


def with_loops_ahead(func, context):
    def planned(launch):
        return dataclasses.replace(launch, plan=dataclasses.replace(launch.plan, prefetch_loops=context.prefetch_loops))

    return with_launches(func, planned)


@pytest.mark.parametrize("fits", [True, False])
def test_what_takes_too_much_memory_is_tried_without_loops_that_run_ahead(fits):
    attempts, shots = [], []

    def place(func, context):
        attempts.append(context.prefetch_loops)
        if context.prefetch_loops or not fits:
            raise ResourceError(f"attempt {len(attempts)}")
        return func

    passes = (Pass("ahead", with_loops_ahead, *[Level.TILE] * 2), Pass("place", place, *[Level.TILE] * 2))
    if fits:
        made = run_passes(make(), passes, snapshots=shots)
        assert [False] == [s.plan.prefetch_loops for s in walk(made.body) if isinstance(s, Launch)]
    else:
        with pytest.raises(ResourceError, match="attempt 2"):
            run_passes(make(), passes, snapshots=shots)
    assert [True, False] == attempts
    assert ["input", "ahead", "place"][: 3 if fits else 2] == [s.name for s in shots]


def test_what_takes_too_much_memory_anyway_is_not_tried_again():
    attempts = []

    def place(_, context):
        attempts.append(context.prefetch_loops)
        raise ResourceError("too much")

    with pytest.raises(ResourceError, match="too much"):
        run_passes(make(), (Pass("place", place, Level.TILE, Level.TILE),))
    assert [True] == attempts


class Stages(WarpSchedule):
    def overrides(self):
        return ScheduleOverrides(specialized=True)


def with_schedule_and_conversions(func, _):
    def planned(launch):
        plan = dataclasses.replace(launch.plan, schedule=Stages(), conversion_bytes=1024)
        return dataclasses.replace(launch, plan=plan)

    return with_launches(func, planned)


@pytest.mark.parametrize("fits", [True, False])
def test_a_schedule_that_leaves_no_memory_for_conversions_is_chosen_again(fits):
    attempts, shots = [], []

    def place(func, context):
        attempts.append(context.conversion_bytes)
        if not context.conversion_bytes or not fits:
            raise ResourceError(f"attempt {len(attempts)}")
        return func

    passes = (Pass("schedule", with_schedule_and_conversions, *[Level.TILE] * 2), Pass("place", place, *[Level.TILE] * 2))
    if fits:
        run_passes(make(), passes, snapshots=shots)
    else:  # what was asked for, and not what was tried instead
        with pytest.raises(ResourceError, match="attempt 1"):
            run_passes(make(), passes, snapshots=shots)
    assert [0, 1024] == attempts
    assert ["input", "schedule", "place"][: 3 if fits else 2] == [s.name for s in shots]


def test_a_schedule_that_leaves_no_memory_for_values_that_threads_exchange_is_chosen_again():
    attempts = []

    def scheduled(func, _):
        plan = LaunchPlan(schedule=Stages())
        return with_launches(func, lambda launch: dataclasses.replace(launch, plan=plan))

    def lowered(func, _):
        parts = Buffer("parts", (as_expr(512),), as_dtype("float32"), Scope.SHARED)
        lower = with_launches(func, lambda launch: dataclasses.replace(launch, body=Seq((Alloc(parts), launch.body))))
        return dataclasses.replace(lower, level=Level.THREAD)

    def place(func, context):
        attempts.append(context.conversion_bytes)
        if not context.conversion_bytes:
            raise ResourceError("too much")
        return func

    passes = (
        Pass("schedule", scheduled, Level.TILE, Level.TILE),
        Pass("lower", lowered, Level.TILE, Level.THREAD),
        Pass("place", place, Level.THREAD, Level.THREAD),
    )
    run_passes(make(), passes)
    assert [0, 2048] == attempts
