"""Tests for tilelang.level1.compute: binding, caching, results, nesting, errors as users see them."""

import dataclasses
import math
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers
from level1_kernels import scaled_and_shifted

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.errors import ArgumentError, OptionError, ProgramValueError, StagingError, StagingTypeError
from tilelang.level1.execution import load_program
from tilelang.level1.graph import element

compute = tilelang.compute(execution_backend="reference")


@compute
def attention(q: Any, k: Any, v: Any, causal: bool = False) -> Any:
    s = tnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if causal:
        s = tnp.where(tnp.arange(s.shape[-2])[:, None] >= tnp.arange(s.shape[-1]), s, -tnp.inf)
    return tnp.einsum("bhqk,bhkd->bhqd", tnp.softmax(s, axis=-1), v)


def _attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    s = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / math.sqrt(q.shape[-1])
    if causal:
        s = np.where(np.tri(*s.shape[-2:], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", p / p.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (numbers(2, 3, n, 8, dtype="float16", seed=seed) for seed, n in enumerate((5, 7, 7)))
    found = attention(q, k, v, causal=causal)
    assert ("float16", np.ndarray) == (found.dtype, type(found))
    assert_close(found, _attention(q, k, v, causal), 2e-3)


# -- results -------------------------------------------------------------------------------------------------
def test_results_in_any_form() -> None:
    @compute
    def f(x: Any) -> Any:
        return {"sum": tnp.sum(x), "parts": (x + 1, [x])}

    x = numbers(3)
    found = f(x)
    assert {"sum", "parts"} == set(found)
    assert () == found["sum"].shape
    assert_close(found["parts"][0], x + 1)
    assert isinstance(found["parts"][1], list)
    assert found["parts"][1][0] is not x


def test_results_are_written_into_given_arrays() -> None:
    @compute
    def f(x: Any) -> Any:
        return x + 1, tnp.sum(x)

    x = numbers(3)
    given = np.empty(3, np.float32), np.empty((), np.float32)
    assert f(x, out=given) is given
    assert_close(given[0], x + 1)
    with pytest.raises(ArgumentError) as error:
        f(x, out=given[0])
    assert "f: out is an array, but the function returns a tuple of 2" == error.value.message
    assert "pass arrays in the form in which they are returned" == error.value.hint
    with pytest.raises(ArgumentError) as error:
        f(x, out=(np.empty(4, np.float32), given[1]))
    assert "f: 'out[0]' has shape (4,), but the result has (3,)" == error.value.message


def test_arrays_with_gaps_and_of_other_orders() -> None:
    @compute
    def f(x: Any, y: Any) -> Any:
        return x @ y, y[0]

    x, y = numbers(7, 3), numbers(7, 10, seed=1)
    expected = x.T.astype(np.float64) @ y[:, ::-2]
    assert_close(f(x.T, y[:, ::-2])[0], expected)
    memory, row = np.zeros((6, 5), np.float32), np.empty(5, np.float32)
    assert f(x.T, y[:, ::-2], out=(memory[::2], row))[1] is row
    assert_close(memory, np.kron(expected, [[1], [0]]))


def test_a_parameter_named_out_is_the_functions() -> None:
    @compute
    def f(x: Any, out: Any) -> Any:
        return x * out

    assert_close(f(np.ones(3, np.float32), 2.0), np.full(3, 2.0))


def test_arrays_of_torch() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=torch.bfloat16) for _ in "qkv")
    found = attention(q, k, v)
    assert torch.bfloat16 == found.dtype
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    torch.testing.assert_close(expected, found.double(), atol=2e-2, rtol=2e-2)
    given = torch.empty_like(q)
    assert attention(q, k, v, out=given) is given
    assert torch.equal(given, found)


