"""What a pass is made of."""

from tilelang.ir.func import Level
from tilelang.options import CompileOptions
from tilelang.passes.base import Pass, PassContext


def test_a_pass_names_the_levels_between_which_it_goes():
    step = Pass("nothing", lambda func, _: func, Level.TILE, Level.THREAD)
    assert (Level.TILE, Level.THREAD) == (step.reads, step.writes)


def test_a_context_has_default_options():
    assert CompileOptions() == PassContext().options
