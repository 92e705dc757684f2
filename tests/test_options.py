from pathlib import Path

import pytest

from tilelang.errors import OptionError
from tilelang.options import CompileOptions, PassConfigKey
from tilelang.saved_schedule import ScheduleOverrides


def test_a_key_is_equal_to_its_text() -> None:
    assert "tl.enable_fast_math" == PassConfigKey.TL_ENABLE_FAST_MATH
    assert "tl.enable_fast_math" == str(PassConfigKey.TL_ENABLE_FAST_MATH)


@pytest.mark.parametrize("key", [PassConfigKey.TL_ENABLE_FAST_MATH, "tl.enable_fast_math"])
def test_fast_math_is_asked_for_by_key_or_text(key: str) -> None:
    assert CompileOptions.from_user({key: True}).fast_math
    assert not CompileOptions.from_user({key: False}).fast_math


def test_every_published_key_is_accepted() -> None:
    texts = {PassConfigKey.TL_DEVICE_COMPILE_FLAGS: "-O1", PassConfigKey.TL_SCHEDULE: "[]"}
    for key in PassConfigKey:
        CompileOptions.from_user({key: texts.get(key, 1)})


def test_overrides_of_schedules_are_numbers_and_choices_under_keys_of_their_own() -> None:
    wishes = CompileOptions.from_user({"tl.stages": 3, "tl.persistent": False, "tl.ping_pong": 1}).schedule
    assert wishes == ScheduleOverrides(stages=3, persistent=False, ping_pong=True)
    assert 4 == CompileOptions.from_user({"tl.split": 4}).schedule.split_k
    assert not CompileOptions.from_user({"tl.disable_tma_lower": True}).schedule.specialized


def test_keys_of_their_own_beat_a_saved_schedule() -> None:
    options = CompileOptions.from_user({"tl.schedule": '[{"stages": 4, "consumers": 2}, {}]', "tl.stages": 3})
    assert ScheduleOverrides(stages=3, consumers=2) == options.launch_schedule(0)
    assert ScheduleOverrides(stages=3) == options.launch_schedule(1) == options.schedule


