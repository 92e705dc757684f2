"""Random whole kernels: the CPU target and simulated GPUs compute what the reference interpreter computes.

Integers, truth values and floats within their contract agree exactly; transcendental functions within rounding. A
failure shows the simplest program that fails in the same way.
"""

import ast

import pytest
from device_text import ARCHITECTURES, compile_cuda, needs_cuda_compiler
from random_kernels import outcomes, runners
from random_kernels.checking import check_random, compare, load
from random_kernels.choices import Seeded
from random_kernels.gemm_programs import GemmPrograms
from random_kernels.lanes import LanePrograms
from random_kernels.layout_programs import LayoutPrograms
from random_kernels.operators import OperatorPrograms
from random_kernels.programs import Programs
from random_kernels.warp_specialized_programs import WarpSpecializedPrograms, schedule_overrides

import tilelang
from tilelang.errors import ResourceError
from tilelang.targets.cpu.passes import stream_stores

# random programs spill, and have parallel loops that must run in order
pytestmark = pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")


def on_cpu(compile_flags):
    return lambda program: compare(program, runners.on_cpu(compile_flags))


def on_simulator(arch, lazy, seed, **pass_configs):
    return lambda program: compare(program, runners.on_simulator(arch, lazy, seed, **pass_configs))


def test_loops_store_to_places_that_their_stores_do_not_move():
    for seed in (*range(100), 200000046):
        text = Programs(Seeded(seed), seed).program(2, 5).text
        loops = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For)]
        for loop in loops:
            if ast.unparse(loop.iter).startswith(("T.Parallel", "T.vectorized")):
                for store in (node for node in ast.walk(loop) if isinstance(node, ast.Assign | ast.AugAssign)):
                    for target in store.targets if isinstance(store, ast.Assign) else (store.target,):
                        if isinstance(target, ast.Subscript):
                            names = {n.id for n in ast.walk(target.slice) if isinstance(n, ast.Name)}
                            assert target.value.id not in names, ast.unparse(store)


