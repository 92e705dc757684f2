"""Results are computed where they are stored, if nothing else uses them and nothing they are made of changes before."""

import numpy as np
import pytest
from gpu import assert_simulates

import tilelang.language as T
from tilelang.ir.printer import to_text
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.passes import compute_where_stored
from tilelang.targets.target import Target

M, N = 32, 16


def gated(x, y, bias, i, j):
    return x[i, j] / (1.0 + T.exp(-x[i, j])) * y[i, j]


def squared(x, y, bias, i, j):
    return (x[i, j] + bias[j]) * (x[i, j] + bias[j])


def combined(x, y, bias, i, j):
    return x[i, j] * (y[i, j] + bias[j])


def stored(value, *, meanwhile="", behind="", parts=1, names=0):
    """A kernel that computes a tile in place, and stores it, in parts, through shared memory."""
    columns = N // parts

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        Y: T.Tensor((M, N), "float32"),
        bias: T.Tensor((N,), "float32"),
        Z: T.Tensor((M, N), "float16"),
        W: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=32):
            x, y = T.alloc_fragment((M, N), "float32"), T.alloc_fragment((M, N), "float32")
            z = T.alloc_shared((M, N), "float16")
            T.copy(X, x)
            T.copy(Y, y)
            for i, j in T.Parallel(M, N):
                if names:
                    a = value(x, y, bias, i, j)
                    b = a * a
                    if names == 2:
                        x[i, j] = b - a
                    else:
                        c = b * b
                        d = c * c
                        x[i, j] = d * d - a
                else:
                    x[i, j] = value(x, y, bias, i, j)
            if meanwhile:
                for i, j in T.Parallel(M, N):
                    if meanwhile == "another tile":
                        y[i, j] = 0.0
                    else:
                        x[i, j] = T.max(x[i, j], 1.0)
            T.copy(x[:, :columns], z[:, :columns])
            if parts > 1:
                T.copy(x[:, columns:], z[:, columns:])
            T.copy(z, Z)
            if behind == "stored again":
                T.copy(x, z)
                T.copy(z, Z)
            if behind == "used":
                T.copy(x, W)

    return main


def computed(func):
    """What a program computes after the pass, in its order: the values of stores to the first tile, and to shared memory."""
    context = PassContext(CompileOptions.from_user({}), Target("cuda", "sm_90a"))
    passes = BACKEND.passes[: BACKEND.passes.index(compute_where_stored.PASS) + 1]
    lines = [line.strip() for line in to_text(run_passes(func, passes, context)).splitlines()]
    return [line for line in lines if line.startswith(("x[", "z[")) and "X[" not in line]


def arrays():
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, 5, (M, N)).astype(np.float32) for _ in range(2))
    return x, y, rng.integers(-4, 5, N).astype(np.float32), np.zeros((M, N), np.float16), np.zeros((M, N), np.float32)


def test_what_registers_hold_is_computed_where_it_is_stored():
    assert ["z[i, j] = T.float16(x[i, j] / (1.0 + T.exp(-x[i, j])) * y[i, j])"] == computed(stored(gated))


def test_results_may_be_stored_in_parts():
    value = "T.float16(x[i, {0}] / (1.0 + T.exp(-x[i, {0}])) * y[i, {0}])"
    first, second = computed(stored(gated, parts=2))
    assert f"z[i, j] = {value.format('j')}" == first
    assert f"z[i, 8 + j] = {value.format('8 + j')}" == second


def test_what_loads_memory_stays_in_front():
    expected = ["x[i, j] = x[i, j] + bias[j]", "z[i, j] = T.float16(x[i, j] * x[i, j])"]
    assert expected == computed(stored(squared))


def test_what_has_a_name_is_computed_where_it_is_used():
    expected = ["x[i, j] = x[i, j] + bias[j]", "z[i, j] = T.float16(x[i, j] * x[i, j] - x[i, j])"]
    assert expected == computed(stored(lambda x, y, bias, i, j: x[i, j] + bias[j], names=2))


def test_what_has_names_of_names_without_end_is_computed_in_place():
    assert "z[i, j] = T.float16(x[i, j])" == computed(stored(gated, names=4))[-1]


def test_values_that_need_memory_beside_the_results_are_computed_in_place():
    assert "z[i, j] = T.float16(x[i, j])" == computed(stored(combined))[-1]


@pytest.mark.parametrize("options", [{"meanwhile": "another tile"}, {"behind": "stored again"}, {"behind": "used"}])
def test_results_that_are_used_otherwise_or_would_change_are_computed_in_place(options):
    assert "x[i, j] = x[i, j] / (1.0 + T.exp(-x[i, j])) * y[i, j]" in computed(stored(gated, **options))


def test_only_the_last_computation_is_moved():
    first, last = computed(stored(gated, meanwhile="the tile"))
    assert "x[i, j] = x[i, j] / (1.0 + T.exp(-x[i, j])) * y[i, j]" == first
    assert "z[i, j] = T.float16(T.max(x[i, j], 1.0))" == last


@pytest.mark.parametrize("value", [gated, squared, combined])
@pytest.mark.parametrize(
    "options", [{}, {"parts": 2}, {"meanwhile": "the tile"}, {"behind": "used"}, {"names": 2}], ids=str
)
def test_every_element_has_its_value(value, options):
    assert_simulates(stored(value, **options), *arrays(), arch="sm_90a")
