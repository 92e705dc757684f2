from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Var
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Store
from tilelang.profile.compare import as_float64
from tilelang.profile.inputs import TensorSupplyType
from tilelang.profile.profiler import Profiler
from tilelang.runtime.arrays import borrow
from tilelang.runtime.parameters import Signature

N = Var("N", INT32, index=True)


def profiler(func: Callable[..., Any], out_idx: Any = None, extent: Any = Const(8, INT32)) -> Profiler:
    params = tuple(TensorParam(Buffer(n, (extent,), as_dtype("float32"), Scope.GLOBAL)) for n in ("A", "C"))
    body = Store(params[1].buffer, (Const(0, INT32),), Const(0.0, FLOAT32))
    symbols = (N,) if extent is N else ()
    return Profiler(func, Signature.of(PrimFunc("k", params, body, symbols=symbols), out_idx), TensorSupplyType.Integer)


def write(a: Any, c: Any) -> None:
    view = borrow(c)
    assert view is not None
    view.as_numpy()[...] = as_float64(a) + 1


def test_returned_results_are_compared() -> None:
    profiler(lambda a: a + 1, -1).assert_allclose(lambda a: a + 1, rtol=0, atol=0)
    with pytest.raises(AssertionError, match=r"^result 0: 8 of 8 elements differ"):
        profiler(lambda a: a + 1, -1).assert_allclose(lambda a: a + 2, rtol=0, atol=0)


def test_only_returned_results_are_compared() -> None:
    profiler(write).assert_allclose(write)
    profiler(write).assert_allclose(lambda a, c: None)  # what is written in place is not looked at
    with pytest.raises(AssertionError, match="^the kernel returns 0 results, the reference 1$"):
        profiler(write).assert_allclose(lambda a, c: a)


def test_results_may_come_in_any_form() -> None:
    kernel = profiler(lambda a: [a, a + 1], -1)
    for reference in (lambda a: (a, a + 1), lambda a: [a, a + 1], lambda a: (None, a + 1)):
        kernel.assert_allclose(reference)
    with pytest.raises(AssertionError, match="^result 1: "):
        kernel.assert_allclose(lambda a: (None, a))
    with pytest.raises(AssertionError, match="the kernel returns 1 result, the reference 2"):
        profiler(lambda a: a, -1).assert_allclose(lambda a: (a, a))


def test_a_share_of_the_elements_may_differ() -> None:
    def reference(a: Any) -> Any:
        expected = a + 0
        expected[0] += 1
        return expected

    profiler(lambda a: a, -1).assert_allclose(reference, max_mismatched_ratio=1 / 8)
    with pytest.raises(AssertionError, match="1 of 8 elements differ"):
        profiler(lambda a: a, -1).assert_allclose(reference, max_mismatched_ratio=0.1)


def test_inputs_may_be_given() -> None:
    seen: list[Any] = []
    given = [np.zeros(8, np.float32)]
    both = (lambda a: seen.append(a) or a,) * 2  # type: ignore[func-returns-value]
    profiler(both[0], -1).assert_allclose(both[1], input_tensors=given)
    assert [True, True] == [one is given[0] for one in seen]  # the kernel and the reference get the same


def test_a_user_defined_check() -> None:
    seen: list[Any] = []
    profiler(lambda a: a + 1, -1).manual_assert_close(lambda a: a, manual_check_prog=lambda x, y: seen.append((x, y)))
    (((actual,), (expected,)),) = seen
    assert (as_float64(actual) - as_float64(expected) == 1).all()
    with pytest.raises(AssertionError, match="the kernel returns 1 result, the reference 0"):
        profiler(lambda a: a, -1).manual_assert_close(lambda a: None)


def test_repeated_calls_must_agree() -> None:
    profiler(lambda a: a, -1).assert_consistent(3)
    counter = iter(range(100))
    with pytest.raises(AssertionError, match="later"):
        profiler(lambda a: a + next(counter), -1).assert_consistent(3)


def test_one_call_can_be_run_and_timed() -> None:
    p = profiler(lambda a: a + 1, -1)
    assert (8,) == tuple(p.run_once().shape)
    assert 0 < p.do_bench(warmup=1, rep=1)  # type: ignore[operator]
    assert 0 < p.do_bench(func=lambda a: a, n_warmup=1, n_repeat=2)  # type: ignore[operator]
    assert 3 == p(2)


def test_symbolic_dimensions_take_values_by_name() -> None:
    assert (5,) == tuple(profiler(lambda a: a, -1, N).make_inputs(N=5)[0].shape)
    profiler(lambda a: a, -1, N).do_bench(warmup=1, rep=1, dynamic_symbolic_constraints={"N": 4})
    with pytest.raises(ValueError, match="symbolic dimension 'N', which has no value"):
        profiler(lambda a: a, -1, N).do_bench(dynamic_symbolic_constraints={"M": 4})


def test_parameters_and_kernel_are_attributes() -> None:
    p = profiler(write, extent=N)
    assert [("A", "float32", N), ("C", "float32", N)] == [(q.name, q.dtype, q.shape[0]) for q in p.params]
    assert write is p.func
