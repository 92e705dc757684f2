from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var, const
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.stmt import Seq, Store
from tilelang.runtime import arguments
from tilelang.runtime.arguments import bind
from tilelang.runtime.arrays import ArrayView, borrow
from tilelang.runtime.packed import allocate_packed, logical, packed_storage, repack, unpack
from tilelang.runtime.parameters import Signature

FP4 = as_dtype("float4_e2m1fn")
M, N, S = (Var(name, INT32, index=True) for name in "MNS")


def signature(dtype: str, *, strides: Any = None, out_idx: Any = None, shape: Any = (M, N)) -> Signature:
    extents = tuple(e if isinstance(e, Expr) else Const(e, INT32) for e in shape)
    a = TensorParam(Buffer("a", extents, as_dtype(dtype), Scope.GLOBAL, strides))
    c = TensorParam(Buffer("c", extents, as_dtype(dtype), Scope.GLOBAL))
    store = Store(c.buffer, (Const(0, INT32),) * len(extents), const(0, c.dtype))
    symbols = (*(e for e in extents if isinstance(e, Var)), *((S,) if strides else ()))
    return Signature.of(PrimFunc("kernel", (a, c), Seq((store,)), symbols=symbols), out_idx)


def view_of(array: Any) -> ArrayView:
    view = borrow(array)
    assert view is not None
    return view


@given(st.sampled_from(["float4_e2m1fn", "int4", "uint4"]), st.integers(0, 3), st.integers(0, 4), st.booleans())
def test_elements_are_unpacked_and_packed_again(name: str, rows: int, columns: int, strided: bool) -> None:
    dtype = as_dtype(name)
    packed = np.random.default_rng(1).integers(0, 256, (rows, 6), dtype=np.uint8)
    packed = packed[::2, :columns] if strided else np.ascontiguousarray(packed[:, :columns])
    before = packed.copy()
    made = unpack(dtype, view_of(packed))
    assert made is not None
    expected = np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), 2 * columns)
    assert np.array_equal(expected.view(dtype.numpy), made.elements.as_numpy())
    if strided and len(packed) > 1 and columns > 1:
        assert (24, 1) == made.elements.strides
    packed[...] = 0
    repack(made)
    assert np.array_equal(before, packed)


def test_which_arrays_hold_several_elements_in_a_byte() -> None:
    for storage, dtype, expected in (
        ("uint8", "int4", True), ("int8", "float4_e2m1fn", True), ("uint8", "uint8", False), ("int16", "int4", False),
    ):  # fmt: skip
        assert expected is packed_storage(as_dtype(dtype), view_of(np.zeros((2, 2), storage)))
    assert not packed_storage(FP4, view_of(np.zeros((2, 2), ml_dtypes.float4_e2m1fn)))
    seen = logical(FP4, view_of(np.zeros((4, 8), np.uint8)))
    assert (FP4, (4, 16), (16, 1)) == (seen.dtype, seen.shape, seen.strides)


def test_dims_and_strides_are_those_of_the_elements() -> None:
    whole = np.zeros((4, 16), np.uint8)
    bound = bind(signature("float4_e2m1fn", strides=(S, Const(1, INT32))), (whole[:, :8], np.zeros((4, 8), np.int8)))
    assert [4, 16, 32] == bound.symbols
    with pytest.raises(RuntimeError, match=r"'c' of shape \(4, 14\)"):
        bind(signature("float4_e2m1fn"), (np.zeros((4, 8), np.uint8), np.zeros((4, 7), np.uint8)))
    with pytest.raises(RuntimeError, match="'a' has dtype int16, expected int4"):
        bind(signature("int4"), (np.zeros((4, 8), np.int16),) * 2)
    with pytest.raises(RuntimeError, match="cannot be taken apart"):
        bind(signature("int4", strides=(Const(2, INT32), S)), (np.zeros((8, 4), np.uint8).T, np.zeros((4, 8), np.uint8)))


def test_only_written_arrays_are_packed_again() -> None:
    a, c = np.full((2, 2), 0x21, np.uint8), np.zeros((2, 2), np.uint8)
    bound = bind(signature("uint4"), (a, c))
    for value in bound.values:
        assert isinstance(value, ArrayView)
        value.as_numpy()[...] = 7
    bound.result()
    assert [0x21] * 4 == a.ravel().tolist()
    assert [0x77] * 4 == c.ravel().tolist()


def test_outputs_are_packed_as_the_inputs_are() -> None:
    s = signature("int4", out_idx=-1, shape=(M, 6))
    packed = bind(s, (np.zeros((2, 3), np.uint8),)).result()
    assert ((2, 3), np.int8) == (packed.shape, packed.dtype)
    plain = bind(s, (np.zeros((2, 6), ml_dtypes.int4),)).result()
    assert ((2, 6), ml_dtypes.int4) == (plain.shape, plain.dtype)
    with pytest.raises(RuntimeError, match=r"output 'c' of shape \(2, 3\) cannot be allocated"):
        odd = TensorParam(Buffer("c", (M, Const(3, INT32)), as_dtype("int4"), Scope.GLOBAL))
        func = PrimFunc("kernel", (s.params[0], odd), Seq(()), symbols=(M,))
        bind(Signature.of(func, -1), (np.zeros((2, 3), np.uint8),))


def test_torch_has_a_dtype_for_pairs() -> None:
    torch = pytest.importorskip("torch")
    pairs = getattr(torch, "float4_e2m1fn_x2", None)
    if pairs is None:
        pytest.skip("this torch has no such dtype")
    given = torch.full((2, 4), 0x53, dtype=torch.uint8).view(pairs)
    bound = bind(signature("float4_e2m1fn", out_idx=-1), (given,))
    assert [2, 8] == bound.symbols
    a, c = bound.values
    assert isinstance(a, ArrayView)
    assert isinstance(c, ArrayView)
    c.as_numpy()[...] = a.as_numpy()
    result = bound.result()
    assert (pairs, (2, 4)) == (result.dtype, tuple(result.shape))
    assert [0x53] * 8 == result.view(torch.uint8).flatten().tolist()
    assert torch.int8 == allocate_packed(given, (2, 4), as_dtype("int4"), None).dtype


def test_outputs_on_a_device_are_packed_where_no_argument_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(arguments, "allocate_packed", lambda *how: made.append(how) or "bytes")
    binding = arguments._Binding(signature("int4", out_idx=-1), (), None)
    binding.env = {M: 2, N: 4}
    assert "bytes" == binding._allocate(1, arguments.Bound([], device=3))
    ((like, shape, dtype, device),) = made
    assert (None, "int4", 3) == (like, str(dtype), device)
    assert all(isinstance(extent, int) for extent in shape)
