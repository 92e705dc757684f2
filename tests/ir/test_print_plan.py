"""Decisions about a launch as comments of the printed program."""

from __future__ import annotations

from loops import buffer, exprs

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.launch import LaunchPlan, TensorMap, WarpSchedule
from tilelang.ir.print_plan import buffer_comments, launch_comments, shared_layout_text, thread_mapping
from tilelang.ir.printer import to_text
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import digit, fragment
from tilelang.layout.xor_swizzle import swizzled
from tilelang.saved_schedule import ScheduleOverrides

FLOAT16 = as_dtype("float16")
A, S = buffer("A", 256, 128, dtype=FLOAT16), buffer("S", 64, 64, scope=Scope.SHARED, dtype=FLOAT16)
C = buffer("C", 16, 8, scope=Scope.FRAGMENT)
HELD = fragment((16, 8), [digit(4, 0, 2), digit(8, 1, 0)], [digit(2, 0, 1), digit(2, 8, 0)])


class Schedule(WarpSchedule):
    def __str__(self):
        return "two consumers"

    def overrides(self):
        return ScheduleOverrides()


def test_no_comments_without_decisions():
    assert [] == launch_comments(LaunchPlan(), to_text)
    assert {} == buffer_comments(LaunchPlan(), to_text)


def test_a_launch_shows_its_schedule_memory_and_tensor_maps():
    name = Var("A_map", SCALARS["uint64"])
    swizzle = TensorMap(name, A, exprs(128, 256), exprs(256), (64, 64), 128, rules=lambda *_: "")
    plan = LaunchPlan(schedule=Schedule(), prefetch_loops=True, shared_bytes=1024, tensor_maps=(swizzle,))
    assert [
        "schedule: two consumers",
        "pipelines prefetch by parallel loops",
        "1024 bytes of shared memory",
        "A_map: boxes of 64 x 64 elements of 128 x 256 of 'A', swizzled within 128 bytes",
    ] == launch_comments(plan, to_text)


def test_dynamic_shared_memory_is_printed_as_an_expression():
    n = Var("n", SCALARS["int32"], index=True)
    plan = LaunchPlan(dynamic_shared_offsets=((S, n * 2),), dynamic_shared_bytes=n * 2 + 64)
    assert ["n * 2 + 64 bytes of shared memory at the launch"] == launch_comments(plan, to_text)
    assert {S: ["at byte n * 2"]} == buffer_comments(plan, to_text)


def test_a_buffer_shows_versions_layout_and_offset():
    plan = LaunchPlan(
        fragments=((C, HELD),),
        shared_layouts=((S, swizzled((64, 64), 16, 128)),),
        shared_offsets=((S, 512),),
        versions=((S, 3),),
        uniform=(A,),
    )
    assert {
        A: ["the same in all threads"],
        C: ["32 threads hold 4 values each: thread 4:(0,2) 8:(1,0), value 2:(0,1) 2:(8,0)"],
        S: ["3 versions", "layout [_i, _j] -> [_i, (_j // 8 ^ _i % 8) * 8 + _j % 8]", "at byte 512"],
    } == buffer_comments(plan, to_text)


def test_one_thread_with_one_value_is_singular():
    assert "1 thread holds 1 value: thread 1, value 1" == thread_mapping("hold", "value", fragment((1,), [], []))


def test_a_layout_without_a_formula_is_printed_by_its_repr():
    def place(i):
        return i if i < 2 else 5 - i

    assert "layout Layout((4,) -> (4,))" == shared_layout_text(Layout((4,), place))
    assert "layout [_i] -> [7 - _i]" == shared_layout_text(Layout((8,), lambda i: 7 - as_expr(i)))