def test_a_text_that_is_no_schedule_is_refused_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        CompileOptions.from_user({"tl.schedule": '[{"stage": 4}]'})
    assert str(caught.value) == (
        "pass_configs: 'tl.schedule' is not the text of a schedule: there is no 'stage'; did you mean 'stages'?\n"
        "hint: write pass_configs={'tl.schedule': text} with what kernel.explain() prints behind 'schedule:'"
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("tl.consumers", 9, "an integer from 1 to 4"),
        ("tl.consumers", True, "an integer from 1 to 4"),
        ("tl.stages", 2.0, "an integer from 1 to 64"),
        ("tl.ptxas_register_usage_level", "high", "an integer from 0 to 10"),
        ("tl.ping_pong", 2, "True or False"),
        ("tl.staged", "yes", "True, False or a number of parts up to 8"),
        ("tl.l2_hints", "off", "True or False"),
        ("tl.overlap_launches", "late", "True or False"),
        ("tl.enable_dump_ir", "here", "True or False"),
        ("tl.layout_visualization_enable", "svg", "True or False"),
        ("tl.disable_wgmma", "false", "True or False"),
        ("tl.enable_fast_math", "on", "True or False"),
    ],
)
def test_values_that_mean_nothing_are_refused_at_once(key: str, value: object, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        CompileOptions.from_user({key: value})
    assert f"pass_configs: {key!r} is {value!r}, expected {expected}" == caught.value.message


@pytest.mark.parametrize("given,meant", [((2, 1), (2, 1, 1)), (2, (2, 1, 1)), ([1, 2], (1, 2, 1)), (1, (1, 1, 1))])
def test_clusters_are_wished_for_by_their_extents(given: object, meant: tuple[int, int, int]) -> None:
    assert CompileOptions.from_user({"tl.cluster": given}).schedule.cluster == meant


@pytest.mark.parametrize("given", [(4, 4), "2x1", (0, 1), (1, 1, 1, 2), (2.0, 1), (), True])
def test_what_is_no_cluster_is_refused(given: object) -> None:
    with pytest.raises(OptionError, match=r"'tl.cluster' is .*, expected the extents of a cluster of at most 8 blocks"):
        _ = CompileOptions.from_user({"tl.cluster": given}).schedule


def test_hints_to_the_cache_can_be_switched_off() -> None:
    assert CompileOptions().l2_hints
    assert not CompileOptions.from_user({"tl.l2_hints": False}).l2_hints


def test_launches_can_be_told_to_wait_for_those_in_front() -> None:
    assert CompileOptions().overlap_launches
    assert not CompileOptions.from_user({"tl.overlap_launches": False}).overlap_launches


def test_both_spellings_of_the_older_keys_are_one_key() -> None:
    old = CompileOptions.from_user({"tir.noalias": True})
    new = CompileOptions.from_user({"tirx.noalias": True})
    assert old == new


@pytest.mark.parametrize(
    ("given", "meant"),
    [("tl.enable_fastmath", "tl.enable_fast_math"), ("tl.disable_tma", "tl.disable_tma_lower")],
)
def test_an_unknown_key_names_the_nearest_one(given: str, meant: str) -> None:
    with pytest.raises(OptionError) as caught:
        CompileOptions.from_user({given: True})
    assert f"pass_configs: unknown key {given!r}\nhint: did you mean {meant!r}?" == str(caught.value)


def test_an_unknown_name_of_a_key_gives_its_text() -> None:
    with pytest.raises(OptionError, match=r"did you mean 'tl.disable_tma_lower'\?"):
        CompileOptions.from_user({"TL_DISABLE_TMA_LOWERING": True})


def test_keys_that_steer_nothing_here_are_listed() -> None:
    given = {"tl.stages": 2, "tl.disable_wgmma": True, "tl.force_let_inline": True, "tir.noalias": True}
    assert ("tir.noalias", "tl.force_let_inline") == CompileOptions.from_user(given).without_effect


def test_flags_are_a_text_or_a_list_and_come_after_those_of_pass_configs() -> None:
    options = CompileOptions.from_user({"tl.device_compile_flags": ["-DA"]}, "-O1 '-DB=x y'")
    assert ("-DA", "-O1", "-DB=x y") == options.compile_flags


def test_pass_configs_of_another_kind_are_refused() -> None:
    with pytest.raises(OptionError, match=r"pass_configs: expected a dict, got \['tl.simplify'\]"):
        CompileOptions.from_user(["tl.simplify"])  # type: ignore[arg-type]


def test_flags_of_another_kind_are_refused() -> None:
    with pytest.raises(OptionError, match="compile_flags: '-DA=\"' is not a list of flags: No closing quotation"):
        CompileOptions.from_user(compile_flags='-DA="')
    with pytest.raises(OptionError, match="compile_flags: expected a text or a list of texts, got 3"):
        CompileOptions.from_user(compile_flags=3)  # type: ignore[arg-type]


def test_options_have_a_key_that_ignores_verbosity_only() -> None:
    assert CompileOptions.from_user(verbose=True).key == CompileOptions.from_user().key
    assert CompileOptions.from_user(compile_flags="-O1").key != CompileOptions.from_user().key
    assert CompileOptions.from_user({"tl.enable_fast_math": True}).key != CompileOptions.from_user().key


def test_where_the_program_is_written_and_how_layouts_are_shown():
    assert None is CompileOptions.from_user({"tl.dump_ir_path": "here"}).dump_folder
    assert "./dump_ir" == CompileOptions.from_user({"tl.enable_dump_ir": True}).dump_folder
    assert "here" == CompileOptions.from_user({"tl.enable_dump_ir": True, "tl.dump_ir_path": Path("here")}).dump_folder
    shown = {"tl.layout_visualization_enable": True}
    key = "tl.layout_visualization_formats"
    assert () == CompileOptions.from_user({key: "svg"}).layout_formats
    assert ("txt", "svg") == CompileOptions.from_user(shown).layout_formats
    assert ("pdf", "txt") == CompileOptions.from_user({**shown, key: "PDF, txt"}).layout_formats
    assert ("txt", "svg", "pdf", "png") == CompileOptions.from_user({**shown, key: ["all"]}).layout_formats
    for wrong in ("gif", 3):
        with pytest.raises(OptionError, match=r"'all', or some of txt, svg, pdf, png"):
            CompileOptions.from_user({**shown, key: wrong})
    with pytest.raises(OptionError, match=r"'tl.dump_ir_path' is 3, expected the path of a folder"):
        CompileOptions.from_user({"tl.enable_dump_ir": True, "tl.dump_ir_path": 3})


_SIMPLIFY = (
    "transitively_prove_inequalities convert_boolean_to_and_of_ors apply_constraints_to_boolean_branches "
    "propagate_knowns_to_prove_conditional propagate_knowns_to_simplify_expressions enable_simplify_let_inline"
).split()


def test_every_key_is_known_as_member_and_text_under_both_prefixes() -> None:
    for key in PassConfigKey:
        spellings = {key, key.value, key.value.replace("tir.", "tirx.", 1)}
        values = [CompileOptions.from_user({spelling: None}).pass_configs for spelling in spellings]
        if key is not PassConfigKey.TL_DEVICE_COMPILE_FLAGS:
            assert [((key.value, None),)] * len(spellings) == values
    assert set(_SIMPLIFY) < {key.value for key in PassConfigKey}


def test_fast_math_stays_off_where_it_is_switched_off() -> None:
    both = {PassConfigKey.TL_ENABLE_FAST_MATH: True, PassConfigKey.TL_DISABLE_FAST_MATH: True}
    assert [True, False, False] == [
        CompileOptions.from_user(configs).fast_math
        for configs in ({"tl.enable_fast_math": True}, both, {"tl.disable_fast_math": False})
    ]
