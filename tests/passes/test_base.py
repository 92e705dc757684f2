"""What a pass is made of."""

import dataclasses

import tilelang.language as T
from tilelang.ir.func import Level
from tilelang.ir.stmt import Launch, Seq
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext, with_body, with_launches


@T.prim_func
def two_launches(A: T.Tensor((4,), "float32")):
    with T.Kernel(4) as i:
        A[i] = 1
    with T.Kernel(2) as i:
        A[i] = 2


def test_a_pass_names_the_levels_between_which_it_goes():
    step = Pass("nothing", lambda func, _: func, Level.TILE, Level.THREAD)
    assert (Level.TILE, Level.THREAD) == (step.reads, step.writes)


def test_a_context_has_default_options():
    assert CompileOptions() == PassContext().options


def test_a_function_whose_body_stays_is_the_same_function():
    assert two_launches is with_body(two_launches, two_launches.body)
    assert two_launches is with_launches(two_launches, lambda launch: launch)


def test_nothing_may_be_left_of_a_body():
    assert () == with_body(two_launches, None).body.body


def test_each_launch_is_replaced_by_what_a_step_makes_of_it():
    def step(launch):
        return launch if len(seen) else seen.append(launch) or dataclasses.replace(launch, body=Seq(()))

    seen = []
    first, second = (s for s in walk(with_launches(two_launches, step).body) if isinstance(s, Launch))
    assert () == first.body.body
    assert second in walk(two_launches.body)
