"""Moving registers between warpgroups."""

import pytest
from device_text import compile_cuda, cuda_source, needs_cuda_compiler
from warp_alone import WarpAlone, run

from tilelang.errors import CompilerBug
from tilelang.isa.instruction import ExecutionScope
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_WAIT
from tilelang.targets.nvidia.isa.registers import requested_registers, set_max_registers


def test_whole_warps_execute_it():
    warp = WarpAlone()
    run(set_max_registers(240, True), warp)
    assert [("converge", "setmaxnreg")] == warp.asked
    assert ExecutionScope.WARP_GROUP is set_max_registers(24, False).execution_scope


@pytest.mark.parametrize("count", [16, 23, 100, 264])
def test_the_machine_takes_multiples_of_eight(count):
    with pytest.raises(CompilerBug, match=str(count)):
        set_max_registers(count, True)


def test_calls_say_what_they_ask_for():
    assert (240, True) == requested_registers(set_max_registers(240, True))
    assert (24, False) == requested_registers(set_max_registers(24, False))
    assert requested_registers(MBARRIER_WAIT) is None


@needs_cuda_compiler
def test_it_assembles():
    records = [set_max_registers(24, False), set_max_registers(240, True)]
    body = f"if (threadIdx.x < 128) {records[0].texts['cuda']}; else {records[1].texts['cuda']};"
    kernel = f'extern "C" __global__ void __launch_bounds__(384, 1) k() {{ {body} }}'
    assert compile_cuda(cuda_source([record.helpers["cuda"] for record in records], [kernel]), "sm_90a")
