"""Calls of kernels in host memory by the fast path: checked in Python, and in machine code."""

import ctypes
import struct
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import scalar, signature, tensor
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.func import ScalarParam
from tilelang.runtime import fast_path
from tilelang.runtime.argument_specs import Kind
from tilelang.runtime.argument_table import ArgumentTable, Match
from tilelang.runtime.arguments import Bound, bind
from tilelang.runtime.arrays import Allocation, borrow, host_allocation
from tilelang.runtime.checker import Checker
from tilelang.runtime.fast_path import MISSED, FastPath
from tilelang.runtime.native_call import NativePlan
from tilelang.runtime.parameters import Signature
from tilelang.targets.cpu.runtime.checker_builder import build

M, N = (Var(name, INT32, index=True) for name in "MN")
CHECKER = build()
WAYS = ["python", pytest.param("native", marks=pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler"))]


class Ready:
    """A builder that has a checker, or will get one."""

    def __init__(self, checker: Checker | None) -> None:
        self.checker, self.started, self.waiting = checker, 0, []

    def get(self) -> Checker | None:
        return self.checker

    def start(self) -> None:
        self.started += 1

    def when_ready(self, action: Callable[[], None]) -> None:
        self.waiting.append(action)


class Recorder:
    """A kernel whose calls are remembered, with the values that it was started with."""

    def __init__(self, s: Signature, way: str = "python", status: int = 0) -> None:
        self.signature, self.status = s, status
        self.launched: list[tuple[Any, ...]] = []
        self.long: list[tuple[Any, ...]] = []
        letters = {Kind.FLOAT: "d", Kind.UNSIGNED: "Q", Kind.POINTER: "Q", Kind.TENSOR: "Q"}
        self.layout = "<" + "".join(letters.get(spec.kind, "q") for spec in s.specs) + "q" * len(s.symbols)
        self.started = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3)(self._start)
        self.builder = Ready(CHECKER if way == "native" else None)
        self.table = ArgumentTable(s)
        self.fast = FastPath(self.table, self.slow_path, self.builder, self._use)
        self.call: Callable[..., Any] = lambda *args: self.slow_path(args)
        self.attempt: Callable[..., Any] | None = None

    def _use(self, call: Any, attempt: Any) -> None:
        self.call, self.attempt = call, attempt

    def _start(self, state: Any, values: int, stream: Any) -> int:
        self.launched.append(struct.unpack(self.layout, ctypes.string_at(values, struct.calcsize(self.layout))))
        return self.status

    def slow_path(self, args: tuple[Any, ...]) -> Any:
        bound = bind(self.signature, args)
        self.long.append(args)
        self.launched.append(tuple(bound.c_arguments()))
        self.add_plan(bound)
        return bound.result()

    def add_plan(self, bound: Bound) -> None:
        made = tuple(
            host_allocation(bound.like, bound.values[i].shape, self.signature.params[i].dtype)  # type: ignore[union-attr]
            for i in (() if bound.outputs_given else self.signature.outputs)
        )
        self.fast.add_plan(bound, Plan(self, tuple(bound.symbols), made))

    def know(self, *args: Any) -> None:
        """Lets calls like this one be known, and forgets that it happened."""
        self.slow_path(args)
        self.long.clear()
        self.launched.clear()


class Plan:
    def __init__(self, recorder: Recorder, symbols: tuple[int, ...], outputs: tuple[Allocation, ...]) -> None:
        self.recorder, self.symbols, self.outputs = recorder, symbols, outputs

    def start(self, match: Match) -> Any:
        made = [output.make() for output in self.outputs]
        for index, array in zip(self.recorder.signature.outputs, made, strict=False):
            match.values[index] = borrow(array).pointer  # type: ignore[union-attr]
        self.recorder.launched.append((*match.values, *self.symbols))
        if self.recorder.status:
            self.failed(self.recorder.status)
        return made or None

    def native(self, checker: Checker) -> NativePlan:
        address = ctypes.cast(self.recorder.started, ctypes.c_void_p).value or 0
        return NativePlan(address, 0, self.failed, self.symbols, self.outputs)

    def failed(self, answer: int) -> None:
        raise RuntimeError(f"the kernel answers {answer}")


def address(array: Any) -> int:
    return borrow(array).pointer  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
def test_repeated_calls_take_the_fast_path(way: str) -> None:
    r = Recorder(signature(tensor("a", 2, 3), tensor("c", 3)), way)
    assert r.attempt is None
    r.know(np.zeros((2, 3), np.float32), np.zeros(3, np.float32))
    a, c = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)
    assert r.call(a, c) is None
    assert r.attempt is not None
    assert r.attempt(a, c) is None
    assert ([(address(a), address(c))] * 2, []) == (r.launched, r.long)


