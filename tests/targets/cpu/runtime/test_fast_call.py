import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.codegen.source import Source
from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var, const
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Seq, Store
from tilelang.runtime.arguments import bind
from tilelang.runtime.call_text import MISSED, attempt_of
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.fast_call import call_text, make_fast_call
from tilelang.targets.cpu.runtime.host_compiler import build
from tilelang.targets.cpu.runtime.library import POINTER

M, N = (Var(name, INT32, index=True) for name in ("M", "N"))


def tensor(name: str, *shape: int | Expr, dtype: str = "float32", strides: Any = None) -> TensorParam:
    extents = tuple(e if isinstance(e, Expr) else Const(e, INT32) for e in shape)
    return TensorParam(Buffer(name, extents, as_dtype(dtype), Scope.GLOBAL, strides))


def signature(*params: Param, symbols: tuple[Var, ...] = (), out_idx: Any = None) -> Signature:
    last = [p for p in params if isinstance(p, TensorParam)][-1]
    body = Store(last.buffer, (Const(0, INT32),) * last.buffer.rank, const(0, last.dtype))
    return Signature.of(PrimFunc("kernel", params, Seq((body,)), symbols=symbols), out_idx)


class Recorder:
    """A call with its ways counted; the entry records what it was given."""

    def __init__(self, s: Signature, status: int = 0) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.long: list[tuple[Any, ...]] = []
        self.status = status

        def entry(*values: Any) -> int:
            self.launched.append(values)
            return self.status

        def long_way(args: tuple[Any, ...]) -> Any:
            bound = bind(s, args)
            self.long.append(args)
            entry(*bound.c_arguments())
            return bound.result()

        def failed(status: int) -> None:
            raise RuntimeError(str(status))

        self.call: Callable[..., Any] = make_fast_call(s, entry, long_way, failed)


def test_constant_shapes_go_the_short_way() -> None:
    r = Recorder(signature(tensor("a", 2, 3), tensor("c", 3)))
    a, c = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    assert None is r.call(a, c)
    assert None is attempt_of(r.call)(a, c)
    assert ([(a.ctypes.data, c.ctypes.data)] * 2, []) == (r.launched, r.long)


def test_symbols_and_scalars_follow_the_addresses() -> None:
    s = signature(tensor("a", M, N), ScalarParam(Var("n", INT32)), tensor("c", N, M + 1), symbols=(M, N))
    r = Recorder(s)
    a, c = np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)
    r.call(a, 5, c)
    assert ([(a.ctypes.data, 5, c.ctypes.data, 2, 3)], []) == (r.launched, r.long)


def test_outputs_are_allocated_and_returned() -> None:
    r = Recorder(signature(tensor("a", M), tensor("b", M, dtype="bfloat16"), tensor("c", M * 2), symbols=(M,),
                           out_idx=[-1, 1]))  # fmt: skip
    c, b = r.call(np.zeros(4, np.float32))
    assert ((8,), np.float32, (4,), ml_dtypes.bfloat16) == (c.shape, c.dtype, b.shape, b.dtype)
    assert [] == r.long
    assert (b.ctypes.data, c.ctypes.data) == r.launched[0][1:3]


def test_torch_tensors_go_the_short_way() -> None:
    torch = pytest.importorskip("torch")
    r = Recorder(signature(tensor("a", M, 3), tensor("c", M, 3), symbols=(M,), out_idx=-1))
    result = r.call(torch.zeros(2, 3))
    assert ((2, 3), torch.float32) == (tuple(result.shape), result.dtype)
    assert [] == r.long


@pytest.mark.parametrize("kind", ["read_only", "transposed", "list", "subclass", "equal_dtype", "other_shape", "count"])
def test_everything_unusual_goes_the_long_way(kind: str) -> None:
    r = Recorder(signature(tensor("c", 3, 3)))
    value: Any = np.zeros((3, 3), np.float32)
    args: tuple[Any, ...] = (value,)
    if kind == "read_only":
        value.flags.writeable = False
    elif kind == "transposed":
        args = (np.zeros((3, 6), np.float32)[:, ::2],)
    elif kind == "list":
        args = ([1.0],)
    elif kind == "other_shape":
        args = (np.zeros((3, 2), np.float32),)
    elif kind == "count":
        args = (value, value)
    elif kind == "subclass":
        args = (np.ma.masked_array(value),)
    else:
        args = (np.zeros((3, 3), np.dtype("float32", metadata={"unit": "m"})),)
    if kind in ("subclass", "equal_dtype"):
        r.call(*args)
        assert 1 == len(r.long)
    else:
        with pytest.raises(ArgumentError):
            r.call(*args)
        assert [] == r.launched
    launched = list(r.launched)
    assert MISSED is attempt_of(r.call)(*args)
    assert launched == r.launched


