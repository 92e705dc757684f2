"""Tests for tilelang.level1.execution."""

import inspect
import re
import traceback
from typing import Any

import array_programs
import level1_programs
import numpy as np
import pytest
from array_functions import assert_close, numbers, trace
from array_programs import OF_SOME, PROGRAMS, leaves, operands
from level1_kernels import scaled_and_shifted
from numpy_functions import BINARY, BITS, UNARY
from random_kernels.computations import Computations

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError, ProgramValueError
from tilelang.jit.options import JitOptions
from tilelang.level1.calling_program import lower_computation
from tilelang.level1.execution import (
    KernelSequence,
    arrays_of_parts,
    compile_lowered,
    load_program,
    options_for,
    predict_program,
    reference_of,
)
from tilelang.level1.functions import NAMES
from tilelang.level1.graph import Graph, Map, Parameter, axes_for, define, element
from tilelang.level1.lower import lower
from tilelang.targets.target import Target, parse_target

CPU: Target = parse_target("cpu")
OPTIONS = JitOptions(target="cpu")


def test_the_reference_takes_what_a_kernel_takes() -> None:
    run = reference_of(trace(lambda x: [x * 2, tnp.sum(x)], numbers(3)))
    x = numbers(3)
    double, total = run(x)
    assert_close(double, x * 2)
    assert_close(total, x.sum())
    given = np.empty(3, np.float32), np.empty((), np.float32)
    run(x, *given)
    assert_close(given[0], x * 2)
    with pytest.raises(ArgumentError, match=r"f: 'x0' has shape \(4,\), expected \(3,\)"):
        run(numbers(4))