@pytest.mark.parametrize("way", WAYS)
def test_calls_that_pass_the_outputs_take_it_too(way: str) -> None:
    r = Recorder(signature(tensor("a", M), tensor("b", M), tensor("c", M, 2), out_idx=[1, 2], symbols=(M,)), way)
    a, b, c = np.zeros(3, np.float32), np.zeros(3, np.float32), np.zeros((3, 2), np.float32)
    r.know(a, b, c)
    assert r.attempt is not None
    results = [r.call(a, b, c), r.attempt(a, b, c)]
    assert all(result[0] is b and result[1] is c for result in results)
    assert ([(address(a), address(b), address(c), 3)] * 2, []) == (r.launched, r.long)
    assert r.attempt(a) is MISSED
    r.know(a)
    made = r.call(a)
    assert [(3,), (3, 2)] == [each.shape for each in made]
    assert r.call(a, b, c)[0] is b
    assert ([], 2) == (r.long, len(r.launched))
    with pytest.raises(ArgumentError):
        r.call(a, b, np.zeros((3, 3), np.float32))


@pytest.mark.parametrize("way", WAYS)
def test_symbols_and_scalars_follow_the_addresses(way: str) -> None:
    s = signature(tensor("a", M, N), scalar("n"), tensor("c", N, M + 1), symbols=(M, N))
    r = Recorder(s, way)
    a, c = np.zeros((2, 3), np.float32), np.zeros((3, 3), np.float32)
    r.know(a, 4, c)
    r.call(a, 5, c)
    assert ([(address(a), 5, address(c), 2, 3)], []) == (r.launched, r.long)
    with pytest.raises(ArgumentError):
        r.call(a, 5, np.zeros((3, 4), np.float32))
    r.call(np.zeros((2, 4), np.float32), 5, np.zeros((4, 3), np.float32))
    assert ((2, 4), 1) == (r.launched[-1][-2:], len(r.long))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_outputs_are_allocated_and_returned(way: str, framework: str) -> None:
    s = signature(
        tensor("a", M), tensor("b", M, dtype="bfloat16"), tensor("c", M * 2), symbols=(M,), out_idx=[-1, 1]
    )  # fmt: skip
    r = Recorder(s, way)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        a, types = torch.zeros(4), (torch.float32, torch.bfloat16)
    else:
        a, types = np.zeros(4, np.float32), (np.float32, ml_dtypes.bfloat16)
    r.know(a)
    c, b = r.call(a)
    assert ((8,), (4,), *types) == (tuple(c.shape), tuple(b.shape), c.dtype, b.dtype)
    assert ([(address(a), address(b), address(c), 4)], []) == (r.launched, r.long)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["read_only", "transposed", "list", "other_shape", "count", "subclass", "equal_dtype"])
def test_everything_unusual_takes_the_slow_path(way: str, kind: str) -> None:
    r = Recorder(signature(tensor("c", 3, 3)), way)
    value: Any = np.zeros((3, 3), np.float32)
    r.know(value)
    args: tuple[Any, ...] = {
        "transposed": (np.zeros((3, 6), np.float32)[:, ::2],), "list": ([1.0],),
        "other_shape": (np.zeros((3, 2), np.float32),), "count": (value, value), "subclass": (np.ma.masked_array(value),),
        "equal_dtype": (np.zeros((3, 3), np.dtype("float32", metadata={"unit": "m"})),), "read_only": (value,),
    }[kind]  # fmt: skip
    value.flags.writeable = kind != "read_only"
    assert r.attempt is not None
    assert MISSED is r.attempt(*args)
    assert ([], []) == (r.launched, r.long)
    if kind in ("subclass", "equal_dtype"):
        r.call(*args)
        assert 1 == len(r.long)
    else:
        with pytest.raises(ArgumentError):
            r.call(*args)
        assert [] == r.launched


@pytest.mark.parametrize("way", WAYS)
def test_each_framework_has_its_own_key(way: str) -> None:
    torch = pytest.importorskip("torch")
    r = Recorder(signature(tensor("a", 3), tensor("c", 3)), way)
    mixed = (torch.zeros(3), np.zeros(3, np.float32))
    for _ in range(2):
        r.call(*mixed)
    assert 2 == len(r.long)
    for _ in range(2):
        r.call(torch.zeros(3), torch.nn.Parameter(torch.zeros(3)))
        r.call(np.zeros(3, np.float32), np.zeros(3, np.float32))
    assert (6, 4) == (len(r.launched), len(r.long))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", ["half", "meta", "sparse", "negated", "strided"])
