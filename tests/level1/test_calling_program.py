"""Modules with the programs between calls of Level 2 kernels."""

import numpy as np
import pytest
from array_functions import numbers, trace
from level1_kernels import scaled_and_shifted

import tilelang.numpy as tnp
from tilelang.errors import TuningError
from tilelang.level1.calling_program import lower_computation
from tilelang.level1.execution import load_program
from tilelang.level1.graph import Graph
from tilelang.level1.lower import lower
from tilelang.level1.reference import evaluate_graph
from tilelang.targets.target import parse_target

CPU = parse_target("cpu")
KERNEL = scaled_and_shifted(target="cpu")


def called_twice() -> Graph:
    def f(x, w):
        y, z = KERNEL(tnp.exp(x) + w, 2.0)
        (y, _) = KERNEL(z, 3.0)
        return tnp.sum(y) + w, z

    return trace(f, numbers(5), numbers(5))


def test_the_function_runs_programs_and_kernels_in_turn() -> None:
    graph = called_twice()
    lowered = lower_computation(graph, CPU)
    assert lowered.text.endswith(
        '''
def f(both):
    """Makes the function that runs the programs, and between them the kernels that are given."""
    f_0_kernel = f_0()
    f_2_kernel = f_2()

    def run(x0, x1):
        add = f_0_kernel(x0, x1)
        _, z = both(add, 2.0)
        y, _ = both(z, 3.0)
        return f_2_kernel(x1, z, y)

    return run
'''
    )
    assert (3, 2, "add z y") == (len(lowered.kernels), len(lowered.parts), " ".join(a.name for a in lowered.memory))
    x, w = numbers(5), numbers(5, seed=1)
    found = load_program(lowered.text)["f"](KERNEL)(x, w)
    for one, other in zip(found, evaluate_graph(graph, (x, w), {}), strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


def test_without_calls_it_is_one_program() -> None:
    graph = trace(lambda x: x + 1, numbers(5))
    assert lower(graph, CPU).text == lower_computation(graph, CPU).text


def test_tilings_of_all_parts() -> None:
    graph = called_twice()
    default = lower_computation(graph, CPU)
    texts = [str(tiling) for tiling in default.tilings]
    assert default.text == lower_computation(graph, CPU, tilings=texts).text
    with pytest.raises(TuningError) as error:
        lower_computation(graph, CPU, tilings=texts[:1])
    assert "f: it has 3 kernels, and the decision has tilings of 1" == error.value.message