def test_the_reference_finds_symbolic_sizes() -> None:
    n = T.dynamic("n")
    x, axes = define("x", (n,), DType("float32"), Parameter(0)), axes_for((n,))
    twice = define("y", (n * 2,), DType("float32"), Map(axes, element(x, (axes[0] // 2,))))
    found = reference_of(Graph("f", (x,), (twice,)))(np.array([1, 2, 3], np.float32))
    assert_close(found, np.array([1, 1, 2, 2, 3, 3], np.float32))


def test_a_program_is_compiled() -> None:
    graph = trace(lambda x, y: tnp.exp(x) + y, numbers(7, 3), numbers(3))
    kernel = compile_lowered(graph, lower(graph, CPU), OPTIONS)
    x, y = numbers(7, 3), numbers(3, seed=1)
    assert_close(kernel(x, y), np.exp(x) + y)


def test_kernels_run_between_programs() -> None:
    kernel = scaled_and_shifted(target="cpu")

    def f(x, w):
        y, z = kernel(tnp.exp(x) + w, 2.0)
        return y - z * w, z

    graph = trace(f, numbers(5), numbers(5))
    lowered = lower_computation(graph, CPU)
    run = KernelSequence(graph, lowered, CPU, OPTIONS)
    assert ["f_0", kernel.prim_func.name, "f_1"] == [each.prim_func.name for each in run.kernels]
    assert "KernelSequence(f, target='cpu')" == repr(run)
    assert all(each.get_kernel_source() in run.get_kernel_source() for each in run.kernels)
    x, w = numbers(5), numbers(5, seed=1)
    for found, expected in zip(run(x, w), reference_of(graph)(x, w), strict=True):
        assert_close(found, expected)
    given = [np.empty(5, np.float32) for _ in "ab"]
    run(x, w, *given)
    assert_close(given[1], run(x, w)[1])
    (first, (one, other)), (second, (*_, scaled)) = arrays_of_parts(graph, lowered, OPTIONS, [x, w])
    assert ("f_0", "f_1", True, True) == (first.name, second.name, one is x, other is w)
    assert_close(scaled, np.exp(x) + w + 2)


def test_nothing_of_a_sequence_runs_if_an_argument_does_not_fit() -> None:
    ran = []
    kernel = scaled_and_shifted(target="cpu")
    graph = trace(lambda x, w: kernel(tnp.exp(x), 2.0)[0] * w, numbers(5), numbers(5))
    run = KernelSequence(graph, lower_computation(graph, CPU), CPU, OPTIONS)
    run.kernels[0]._runner.call = ran.append
    with pytest.raises(ArgumentError) as error:
        run(numbers(5), numbers(6))
    assert "f: 'x1' has shape (6,), expected (5,)" == str(error.value)
    assert [] == ran


def test_errors_in_a_program_show_its_lines() -> None:
    names = load_program("def f():\n    return 1 // 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        names["f"]()
    assert "    return 1 // 0" in "".join(traceback.format_exception(error.value))


def check_random_computation(seed: int) -> None:
    computation = Computations(seed).draw()
    scope = {"tnp": tnp}
    exec(computation.text, scope)
    graph = trace(scope["f"], *computation.arguments)
    kernel = compile_lowered(graph, lower(graph, CPU), OPTIONS)
    found = kernel(*computation.arguments)
    expected = reference_of(graph)(*computation.arguments)
    pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
    for one, other in pairs:
        assert_close(one, other, computation.tolerance)


@pytest.mark.slow(every=128)
@pytest.mark.parametrize("seed", range(128))
def test_random_computations(seed: int) -> None:
    check_random_computation(seed)


def test_every_function_has_a_program() -> None:
    called = re.findall(r"(?:xp|tnp)\.(\w+)", inspect.getsource(array_programs))
    assert set() == set(NAMES) - {*called, *UNARY, *BINARY, *BITS}


def check_functions(name: str, shape: tuple[int, int], **options: Any) -> None:
    """Compares a computation with NumPy's float64; on a CPU also with its printed program, which gives the same bits."""
    ours, numpy = PROGRAMS[name]
    arrays = operands(*shape)

    def f(x: Any, p: Any, i: Any) -> Any:
        return ours(x, p, i)

    computation = tilelang.compute(**options)(f)
    found = leaves(computation(*arrays))
    with np.errstate(all="ignore"):
        expected = leaves(numpy(*(each.astype(np.float64) if each.dtype.kind == "f" else each for each in arrays)))
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-3 if one.dtype == np.float16 else 2e-5)
    if options["target"] != "cpu":
        return
    printed = load_program(computation.program(*arrays))["f"]()
    again = leaves(printed(*arrays))
    assert [each.tobytes() for each in found] == [each.tobytes() for each in again]


@pytest.mark.slow(every=24)
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions(name: str) -> None:
    check_functions(name, (5, 70), target="cpu")


@pytest.mark.slow(every=64)
@pytest.mark.parametrize("shape", [(33, 4), (1, 1), (0, 5), (6, 0)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_of_other_shapes(name: str, shape: tuple[int, int]) -> None:
    if 0 not in shape or name not in OF_SOME:
        check_functions(name, shape, target="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_on_a_simulated_gpu(name: str) -> None:
    check_functions(name, (33, 4), target={"kind": "cuda", "arch": "sm_90a"}, execution_backend="simulator")


def test_calls_have_the_switches_of_the_printed_program() -> None:
    target = parse_target({"kind": "cuda", "arch": "sm_90a"})
    graph = level1_programs.matmul(512, 512, 16384)
    lowered = lower(graph, target)
    assert {"tl.workspace_split": 8} == lowered.tilings[0].pass_configs
    options = options_for(graph, lowered, JitOptions(target=target, pass_configs={"tl.split": 4}))
    assert {"tl.split": 4} == options.pass_configs
    assert {"tl.workspace_split": 8} == options_for(graph, lowered, JitOptions(target=target)).pass_configs


def test_a_program_has_a_predicted_time() -> None:
    target = parse_target({"kind": "cuda", "arch": "sm_90a"})
    large, small = (
        predict_program(lower(level1_programs.softmax(rows, 4096), target), target, JitOptions(target=target))
        for rows in (65536, 64)
    )
    assert "device memory" == large.bound
    assert small.seconds < 1e-5 < 4e-4 < large.seconds < 7e-4


@pytest.mark.parametrize("descending", [False, True])
def test_one_program_sorts_and_scans_axes_of_any_size(descending: bool) -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    @tilelang.compute(target="cpu")
    def f(x: T.Tensor((n, m), "float32")) -> Any:
        order = tnp.argsort(x, axis=1, descending=descending)
        return order, tnp.take_along_axis(x, order, axis=1), tnp.cumulative_sum(x, axis=0)

    program = load_program(f.program())["f"]()
    for shape in ((3, 37), (1, 1), (0, 5), (4, 0), (2, 1500)):
        x = numbers(*shape).round(1)
        order, values, sums = f(x)
        expected = np.argsort(-x if descending else x, axis=1, kind="stable")
        np.testing.assert_array_equal(order, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis=1))
        np.testing.assert_allclose(sums, np.cumsum(x, axis=0, dtype=np.float64), rtol=1e-5, atol=1e-5)
        for one, other in zip((order, values, sums), program(x), strict=True):
            np.testing.assert_array_equal(one, other)


def test_one_program_finds_the_first_of_axes_of_any_size() -> None:
    m = T.dynamic("m")

    @tilelang.compute(target="cpu")
    def f(x: T.Tensor((m,), "float32")) -> Any:
        return tnp.topk(x, 5)

    for size in (5, 6, 1024, 1025, 5000):
        x = numbers(size).round(1)
        values, places = f(x)
        expected = np.argsort(-x, kind="stable")[:5]
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(values, x[expected])
    with pytest.raises(ProgramValueError) as error:
        f(numbers(4))
    assert "tnp.topk: k is 5, but axis 0 has fewer elements" == error.value.message