def test_a_tensor_and_an_array_go_the_long_way_together() -> None:
    torch = pytest.importorskip("torch")
    r = Recorder(signature(tensor("a", 3), tensor("c", 3)))
    r.call(torch.zeros(3), np.zeros(3, np.float32))
    assert 1 == len(r.long)


def test_a_failure_of_the_kernel_is_reported() -> None:
    with pytest.raises(RuntimeError, match="3"):
        Recorder(signature(tensor("c", 3)), status=3).call(np.zeros(3, np.float32))


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_strided_parameters_go_the_short_way(framework: str) -> None:
    s = signature(tensor("a", M, 3, strides=(N, Const(1, INT32))), tensor("c", 2), symbols=(M, N))
    base: Any = np.zeros((4, 7), np.float32)
    c: Any = np.zeros(2, np.float32)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        base, c = torch.zeros(4, 7), torch.zeros(2)
    r = Recorder(s)
    r.call(base[:, 1:4], c)
    assert [] == r.long
    assert tuple(bind(s, (base[:, 1:4], c)).c_arguments()) == r.launched[0]
    with pytest.raises(ArgumentError, match=r"has strides \(7, 2\), expected \(N, 1\)"):
        r.call(base[:, 1:7:2], c)


@pytest.mark.parametrize("stride", [N, Const(1, INT32)])
def test_strides_within_an_element_go_the_long_way(stride: Expr) -> None:
    symbols = (N,) if stride is N else ()
    r = Recorder(signature(tensor("a", 3, strides=(stride,)), tensor("c", 2), symbols=symbols))
    odd = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (3,), (6,))
    with pytest.raises(ArgumentError):
        r.call(odd, np.zeros(2, np.float32))


def test_vector_parameters_have_no_short_way() -> None:
    assert "" == call_text(signature(tensor("c", 3, dtype="float32x2")))


def test_outputs_without_a_tensor_to_go_by_are_left_to_the_long_way() -> None:
    assert "" == call_text(signature(ScalarParam(N), tensor("C", 4), out_idx=-1))


def test_an_extent_that_may_be_negative_is_left_to_the_long_way() -> None:
    assert "" == call_text(signature(tensor("a", M), tensor("c", M - 3), symbols=(M,), out_idx=-1))


_EXTENTS = st.sampled_from([Const(2, INT32), Const(3, INT32), M, N])


@given(st.lists(st.lists(_EXTENTS, max_size=3), min_size=1, max_size=3), st.data())
def test_both_ways_launch_the_same(shapes: list[list[Expr]], data: Any) -> None:
    symbols = tuple(s for s in (M, N) if any(e is s for shape in shapes for e in shape))
    s = signature(*(tensor(f"p{i}", *shape) for i, shape in enumerate(shapes)), symbols=symbols)
    sizes = {M: data.draw(st.integers(0, 3)), N: data.draw(st.integers(0, 3))}
    arrays = []
    for shape in shapes:
        extents = [sizes[e] if isinstance(e, Var) else int(e.value) for e in shape if isinstance(e, Var | Const)]
        if data.draw(st.integers(0, 9)) == 0:
            extents = [*extents, 1]
        elif extents and data.draw(st.integers(0, 9)) == 0:
            extents[0] += 1
        arrays.append(np.zeros(extents, np.float32))
    r = Recorder(s)
    try:
        expected = tuple(bind(s, arrays).c_arguments())
    except ArgumentError as error:
        with pytest.raises(ArgumentError) as caught:
            r.call(*arrays)
        assert str(error) == str(caught.value)
        return
    r.call(*arrays)
    assert [expected] == r.launched
    assert [] == r.long


def _microseconds(call: Callable[..., Any], args: tuple[Any, ...]) -> float:
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter_ns()
        for _ in range(500):
            call(*args)
        best = min(best, time.perf_counter_ns() - start)
    return best / 500 / 1000


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize(("framework", "limit"), [("numpy", 5), ("torch", 6)])
def test_a_call_with_three_arrays_is_fast(framework: str, limit: float) -> None:
    if framework == "torch":
        torch = pytest.importorskip("torch")
        args = tuple(torch.zeros(64, 64) for _ in range(3))
    else:
        args = tuple(np.zeros((64, 64), np.float32) for _ in range(3))
    text = '#include <cstdint>\nextern "C" int32_t f(const float*, const float*, float*) { return 0; }'
    entry = build(Source("cpp", text, "f")).typed([POINTER] * 3)
    s = signature(*(tensor(name, 64, 64) for name in "abc"))
    assert _microseconds(make_fast_call(s, entry, print, print), args) < limit


def test_torch_is_not_imported_by_a_call() -> None:
    program = "import sys\nimport tilelang.targets.cpu.runtime.fast_call\nassert 'torch' not in sys.modules"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
