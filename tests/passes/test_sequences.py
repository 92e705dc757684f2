"""Pipelines of all targets have the common sequences in their order."""

import pytest

from tilelang.passes.sequences import FRONT_END, GPU_SIMPLIFICATION
from tilelang.targets.amd.backend import BACKEND as AMD
from tilelang.targets.cpu.backend import BACKEND as CPU
from tilelang.targets.nvidia.backend import BACKEND as NVIDIA


def contains(passes, sequence) -> bool:
    first = passes.index(sequence[0])
    return sequence == passes[first : first + len(sequence)]


@pytest.mark.parametrize("backend", [CPU, AMD, NVIDIA])
def test_every_pipeline_has_the_front_end(backend) -> None:
    assert contains(backend.passes, FRONT_END)


@pytest.mark.parametrize("backend", [AMD, NVIDIA])
def test_programs_of_gpus_are_simplified_alike(backend) -> None:
    assert contains(backend.passes, GPU_SIMPLIFICATION)
