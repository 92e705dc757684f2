"""Whole programs as CUDA: random kernels compute what the reference interpreter does; the host's facts are right."""

import numpy as np
import pytest
from cuda_host import needs_compiler, run_source, sequential_source
from harness import assert_same, run_reference_on_copies
from programs import random_program


@needs_compiler
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("symbolic", [False, True])
def test_random_kernels_agree_with_the_reference_and_overflow_nowhere(seed, symbolic, capfd):
    program = random_program(300 + seed, launches=4, symbolic=symbolic)
    expected = run_reference_on_copies(program.func, program.arguments)
    actual = [np.array(a) for a in program.arguments]
    symbols = {s.name: n for p, a in zip(program.func.params, actual) for s, n in zip(p.buffer.shape, a.shape) if symbolic}
    run_source(program.func, sequential_source(program.func), actual, symbols)
    assert "" == capfd.readouterr().err
    for want, got in zip(expected, actual, strict=True):
        assert_same(want, got)