class DLPack:
    """An array of another framework."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_arrays_of_other_frameworks() -> None:
    x = numbers(3)
    assert_close(np.asarray(compute(lambda_of_twice())(DLPack(x))), x * 2)


def lambda_of_twice() -> Any:
    def twice(x: Any) -> Any:
        return x * 2

    return twice


# -- compiled ------------------------------------------------------------------------------------------------
compiled = tilelang.compute(target="cpu")(attention.function)


def test_compiled_computations() -> None:
    q, k, v = (numbers(2, 3, n, 16, dtype="float16", seed=seed) for seed, n in enumerate((5, 70, 70)))
    found = compiled(q, k, v, causal=False)
    assert_close(found, _attention(q, k, v, False), 4e-3)
    given = np.empty_like(found)
    assert compiled(q, k, v, out=given) is given
    np.testing.assert_array_equal(found, given)
    assert compiled.compile(q, k, v) is compiled.compile(q, k, v)
    np.testing.assert_array_equal(found, compiled.compile(q, k, v)(q, k, v))


def test_the_program_runs_by_itself() -> None:
    shapes = [T.Tensor((2, 3, n, 16), "float16") for n in (5, 70, 70)]
    text = compiled.program(*shapes)
    assert compiled.lower(*shapes).text == text
    program = load_program(text)["attention"].get_tir()
    kernel = compiled.compile(*shapes).prim_func
    assert kernel.script() == dataclasses.replace(program, name="attention").script()


def test_a_computation_that_calls_kernels() -> None:
    kernel = scaled_and_shifted(target="cpu")

    @tilelang.compute(target="cpu")
    def f(x: Any) -> Any:
        return kernel(x + 1, 2.0)[0] * x

    x = numbers(5)
    found = f(x)
    assert_close(found, (x + 1) * 2 * x)
    text = f.program(x)
    assert ["f_0", "f_1"] == [part.entry for part in f.lower(x).parts]
    assert f.lower(x).text == text
    np.testing.assert_array_equal(found, load_program(text)["f"](kernel)(x))
    lines = f.explain(x).splitlines()
    assert ["f_0: 1 kernel", f"f: calls the kernel '{kernel.prim_func.name}'", "f_1: 1 kernel"] == [
        line for line in lines if line.startswith("f")
    ]
    sequence = f.compile(T.Tensor((5,), "float32"))
    np.testing.assert_array_equal(found, sequence(x))
    assert ["f_0", kernel.prim_func.name, "f_1"] == [each.prim_func.name for each in sequence.kernels]


def test_messages_of_calls_are_about_the_users_function() -> None:
    n = T.dynamic("n")

    @tilelang.compute(target="cpu")
    def f(x: T.Tensor((n, 4), "float32"), y: T.Tensor((n,), "float32")) -> Any:
        return x + y[:, None]

    line = f.function.__code__.co_firstlineno + 1  # below the decorator
    for _ in range(2):  # a call that is recognized has the same message
        with pytest.raises(ArgumentError) as error:
            f(numbers(3, 5), numbers(3))
        assert "f: 'x' has shape (3, 5), expected (n, 4), which is (3, 4) here" == error.value.message
        assert (__file__, line) == (error.value.loc.file, error.value.loc.line)
        f(numbers(3, 4), numbers(3))


@pytest.mark.parametrize("backend", ["cc", "reference"])
@pytest.mark.parametrize("reduce", [tnp.max, tnp.argmin, tnp.mean, tnp.std])
def test_a_symbolic_size_of_0_leaves_nothing_to_reduce(reduce: Any, backend: str) -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    @tilelang.compute(target="cpu", execution_backend=backend)
    def f(x: T.Tensor((n, m), "float32")) -> Any:
        return reduce(x, axis=1)

    for shape in ((3, 0), (0, 0)):
        with pytest.raises(ProgramValueError) as error:
            f(numbers(*shape))
        name = reduce.__name__
        assert f"tnp.{name}: the axis has no elements, and there is no {name} of nothing" == error.value.message
        assert f.function.__code__.co_firstlineno + 2 == error.value.loc.line
    assert (0,) == f(numbers(0, 5)).shape
    assert_close(f(numbers(3, 5)), getattr(np, reduce.__name__)(numbers(3, 5), axis=1))


def test_calls_with_arrays_in_another_order() -> None:
    @compute
    def f(x: Any, y: Any, z: Any = 1) -> Any:
        return x - y * z

    x, y = numbers(3), numbers(3, seed=1)
    for _ in range(2):
        assert_close(f(y=y, x=x), x - y)
        assert_close(f(x, x, z=3), x - x * 3)
        assert_close(f(x, y, z=3), x - y * 3)
        assert_close(f(z=x, x=y, y=2.0), y - 2 * x)


def test_defaults_that_are_arrays() -> None:
    w = numbers(3, seed=1)

    @compute
    def f(x: Any, w: Any = w) -> Any:
        return x * w

    x = numbers(3)
    for _ in range(2):
        assert_close(f(x), x * w)
        assert_close(f(x, x), x * x)


# -- caching -------------------------------------------------------------------------------------------------
def test_the_function_runs_once_per_shapes_dtypes_and_values() -> None:
    runs = []

    @compute
    def f(x: Any, power: int = 2) -> Any:
        runs.append((x.shape, str(x.dtype), power))
        return x**power

    x = numbers(3)
    for _ in range(3):
        f(x)
        f(np.ones(3, np.float32), power=2)
    assert [((3,), "float32", 2)] == runs
    f(x, 3)
    f(numbers(4))
    f(x.astype(np.float16))
    assert 4 == len(runs)


def test_symbolic_sizes_serve_all_shapes() -> None:
    runs = []
    n = T.dynamic("n")

    @compute
    def f(x: T.Tensor((n, 4), "float32"), y: T.Tensor((n,), "float32")) -> Any:
        runs.append(x.shape[1])
        return tnp.sum(x, 1) + y + tnp.arange(x.shape[0])

    for size in (0, 1, 5):
        x, y = numbers(size, 4), numbers(size)
        assert_close(f(x, y), x.sum(1) + y + np.arange(size))
    assert [4] == runs
    with pytest.raises(ArgumentError, match=r"f: dimension 'n' is 2 in 'x' of shape \(2, 4\), but 3 in 'y' of shape \(3,\)"):
        f(numbers(2, 4), numbers(3))
    with pytest.raises(ArgumentError, match="f: 'x' has dtype float16, expected float32"):
        f(numbers(2, 4, dtype="float16"), numbers(2))


def test_the_graph_needs_no_arrays() -> None:
    n = T.dynamic("n")

    @compute
    def f(x: T.Tensor((n, 4), "float16"), w: Any, scale: float = 2.0) -> Any:
        return x @ w * scale

    graph = f.graph(w=T.Tensor((4, 8), "float16"))
    assert "x: float16[n, 4]" in str(graph)
    assert graph is f.graph(numbers(3, 4, dtype="float16"), numbers(4, 8, dtype="float16"))


def test_threads_share_a_computation() -> None:
    x, found = numbers(2, 3, 5, 8), []
    threads = [threading.Thread(target=lambda: found.append(attention(x, x, x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found[1:]:
        np.testing.assert_array_equal(found[0], each)


# -- nesting -------------------------------------------------------------------------------------------------
def test_a_call_inside_is_part_of_the_computation() -> None:
    @compute
    def f(x: Any) -> Any:
        return attention(x, x, x, causal=True) + 1

    x = numbers(1, 2, 5, 8)
    assert_close(f(x), _attention(x, x, x, True) + 1)
    assert 2 == str(f.graph(x)).count("= sum(d < 8") + str(f.graph(x)).count("= max(")


def test_a_kernel_inside_is_a_call() -> None:
    kernel = scaled_and_shifted(execution_backend="reference")

    @compute
    def f(x: Any) -> Any:
        return kernel(x + 1, 2.0)[0] - 1

    x = numbers(4)
    assert_close(f(x), (x + 1) * 2 - 1)


def test_methods_of_objects_and_structures_of_arguments() -> None:
    @compute
    def f(layer: Any, x: Any) -> Any:
        return tnp.relu(x @ layer["w"] + layer["b"]) * layer.get("scale", 1)

    layer, x = {"w": numbers(4, 3), "b": numbers(3, seed=1), "scale": 2}, numbers(5, 4, seed=2)
    assert_close(f(layer, x), np.maximum(x.astype(np.float64) @ layer["w"] + layer["b"], 0) * 2)


# -- errors --------------------------------------------------------------------------------------------------
@compute
def branches(x: Any) -> Any:
    if x[0] > 1:
        x = x + 1
    return x


def test_a_branch_on_a_value_says_where_and_what_to_write(calling_line: None) -> None:
    with pytest.raises(StagingError) as error:
        branches(numbers(3))
    line = branches.__wrapped__.__code__.co_firstlineno + 2
    assert str(error.value) == (
        "an array is used as a truth value, but its values are known only when the computation runs\n"
        f"   --> {__file__}:{line}:8\n"
        f"{line} |     if x[0] > 1:\n"
        "    |        ^^^^^^^^\n"
        "hint: write tnp.where(condition, x, y) in place of `if`, `x & y` in place of `and`, `x | y` in place of `or`, "
        "and `~x` in place of `not`"
    )


def test_a_wrong_shape_shows_the_line(calling_line: None) -> None:
    with pytest.raises(ValueError) as error:
        attention(numbers(1, 1, 4, 8), numbers(1, 1, 4, 7), numbers(1, 1, 4, 8))
    line = attention.__wrapped__.__code__.co_firstlineno + 2
    assert str(error.value).startswith(
        "tnp.einsum: shapes (1, 1, 4, 8) and (1, 1, 4, 7) do not fit: an axis has the extents 8 and 7 ('d')\n"
        f"  --> {__file__}:{line}:9\n"
        f'{line} |     s = tnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])\n'
        "   |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    )


def test_tracebacks_have_no_frames_of_the_package() -> None:
    def fails(x: Any) -> Any:
        return {}["missing"]

    for function in (branches, compute(fails)):
        try:
            function(numbers(3))
        except Exception as error:
            files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
            assert {__file__} == files


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError) as error:
        branches()
    assert str(error.value) == "branches: missing a required argument: 'x'\nhint: the signature is branches(x: Any) -> Any"


def test_what_is_decorated_is_a_function() -> None:
    with pytest.raises(StagingTypeError) as error:
        tilelang.compute(3)  # type: ignore[call-overload]
    assert str(error.value) == "@tilelang.compute needs a function, got int"


def test_unknown_backends() -> None:
    @tilelang.compute(execution_backend="refrence")
    def f(x: Any) -> Any:
        return x

    with pytest.raises(OptionError, match="Invalid execution backend 'refrence'"):
        f(numbers(3))


def test_unknown_options() -> None:
    with pytest.raises(ArgumentError) as error:
        tilelang.compute(backend="reference")  # type: ignore[call-overload]
    assert "did you mean 'execution_backend'?" in str(error.value)


@pytest.mark.parametrize("shape", [(0, 20), (3, 20)])
def test_programs_of_symbolic_sizes_serve_empty_arrays(shape: tuple[int, int]) -> None:
    n = T.dynamic("n")

    @tilelang.compute(target="cpu")
    def f(x: T.Tensor((n, 20), "float32")) -> Any:
        return tnp.softmax(x, axis=1), tnp.sum(x, axis=0)

    x = numbers(*shape)
    weights, total = f(x)
    assert shape == weights.shape
    np.testing.assert_allclose(total, x.sum(0), rtol=1e-5, atol=1e-6)


def test_a_fault_of_the_package_keeps_its_frames() -> None:
    @compute
    def f(x: Any) -> Any:
        return element(x.node, [])  # not a call that users make: one index is missing

    with pytest.raises(AssertionError) as found:
        f(numbers(3))
    assert "graph.py" == Path(str(found.traceback[-1].path)).name


# -- arrays of other libraries -------------------------------------------------------------------------------
class Lent:
    """An array of a library that lends its memory by DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_arrays_that_are_lent() -> None:
    @compute
    def f(x: Any) -> Any:
        return x * 2 + 1

    x = numbers(3, 5)
    for _ in range(2):  # the second call is recognized
        assert_close(np.asarray(f(Lent(x))), x * 2 + 1)