def test_nothing_is_known_of_indices_in_front_of_a_tensor():
    """By `if i < 1`, `O[i - 2]` would surely be negative and count from the end, where another iteration stores."""
    for seed in (*range(100), 800000083):
        text = Programs(Seeded(seed), seed).program(2, 5).text
        loops = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.For)]
        for loop in (loop for loop in loops if ast.unparse(loop.iter).startswith("T.Parallel")):
            inside = [node for statement in loop.body for node in ast.walk(statement)]
            for name in (node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)):
                stores = [n for n in inside if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
                if any(f"{name} - 2" in ast.unparse(store.slice) for store in stores):
                    uses = sum(isinstance(node, ast.Name) and node.id == name for node in inside)
                    assert uses == ast.unparse(loop).count(f"{name} - 2"), ast.unparse(loop)


def test_sums_of_float16_are_exact_in_every_order():
    check_random(680001034, on_simulator("sm_90a", True, 0))


@pytest.mark.slow(every=160)
@pytest.mark.parametrize("seed", range(120))
def test_small_kernels_agree_with_the_reference(seed):
    check_random(seed, on_cpu("-O1"))


@pytest.mark.slow(every=120)
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_optimized_kernels_agree_with_the_reference(seed):
    check_random(seed, on_cpu(None))


@pytest.mark.slow(every=80)
@pytest.mark.parametrize("seed", range(2000, 2020))
def test_kernels_that_stream_their_results_agree_with_the_reference(seed, monkeypatch):
    monkeypatch.setattr(stream_stores, "LARGE_BYTES", 64)
    check_random(seed, on_cpu(None))


@pytest.mark.slow(every=116)
@pytest.mark.parametrize("seed", range(60))
def test_kernels_on_a_simulated_gpu_agree_with_the_reference(seed):
    arch = ("sm_80", "sm_75", "sm_90a")[seed % 3]
    check_random(seed, on_simulator(arch, lazy=seed % 2 == 0, seed=seed))


@pytest.mark.slow(every=124)
@pytest.mark.parametrize("seed", range(3000, 3080))
def test_tiles_that_many_threads_share_agree_with_the_reference(seed):
    arch = ("sm_80", "sm_75", "sm_90a")[seed % 3]
    check_random(seed, on_simulator(arch, lazy=seed % 2 == 0, seed=seed), 1, 5, LayoutPrograms)


@pytest.mark.slow(every=240)
@pytest.mark.parametrize("seed", range(7000, 7060))
def test_kernels_of_operators_of_the_library_agree_with_the_reference(seed):
    arch = ("sm_80", "sm_75", "sm_90a")[seed % 3]
    runners_of_seed = (runners.on_cpu("-O1"), runners.on_simulator(arch, seed % 2 == 0, seed))
    check_random(seed, lambda program: compare(program, *runners_of_seed), 1, 6, OperatorPrograms)


@pytest.mark.slow(every=164)
@pytest.mark.parametrize("seed", range(8000, 8060))
def test_lanes_exchange_what_numpy_says(seed):
    arch = ("sm_80", "sm_75", "sm_90a")[seed % 3]
    check_random(seed, on_simulator(arch, lazy=seed % 2 == 0, seed=seed), 1, 8, LanePrograms)


PASS_CONFIGS = ({}, {"persistent": True}, {"persistent": True, "ping_pong": True}, {"in_flight": 1})


def check_that_fits(seed, runner, kind):
    """Checks a random program with one kernel, unless its tiles are drawn larger than shared memory."""

    def check(program):
        try:
            runner(program)
        except ResourceError as error:
            assert "shared memory" in str(error)

    with runners.few_multiprocessors():
        check_random(seed, check, 1, 1, kind)


@pytest.mark.slow(every=148)
@pytest.mark.parametrize("seed", range(5000, 5100))
def test_products_that_threads_share_by_roles_agree_with_the_reference(seed):
    runner = on_simulator("sm_90a", seed % 2 == 0, seed, **PASS_CONFIGS[seed % 4])
    check_that_fits(seed, runner, GemmPrograms)


def check_roles(seed):
    runner = on_simulator("sm_90a", seed % 2 == 0, seed, **schedule_overrides(Seeded(seed)))
    check_that_fits(seed, runner, WarpSpecializedPrograms)


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("seed", range(6004, 6008))
def test_some_programs_of_several_products_and_loops_agree_with_the_reference(seed):
    check_roles(seed)


@pytest.mark.slow(every=768)
@pytest.mark.parametrize("seed", range(6008, 6200))
def test_programs_of_several_products_and_loops_agree_with_the_reference(seed):
    check_roles(seed)


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("generator", outcomes.GENERATORS)
@pytest.mark.parametrize("gpu", ["simulator", "amd"])
def test_programs_of_fresh_seeds_have_outcomes(gpu, generator):
    limits = outcomes.Limits(reference=10.0, executor=60.0)
    found = list(outcomes.check(generator, 9002, ("cpu", gpu), limits))
    executors = ["reference", *(["cpu"] if generator != "lanes" else []), gpu]
    assert [(executor, outcomes.AGREES) for executor in executors] == [(each.executor, each.outcome) for each in found]


@pytest.mark.slow(every=240)
@pytest.mark.parametrize("seed", range(9100, 9140))
@pytest.mark.parametrize("generator", outcomes.GENERATORS)
def test_kernels_on_simulated_gpus_of_amd_agree_with_the_reference(generator, seed):
    for each in outcomes.check(generator, seed, ("amd",), outcomes.Limits(reference=10.0, executor=60.0)):
        assert each.outcome in (outcomes.AGREES, outcomes.TOO_LARGE), each.message


def compiles(arch):
    def check(program):
        compile_cuda(tilelang.lower(load(program.text), target={"kind": "cuda", "arch": arch}).kernel_source, arch)

    return check


@needs_cuda_compiler
@pytest.mark.slow(every=48)
@pytest.mark.parametrize("seed", range(6000, 6012))
def test_the_text_of_programs_with_roles_compiles(seed):
    check_random(seed, compiles("sm_90a"), 1, 1, WarpSpecializedPrograms)


@needs_cuda_compiler
@pytest.mark.slow(every=64)
@pytest.mark.parametrize("seed", range(5000, 5016))
def test_the_text_of_products_compiles_for_hopper(seed):
    check_random(seed, compiles("sm_90a"), 1, 1, GemmPrograms)


@needs_cuda_compiler
@pytest.mark.slow(every=36)
@pytest.mark.parametrize("seed", range(4000, 4020))
def test_the_text_of_kernels_for_gpus_compiles(seed):
    check_random(seed, compiles(ARCHITECTURES[seed // 4 % len(ARCHITECTURES)]), 1, 5, LayoutPrograms)
