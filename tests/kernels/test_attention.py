"""Attention as ptxas compiles it: with three consumer warpgroups, backward, and MLA decode."""

import attention_programs
import pytest
from device_text import needs_cuda_compiler
from examples_of import load
from specialized import TARGET, lowered

from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.runtime.device_code import build


@pytest.mark.slow(every=3)
@needs_cuda_compiler
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim,block_n", [(128, 80), (64, 128)])
def test_tiles_of_three_warpgroups_fit_into_their_registers(dim, block_n, causal):
    made = lowered(attention_programs.flash(8, 15 * 256, dim, 192, block_n, causal=causal, threads=384), persistent=True)
    for used in build(emit(made), TARGET.arch, "nvrtc").resources.values():
        assert (0, False) == (used.spill_bytes, used.serialized)


@pytest.mark.slow(every=2)
@needs_cuda_compiler
@pytest.mark.parametrize("causal,local", [(False, 0), (True, 8)])
def test_the_backward_pass_spills_nothing_within_its_loop(causal, local):
    program = load("03_attention/attention_backward.py").attention_backward.get_tir(
        4, 32, 4096, 128, block_M=64, block_N=128, threads=256, causal=causal
    )
    made = build(emit(lowered(program)), TARGET.arch, "nvrtc")
    for used in made.resources.values():
        # two scalars of the loop over tiles, by ptxas 13.5; none by 13.0
        assert used.local_bytes <= local and not used.serialized
    assert all("spill" in warning for warning in made.warnings)


@needs_cuda_compiler
def test_mla_decode_spills_nothing():
    program = load("04_mla_decoding/mla_absorbed.py").mla_absorbed.get_tir(64, 128, 8192, 512, 64)
    made = build(emit(lowered(program)), TARGET.arch, "nvrtc")
    for used in made.resources.values():
        assert (0, 0, False) == (used.spill_bytes, used.local_bytes, used.serialized)
    assert () == made.warnings