def test_arrays_of_jax() -> None:
    jax = pytest.importorskip("jax")

    @tilelang.compute(target="cpu")
    def f(x: Any) -> Any:
        return tnp.softmax(x, axis=-1)

    x = jax.numpy.asarray(numbers(4, 8))
    for dtype in ("float32", "bfloat16"):
        given = x.astype(dtype)
        found = f(given)
        assert isinstance(found, jax.Array)
        assert given.dtype == found.dtype
        expected = np.asarray(jax.nn.softmax(given.astype("float32"), axis=-1))
        np.testing.assert_allclose(np.asarray(found.astype("float32")), expected, rtol=1e-2)


def test_arrays_of_gpus_are_known_by_their_interface() -> None:
    """As CuPy's are, without a GPU."""

    class OnGPU:
        shape, dtype = (3, 4), np.dtype(np.float16)
        __cuda_array_interface__: dict[str, Any] = {
            "typestr": "<f2", "shape": (3, 4), "data": (256, False), "version": 3,
        }  # fmt: skip

    @tilelang.compute(target={"kind": "cuda", "arch": "sm_90a"})
    def f(x: Any) -> Any:
        return x + x

    assert "x: float16[3, 4]" in str(f.graph(OnGPU()))
    assert 'x: T.Tensor((3, 4), "float16")' in f.program(OnGPU())


def test_a_lambda_is_a_function() -> None:
    doubled = tilelang.compute(lambda x: 2 * x)
    np.testing.assert_array_equal(doubled(np.ones(3, np.float32)), np.full(3, 2.0, np.float32))
    assert "def computation(" in doubled.program(np.ones(3, np.float32))
