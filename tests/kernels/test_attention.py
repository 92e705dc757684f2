"""Attention with three consumer warpgroups, as ptxas compiles it."""

import attention_programs
import pytest
from device_text import needs_cuda_compiler
from specialized import TARGET, lowered

from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.runtime.device_code import build


@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim,block_n", [(128, 80), (64, 128)])
def test_tiles_of_three_warpgroups_fit_into_their_registers(dim, block_n, causal):
    made = lowered(attention_programs.flash(8, 15 * 256, dim, 192, block_n, causal=causal, threads=384), persistent=True)
    for used in build(emit(made), TARGET.arch, "nvrtc").resources.values():
        assert (0, False) == (used.spill_bytes, used.serialized)
