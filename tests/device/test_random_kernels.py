"""Random whole kernels on a real GPU: it computes what the reference interpreter and the simulator compute."""

import contextlib

import pytest
from device_launch import architecture
from random_kernels.checking import check_random, compare
from random_kernels.choices import Seeded
from random_kernels.gemm_loops import GemmLoopPrograms
from random_kernels.gemm_programs import GemmPrograms
from random_kernels.lanes import LanePrograms
from random_kernels.operators import OperatorPrograms
from random_kernels.runners import few_multiprocessors, on_device, on_simulator
from random_kernels.warp_specialized_programs import WarpSpecializedPrograms, schedule_overrides

from tilelang.errors import ResourceError
from tilelang.testing import requires_cuda

pytestmark = pytest.mark.filterwarnings("ignore::tilelang.errors.ProgramWarning")


def check(program, *runners):
    with contextlib.suppress(ResourceError):  # it wants more shared memory than a block has, which is no secret
        compare(program, *(runners or (on_simulator(architecture(), True, 0), on_device())))


@requires_cuda
@pytest.mark.parametrize("seed", range(100))
def test_kernels_agree_with_the_reference_and_the_simulator(seed):
    check_random(seed, check)


@requires_cuda
@pytest.mark.parametrize("seed", range(7000, 7060))
def test_kernels_of_operators_of_the_library_agree_with_the_reference_and_the_simulator(seed):
    check_random(seed, check, 1, 6, OperatorPrograms)


@requires_cuda
@pytest.mark.parametrize("seed", range(8000, 8060))
def test_lanes_exchange_what_numpy_says(seed):
    check_random(seed, check, 1, 8, LanePrograms)


@requires_cuda
@pytest.mark.parametrize("seed", range(5000, 5060))
def test_products_agree_with_the_reference_and_the_simulator(seed):
    check_random(seed, check, 1, 1, GemmPrograms)


@requires_cuda
@pytest.mark.parametrize("seed", range(6000, 6150))
def test_programs_of_several_products_and_loops_agree_with_the_reference(seed):
    runner = on_device(**schedule_overrides(Seeded(seed)))
    with few_multiprocessors():
        check_random(seed, lambda program: check(program, runner), 1, 1, WarpSpecializedPrograms)


@requires_cuda
@pytest.mark.parametrize("seed", [*range(9000, 9060), 680002884])
def test_programs_of_pipelined_loops_agree_with_the_reference(seed):
    runner = on_device(**schedule_overrides(Seeded(seed)))
    with few_multiprocessors():
        check_random(seed, lambda program: check(program, runner), 1, 1, GemmLoopPrograms)
