from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tunable import subject_of

from tilelang.errors import OptionError, TuningError
from tilelang.targets.target import Target
from tilelang.tune.space import configurations, text_of


def matmul(M, N, block_M=None, block_N=None, dtype="float16"):
    raise NotImplementedError


def rows(configs: Any, *args: Any, **keywords: Any) -> list[dict[str, Any]]:
    return configurations(configs, subject_of(matmul, *args, **keywords))


def message(configs: Any, *args: Any) -> str:
    with pytest.raises((OptionError, TuningError)) as caught:
        rows(configs, *args)
    return str(caught.value)


# -- forms ---------------------------------------------------------------------------------------------------
def test_a_list_of_dicts_is_taken_in_order() -> None:
    given = [{"block_M": 64}, {"block_M": 32, "block_N": 8}]
    assert given == rows(given, 1, 2)


def test_a_dict_of_lists_means_each_with_each() -> None:
    assert [
        {"block_M": 1, "block_N": 3},
        {"block_M": 1, "block_N": 4},
        {"block_M": 2, "block_N": 3},
        {"block_M": 2, "block_N": 4},
    ] == rows({"block_M": (1, 2), "block_N": range(3, 5)}, 1, 2)


@given(st.dictionaries(st.sampled_from(["M", "N", "block_M", "block_N"]), st.lists(st.integers(0, 3), max_size=4)))
def test_repetitions_are_left_out(space: dict[str, list[int]]) -> None:
    distinct = 1
    for values in space.values():
        distinct *= len(set(values))
    if not space or not distinct:
        assert "there are no configurations" in message(space)
    else:
        found = rows(space)
        assert distinct == len(found)
        assert len({tuple(sorted(row.items())) for row in found}) == distinct


def test_numbers_of_different_types_are_different_values() -> None:
    assert 3 == len(rows([{"block_M": 1}, {"block_M": 1.0}, {"block_M": True}, {"block_M": 1}]))


def test_a_function_gets_the_arguments_that_it_names() -> None:
    seen = []

    def make(N, dtype, block_N=7, *, target, tunables):
        seen.append((N, dtype, block_N, target, tunables))
        return {"block_M": [N]}

    assert [{"block_M": 5}] == rows(make, 3, N=5)
    assert [(5, "float16", 7, Target("cpu"), ("block_M", "block_N"))] == seen


def test_a_function_may_take_all_arguments_or_none() -> None:
    assert [{"block_M": 3}] == rows(lambda **known: [{"block_M": known["M"]}], 3, 4)
    assert [{"block_M": 3}] == rows(lambda: [{"block_M": 3}], 3, 4)


def test_arguments_of_the_call_are_not_tuned() -> None:
    space = {"block_M": [16, 32], "block_N": [8, 16]}
    assert [{"block_M": 64, "block_N": 8}, {"block_M": 64, "block_N": 16}] == rows(space, 1, 2, block_M=64)
    assert 4 == len(rows(space, 1, 2, block_M=None))


def test_pass_configs_are_part_of_a_configuration() -> None:
    both = [{"pass_configs": {"tl.stages": 3}}, {"pass_configs": {"tl.stages": 4}}]
    assert both == rows(both)


def test_a_function_with_any_keywords_takes_any_names() -> None:
    def free(**tunables):
        raise NotImplementedError

    assert [{"anything": 1}] == configurations([{"anything": 1}], subject_of(free))


# -- texts ---------------------------------------------------------------------------------------------------
def test_configurations_read_as_arguments() -> None:
    config = {"block_M": 64, "policy": Target, "name": "x", "pass_configs": {"tl.stages": 4}}
    assert "block_M=64, policy=Target, name='x', pass_configs={'tl.stages': 4}" == text_of(config)
    assert "no arguments" == text_of({})
    assert 100 > len(text_of({"long": list(range(100))}))


# -- mistakes ------------------------------------------------------------------------------------------------
def test_an_unknown_name_is_refused() -> None:
    assert (
        "autotune: the configuration block_m=64 names 'block_m', which is no parameter of 'matmul'\n"
        "hint: did you mean 'block_M'?"
    ) == message([{"block_m": 64}])
    assert (
        "autotune: the configuration zzz=1 names 'zzz', which is no parameter of 'matmul'\n"
        "hint: its parameters are M, N, block_M, block_N, dtype"
    ) == message([{"zzz": 1}])


@pytest.mark.parametrize("empty", [[], {}, {"block_M": []}, lambda: []])
def test_an_empty_space_is_refused(empty: Any) -> None:
    assert (
        "autotune: there are no configurations of 'matmul' to choose from\n"
        "hint: pass configs={'block_M': [64, 128], ...} or a list of dicts"
    ) == message(empty)


def test_other_forms_are_refused() -> None:
    assert (
        "autotune: configs of 'matmul' must be a list of dicts, a dict of lists or a function that gives one, got int\n"
        "hint: write configs={'block_M': [64, 128], 'block_N': [64, 128]}"
    ) == message(64)
    assert (
        "autotune: configuration 1 of 'matmul' must be a dict, got 64\n"
        "hint: write configs=[{'block_M': 64}, {'block_M': 128}]"
    ) == message([{"block_M": 64}, 64])
    assert (
        "autotune: configs: 'block_M' is 64, expected a list of values to choose from\n"
        "hint: write configs={'block_M': [64]}"
    ) == message({"block_M": 64})
    assert (
        "autotune: 'pass_configs' of a configuration must be a dict, got 'tl.stages'\n"
        "hint: write {'block_M': 64, 'pass_configs': {'tl.stages': 4}}"
    ) == message([{"pass_configs": "tl.stages"}])


def test_a_function_that_cannot_be_called_is_refused() -> None:
    assert (
        "autotune: the function that makes configurations of 'matmul' cannot be called: missing a required argument: "
        "'Z'\n"
        "hint: its parameters are found by name among those of 'matmul', 'target' and 'tunables'"
    ) == message(lambda Z: [])


def test_a_function_that_fails_is_named() -> None:
    def make(M):
        raise ValueError(f"M is {M}")

    assert "autotune: the function that makes configurations of 'matmul' failed: ValueError: M is 3" == message(make, 3)
