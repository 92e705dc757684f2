"""Passes say what they require and establish, and pipelines in which they would not get it cannot be built."""

import pytest

from tilelang.errors import CompilerBug
from tilelang.ir.func import Level
from tilelang.passes.base import Pass
from tilelang.passes.properties import INITIAL, Property, build_pipeline
from tilelang.targets.cpu.backend import BACKEND as CPU
from tilelang.targets.nvidia.backend import BACKEND as CUDA


def step(name, *, reads=Level.TILE, writes=Level.TILE, **properties):
    return Pass(name, lambda func, _: func, reads, writes, **properties)


LOWER = step("lower", writes=Level.THREAD)
CHOOSE = step("choose", establishes=(Property.LOWERINGS_CHOSEN,))
INFER = step("infer", requires=(Property.LOWERINGS_CHOSEN,), establishes=(Property.LAYOUTS_INFERRED,))


def test_passes_that_get_what_they_require_are_a_pipeline():
    assert (CHOOSE, INFER, LOWER) == build_pipeline(CHOOSE, INFER, LOWER, establishes=(Property.LAYOUTS_INFERRED,))


def test_a_pass_in_front_of_the_one_that_serves_it_is_refused():
    with pytest.raises(CompilerBug, match="pass infer requires 'lowerings chosen', which choose establishes only after it"):
        build_pipeline(INFER, CHOOSE, LOWER)


def test_a_pass_that_nobody_serves_is_refused():
    with pytest.raises(CompilerBug, match="pass infer requires 'lowerings chosen', which no pass establishes"):
        build_pipeline(INFER, LOWER)


def test_a_pass_behind_one_that_invalidates_what_it_requires_is_refused():
    expand = step("expand", invalidates=(Property.OPERATORS_UNEXPANDED,))
    narrow = step("narrow", requires=(Property.OPERATORS_UNEXPANDED,))
    build_pipeline(narrow, expand, LOWER)
    with pytest.raises(CompilerBug, match="narrow requires 'operators unexpanded', which expand before it invalidates"):
        build_pipeline(expand, narrow, LOWER)


def test_what_is_established_anew_holds_again():
    again = step("again", establishes=(Property.OPERATORS_UNEXPANDED,))
    expand = step("expand", invalidates=(Property.OPERATORS_UNEXPANDED,))
    build_pipeline(expand, again, LOWER, establishes=(Property.OPERATORS_UNEXPANDED,))


def test_levels_follow_one_another():
    with pytest.raises(CompilerBug, match="pass late reads thread level, but gets tile level"):
        build_pipeline(step("late", reads=Level.THREAD, writes=Level.THREAD))
    with pytest.raises(CompilerBug, match="code generation reads thread level, but gets tile level"):
        build_pipeline(CHOOSE)


def test_code_generation_requires_too():
    with pytest.raises(CompilerBug, match="code generation requires 'proxy fences inserted', which no pass establishes"):
        build_pipeline(LOWER, establishes=(Property.PROXY_FENCES_INSERTED,))


@pytest.mark.parametrize("backend", [CPU, CUDA], ids=["cpu", "cuda"])
def test_no_pass_of_a_pipeline_may_change_places_with_one_that_serves_it(backend):
    passes, swapped = backend.passes, 0
    for later, behind in enumerate(passes):
        for earlier, before in enumerate(passes[:later]):
            if set(before.establishes) & set(behind.requires) or set(before.requires) & set(behind.invalidates) & INITIAL:
                wrong = list(passes)
                wrong[earlier], wrong[later] = behind, before
                with pytest.raises(CompilerBug, match=r"pass \w+ (requires|reads)"):
                    build_pipeline(*wrong)
                swapped += 1
    assert swapped >= len(passes)


def test_every_property_is_required_by_some_pass_and_comes_from_somewhere():
    passes = {step.name: step for backend in (CPU, CUDA) for step in backend.passes}.values()
    required = {each for step in passes for each in step.requires}
    established = {each for step in passes for each in step.establishes}
    assert set(Property) == established | INITIAL
    for_code = {Property.PROXY_FENCES_INSERTED, Property.SHARED_MEMORY_FLAT, Property.WARPS_RECONVERGED}
    assert set(Property) == required | for_code


def test_properties_have_names_and_meanings_of_their_own():
    assert len(Property) == len({each.label for each in Property}) == len({each.meaning for each in Property})


@pytest.mark.parametrize("backend", [CPU, CUDA], ids=["cpu", "cuda"])
def test_every_pass_has_the_name_of_its_module_and_a_summary_of_one_sentence(backend):
    for each in backend.passes:
        assert each.run.__module__.rpartition(".")[2] == each.name
        assert each.summary
        assert not each.summary.endswith(".")
        assert ". " not in each.summary


def test_what_no_pass_for_a_machine_changes_holds_from_the_beginning():
    overlap = Property.WARPS_SPECIALIZED
    plan = step("plan", requires=(overlap,))
    with pytest.raises(CompilerBug, match="plan requires 'warps specialized', which no pass establishes"):
        build_pipeline(plan, LOWER)
    build_pipeline(plan, LOWER, assumes=(overlap,), establishes=(overlap,))
