"""Two small blocks at once on a multiprocessor: chosen by predicted times, left alone by what users set, and right."""

import dataclasses
import re

import numpy as np
import pytest
from examples_of import benchmark_programs, load
from fake_cuda import needs_nvrtc
from specialized import gemm_kernel

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError, ResourceError
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.passes import choose_occupancy
from tilelang.targets.target import Target

HOPPER = {"kind": "cuda", "arch": "sm_90a"}
TARGET = Target("cuda", "sm_90a")


def plan_of(func, target=TARGET, **pass_configs):
    """The plan of the last launch, behind the choice of schedules."""
    passes = target.family.backend().passes
    last = next(n for n, each in enumerate(passes) if each.name == "choose_schedule")
    options = CompileOptions.from_user({f"tl.{name}": value for name, value in pass_configs.items()})
    func = run_passes(func, passes[: last + 1], PassContext(options, target))
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)][-1].plan


def about_blocks(plan):
    return [note.text for note in plan.notes if "at once on a multiprocessor" in note.text]


def linear(name, columns=64, heads=32, length=4096):
    """A kernel of linear attention with heads of 128 features and a batch of 8."""
    module = load(f"06_linear_attention/{name}.py")
    sizes = (8, heads, 1, length, 128, 128) if name == "mamba2" else (8, heads, length, 128, 128)
    return getattr(module, name).get_tir(*sizes, block_D=columns)


@pytest.mark.parametrize(("name", "share"), [("retention", 0.61), ("mamba2", 0.61), ("gated_delta_rule", 0.66)])
def test_two_blocks_where_they_are_faster_by_prediction(name, share):
    plan = plan_of(linear(name), enable_fast_math=True)
    schedule = plan.schedule
    assert (2, 1, 1, False) == (schedule.blocks_per_sm, schedule.consumers, schedule.stages, schedule.persistent)
    assert (128, (232, 24)) == (schedule.producer_threads, schedule.registers)
    predicted = re.fullmatch(r"two blocks at once .*: predicted (\d+) us, one (\d+) us", about_blocks(plan)[0])
    assert predicted is not None
    assert share == pytest.approx(int(predicted[1]) / int(predicted[2]), rel=0.05)
    assert "2 blocks at once on a multiprocessor" in about_blocks(plan)[1]  # the text of the schedule


@pytest.mark.parametrize("causal", [False, True])
def test_two_blocks_where_one_warpgroup_computes_alone(causal):
    make = benchmark_programs().attention_program
    plan = plan_of(make(1, 32, 2048, 128, 64, 64, threads=128, causal=causal), enable_fast_math=True)
    assert (2, 1, False) == (plan.schedule.blocks_per_sm, plan.schedule.consumers, plan.schedule.persistent)
    assert about_blocks(plan)[0].startswith("two blocks at once on a multiprocessor: predicted ")


def test_one_block_where_two_have_no_room():
    plan = plan_of(linear("retention", columns=128))
    assert (1, 2) == (plan.schedule.blocks_per_sm, plan.schedule.consumers)
    assert [] == about_blocks(plan)


def test_one_block_where_two_are_hardly_faster(monkeypatch):
    monkeypatch.setattr(choose_occupancy, "_MIN_GAIN", 0.5)
    plan = plan_of(linear("retention"), enable_fast_math=True)
    assert (1, True) == (plan.schedule.blocks_per_sm, plan.schedule.persistent)
    (note,) = about_blocks(plan)
    assert re.fullmatch(r"one block at once on a multiprocessor: predicted \d+ us, two \d+ us", note)


def test_nothing_is_chosen_where_a_kernel_cannot_be_predicted(monkeypatch):
    def failing(func, machine, *, fast_math):
        raise ResourceError("too large")

    monkeypatch.setattr("tilelang.performance.predict.predict", failing)
    plan = plan_of(linear("retention"))
    assert 1 == plan.schedule.blocks_per_sm and [] == about_blocks(plan)