def test_unusual_tensors_take_the_slow_path(way: str, make: str) -> None:
    torch = pytest.importorskip("torch")
    r = Recorder(signature(tensor("c", M), symbols=(M,)), way)
    r.know(torch.zeros(1))
    value = {
        "half": lambda: torch.zeros(1, dtype=torch.half), "meta": lambda: torch.zeros(1, device="meta"),
        "sparse": lambda: torch.zeros(1).to_sparse(), "strided": lambda: torch.zeros(4)[::2],
        "negated": lambda: torch.zeros(1, dtype=torch.complex64).conj().imag,
    }[make]()  # fmt: skip
    assert r.attempt is not None
    assert MISSED is r.attempt(value)
    assert [] == r.launched


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_of_the_kernel_is_reported(way: str) -> None:
    r = Recorder(signature(tensor("c", 3)), way, status=3)
    r.know(np.zeros(3, np.float32))
    with pytest.raises(RuntimeError, match="the kernel answers 3"):
        r.call(np.zeros(3, np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_strides_of_strided_parameters_are_in_the_key(way: str, framework: str) -> None:
    s = signature(tensor("a", M, 3, strides=(N, Const(1, INT32))), tensor("c", 2), symbols=(M, N))
    base: Any = np.zeros((4, 7), np.float32)
    c: Any = np.zeros(2, np.float32)
    if framework == "torch":
        torch = pytest.importorskip("torch")
        base, c = torch.zeros(4, 7), torch.zeros(2)
    r = Recorder(s, way)
    r.know(base[:, :3], c)
    r.call(base[:, 1:4], c)
    assert ([(address(base[:, 1:4]), address(c), 4, 7)], []) == (r.launched, r.long)
    with pytest.raises(ArgumentError):
        r.call(base[:, :6:2], c)


@pytest.mark.parametrize("way", WAYS)
def test_strides_that_end_in_an_element_take_the_slow_path(way: str) -> None:
    r = Recorder(signature(tensor("a", 3, strides=(N,)), tensor("c", 2), symbols=(N,)), way)
    r.know(np.zeros(6, np.float32)[::2], np.zeros(2, np.float32))
    odd = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (3,), (6,))
    assert r.attempt is not None
    assert MISSED is r.attempt(odd, np.zeros(2, np.float32))


SCALARS = [
    ("int8", (-128, 127), (-129, 128, True, 1.0, "1", np.int8(3))),
    ("uint32", (0, 2**32 - 1), (-1, 2**32)),
    ("uint64", (0, 2**64 - 1), (-1, 2**64)),
    ("bool", (True, False), (1, 0.0, None)),
    ("float32", (1.5, 1e300, float("inf")), (True, "1", 10**400)),
    ("float16", (1.5, -0.0), (None,)),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("dtype", "good", "bad"), SCALARS)
def test_valid_scalars_take_the_fast_path(way: str, dtype: str, good: tuple, bad: tuple) -> None:
    r = Recorder(signature(tensor("c", 3), scalar("x", dtype)), way)
    c = np.zeros(3, np.float32)
    r.know(c, good[0])
    assert r.attempt is not None
    for value in good:
        assert r.attempt(c, value) is None
        assert value == r.launched[-1][1]
    for value in bad:
        assert MISSED is r.attempt(c, value)


@pytest.mark.parametrize("way", WAYS)
def test_scalars_that_determine_sizes_are_in_the_key(way: str) -> None:
    s = signature(tensor("c", N * 2), ScalarParam(N), scalar("x", "float32"))
    r = Recorder(s, way)
    r.know(np.zeros(8, np.float32), 4, 1.0)
    r.call(np.zeros(8, np.float32), 4, 2.0)
    assert [] == r.long
    with pytest.raises(ArgumentError):
        r.call(np.zeros(8, np.float32), 5, 2.0)


@pytest.mark.parametrize("way", WAYS)
def test_pointers_are_addresses(way: str) -> None:
    pointer = ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True)
    r = Recorder(signature(tensor("c", 3), pointer), way)
    c = np.zeros(3, np.float32)
    r.know(c, 4096)
    assert r.attempt is not None
    assert r.attempt(c, 4097) is None
    assert 4097 == r.launched[-1][1]
    for value in (0, -16, 1.0, None, np.zeros(())):
        assert MISSED is r.attempt(c, value)


def test_packed_elements_and_vectors_have_no_fast_path() -> None:
    for dtype, array in (("float32x2", np.zeros((3, 2), np.float32)), ("int4", np.zeros(3, ml_dtypes.int4))):
        r = Recorder(signature(tensor("c", 3, dtype=dtype)))
        r.call(array)
        assert r.attempt is None


def test_outputs_without_a_tensor_to_go_by_have_no_fast_path() -> None:
    r = Recorder(signature(ScalarParam(N), tensor("C", 4), out_idx=-1))
    r.call(3)
    assert r.attempt is None


def test_arrays_of_other_frameworks_have_no_fast_path() -> None:
    class Array:
        def __init__(self) -> None:
            self.array = np.zeros(3, np.float32)
            self.__array_interface__ = self.array.__array_interface__

    r = Recorder(signature(tensor("a", 3), tensor("c", 3)))
    r.call(Array(), np.zeros(3, np.float32))
    assert r.attempt is None


_EXTENTS = st.sampled_from([Const(2, INT32), Const(3, INT32), M, N, M * 2])


@pytest.mark.parametrize("way", WAYS)
@given(st.lists(st.lists(_EXTENTS, max_size=3), min_size=1, max_size=3), st.data())
def test_both_paths_launch_the_same(way: str, shapes: list[list[Expr]], data: Any) -> None:
    shapes = [[M], [N], *shapes]
    s = signature(*(tensor(f"p{i}", *shape) for i, shape in enumerate(shapes)), symbols=(M, N))
    r = Recorder(s, way)

    def draw() -> list[np.ndarray]:
        sizes = {id(M): data.draw(st.integers(0, 2)), id(N): data.draw(st.integers(0, 2))}
        arrays = []
        for shape in shapes:
            extents = [
                int(e.value) if isinstance(e, Const) else sizes[id(e)] if isinstance(e, Var) else sizes[id(M)] * 2
                for e in shape
            ]
            if extents and data.draw(st.integers(0, 9)) == 0:
                extents[0] += 1
            arrays.append(np.zeros(extents, np.float32))
        return arrays

    for _ in range(4):
        arrays = draw()
        try:
            expected = tuple(bind(s, arrays).c_arguments())
        except ArgumentError as error:
            with pytest.raises(ArgumentError) as caught:
                r.call(*arrays)
            assert str(error) == str(caught.value)
            continue
        for _ in range(2):
            r.call(*arrays)
            assert expected == r.launched[-1]


# -- machine code --------------------------------------------------------------------------------------------
def test_machine_code_is_built_for_repeated_calls() -> None:
    r = Recorder(signature(tensor("c", 3)))
    c = np.zeros(3, np.float32)
    for _ in range(fast_path._CALLS_BEFORE_BUILDING):
        r.call(c)
        assert 0 == r.builder.started
    for _ in range(3):
        r.call(c)
    assert (1, 1) == (r.builder.started, len(r.builder.waiting))
    assert 1 == len(r.long)


@pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler")
def test_plans_are_added_again_once_there_is_machine_code() -> None:
    r = Recorder(signature(tensor("c", 3)))
    c = np.zeros(3, np.float32)
    for _ in range(2 + fast_path._CALLS_BEFORE_BUILDING):
        r.call(c)
    r.builder.checker = CHECKER
    (ready,) = r.builder.waiting
    ready()
    assert r.attempt is None
    for _ in range(3):
        r.call(c)
    assert 2 == len(r.long)
    assert "builtin_function_or_method" == type(r.call).__name__


@pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler")
def test_sizes_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.runtime.native_call._MANY_PLANS", 4)
    r = Recorder(signature(tensor("c", M), symbols=(M,)), "native")
    for size in range(6):
        for _ in range(2):
            r.call(np.zeros(size, np.float32))
    assert 6 == len(r.long)


@pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler")
def test_plans_without_native_form_are_checked_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilelang.runtime.native_call._MAX_KEY", 0)
    r = Recorder(signature(tensor("c", 3)), "native")
    for _ in range(3):
        r.call(np.zeros(3, np.float32))
    assert (1, 3) == (len(r.long), len(r.launched))


@pytest.mark.skipif(CHECKER is None, reason="needs a C++ compiler")
def test_without_an_exchange_table_torch_tensors_are_checked_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("tilelang.runtime.native_call.dlpack_exchange", lambda kind: None)
    r = Recorder(signature(tensor("c", 3)), "native")
    for _ in range(3):
        r.call(np.zeros(3, np.float32))
        r.call(torch.zeros(3))
    assert (2, 6) == (len(r.long), len(r.launched))


@pytest.mark.parametrize("way", WAYS)
def test_arguments_are_released_after_the_call(way: str) -> None:
    r = Recorder(signature(tensor("c", 3)), way)
    r.know(np.zeros(3, np.float32))
    c = np.zeros(3, np.float32)
    gone = weakref.ref(c)
    for _ in range(3):
        r.call(c)
    del c
    assert gone() is None