def annotated(func):
    (launch,) = (stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    hints = dataclasses.replace(launch.hints, min_blocks_per_sm=1)
    return dataclasses.replace(func, body=dataclasses.replace(launch, hints=hints))


@pytest.mark.parametrize(
    "make",
    [
        lambda: linear("retention", heads=8),  # 128 blocks: not more than multiprocessors
        lambda: linear("retention", heads=T.dynamic("heads")),
        lambda: annotated(linear("retention")),
        lambda: gemm_kernel(8192, 8192, 8192, 64, 64),  # a single gemm is in flight across iterations
        lambda: benchmark_programs().attention_program(4, 32, 4096, 128, 128, 64, threads=256),  # software-pipelined
        lambda: benchmark_programs().attention_program(1, 32, 1024, 128, 64, 64, threads=128),  # 512 blocks
    ],
    ids=["few", "symbolic", "annotated", "one gemm", "pipelined", "few pipelined"],
)
def test_others_are_left_alone_without_a_word(make):
    plan = plan_of(make())
    assert 1 == plan.schedule.blocks_per_sm and [] == about_blocks(plan)


@pytest.mark.parametrize(
    "overrides",
    [
        {"persistent": True},
        {"persistent": False},
        {"consumers": 2},
        {"stages": 2},
        {"staged": 0},
        {"cluster": (1, 1)},
        {"schedule": "[{}]"},
        {"disable_warp_specialized": True},
    ],
    ids=str,
)
def test_what_the_user_sets_leaves_one_block(overrides):
    plan = plan_of(linear("retention"), **overrides)
    assert plan.schedule is None or 1 == plan.schedule.blocks_per_sm
    assert [] == about_blocks(plan)


def test_other_targets_are_left_alone():
    func = linear("retention")
    for arch in ("sm_80", "sm_100a"):
        context = PassContext(target=Target("cuda", arch))
        (step,) = (each for each in context.target.family.backend().passes if each.name == "choose_occupancy")
        assert step.run(func, context) is func


@needs_nvrtc
def test_the_printed_schedule_gives_the_same_kernel_without_spills():
    kernel = tilelang.compile(linear("retention"), target=HOPPER, pass_configs={"tl.enable_fast_math": True})
    text = kernel.explain().rpartition("schedule: ")[2]
    assert '"blocks_per_sm": 2' in text
    configs = {"tl.enable_fast_math": True, "tl.schedule": text}
    again = tilelang.compile(linear("retention"), target=HOPPER, pass_configs=configs)
    assert again.get_kernel_source() == kernel.get_kernel_source()
    assert "__launch_bounds__(256, 2)" in kernel.get_kernel_source()
    assert 0 == kernel.resources.spill_bytes


def test_two_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ProgramError) as caught:
        plan_of(linear("retention", columns=128), schedule='[{"blocks_per_sm": 2}]')
    assert (
        "pass_configs: warps cannot be specialized with 'blocks_per_sm' of 'tl.schedule': 2: tiles take 224 registers of a "
        "thread, which has 208 for them"
    ) == caught.value.message
    assert "'blocks_per_sm' of 'tl.schedule': 1 fits" == caught.value.hint


def simulated(name, launches, *sizes, **tiles):
    """An example's kernel with two blocks at once, in the simulator."""
    module = load(f"06_linear_attention/{name}.py")
    schedule = ", ".join(["{}"] * (launches - 1) + ['{"blocks_per_sm": 2}'])
    kernel = tilelang.compile(
        getattr(module, name).get_tir(*sizes, **tiles), out_idx=[-1], target=HOPPER, execution_backend="simulator",
        pass_configs={"tl.schedule": f"[{schedule}]"},
    )  # fmt: skip
    assert "2 blocks at once on a multiprocessor" in kernel.explain()
    return module, kernel


def halves(rng, *shape):
    return (rng.standard_normal(shape) / shape[-1] ** 0.25).astype(np.float16)


in_two_blocks = pytest.mark.slow(every=3)


def agrees(out, expected):
    np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)


@in_two_blocks
def test_retention_in_two_blocks_agrees_with_its_reference():
    module, kernel = simulated("retention", 1, 1, 2, 136, 64, 72)
    rng = np.random.default_rng(0)
    q, k, v = halves(rng, 1, 2, 136, 64), halves(rng, 1, 2, 136, 64), halves(rng, 1, 2, 136, 72)
    decay = np.array([0.9, 0.96], np.float32)
    agrees(kernel(q, k, v, np.log2(decay)), module.reference(q, k, v, decay))


@in_two_blocks
def test_mamba2_in_two_blocks_agrees_with_its_reference():
    module, kernel = simulated("mamba2", 1, 1, 2, 1, 72, 64, 72)
    rng = np.random.default_rng(1)
    x, b, c = halves(rng, 1, 72, 2, 72), halves(rng, 1, 72, 1, 64), halves(rng, 1, 72, 1, 64)
    step = rng.uniform(0.01, 0.1, (1, 72, 2)).astype(np.float32)
    rate = -rng.uniform(1, 8, 2).astype(np.float32)
    agrees(kernel(x, step, rate, b, c), module.reference(x, step, rate, b, c))


@in_two_blocks
def test_the_gated_delta_rule_in_two_blocks_agrees_with_its_reference():
    module, kernel = simulated("gated_delta_rule", 2, 1, 1, 72, 64, 72)
    rng = np.random.default_rng(2)
    q, k, v = halves(rng, 1, 1, 72, 64), halves(rng, 1, 1, 72, 64), halves(rng, 1, 1, 72, 72)
    q, k = ((x / np.linalg.norm(x.astype(np.float32), axis=-1, keepdims=True)).astype(np.float16) for x in (q, k))
    log_alpha = np.log(rng.uniform(0.9, 1, (1, 1, 72))).astype(np.float32)
    beta = rng.uniform(0, 1, (1, 1, 72)).astype(np.float32)
    agrees(kernel(q, k, v, log_alpha, beta), module.reference(q, k, v, log_alpha, beta))
