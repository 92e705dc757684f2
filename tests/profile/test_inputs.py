import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tilelang.dtypes import INT32, SCALARS, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.profile.inputs import TensorSupplyType, supply
from tilelang.runtime.arrays import borrow

N = Var("N", INT32, index=True)


def tensor(*shape: int | Expr, dtype: str = "float32") -> TensorParam:
    extents = tuple(e if isinstance(e, Expr) else Const(e, INT32) for e in shape)
    return TensorParam(Buffer("A", extents, as_dtype(dtype), Scope.GLOBAL))


def values(param: TensorParam, kind: TensorSupplyType) -> np.ndarray:
    view = borrow(supply(param, kind))
    assert view is not None
    return view.as_numpy()


@pytest.mark.parametrize("dtype", list(SCALARS))
@pytest.mark.parametrize("kind", list(TensorSupplyType))
def test_every_dtype_is_supplied_in_every_kind(dtype: str, kind: TensorSupplyType) -> None:
    made = values(tensor(3, 4, dtype=dtype), kind)
    assert ((3, 4), as_dtype(dtype).numpy) == (made.shape, made.dtype)


def test_the_kinds_are_what_they_say() -> None:
    param = tensor(1000)
    assert (values(param, TensorSupplyType.Zero) == 0).all()
    assert (values(param, TensorSupplyType.One) == 1).all()
    assert set(values(param, TensorSupplyType.Integer)) == {-2, -1, 0, 1, 2}
    assert abs(values(param, TensorSupplyType.Uniform)).max() <= 1
    assert 0.8 < values(param, TensorSupplyType.Normal).std() < 1.2
    assert set(values(tensor(1000, dtype="uint8"), TensorSupplyType.Auto)) == {0, 1, 2, 3}


def test_the_seed_of_numpy_decides_the_values() -> None:
    np.random.seed(3)
    first = values(tensor(10), TensorSupplyType.Auto)
    np.random.seed(3)
    assert np.array_equal(first, values(tensor(10), TensorSupplyType.Auto))


def test_symbolic_dimensions_need_a_value() -> None:
    assert (8, 2) == tuple(supply(tensor(N * 2, 2), sizes={"N": 4}).shape)
    with pytest.raises(ArgumentError) as caught:
        supply(tensor(N))
    assert (
        "profiler: 'A' has the symbolic dimension 'N', which has no value\nhint: pass input_tensors=[...]"
    ) == str(caught.value)


def test_scalars_are_one() -> None:
    assert 1 == supply(ScalarParam(N))
    assert isinstance(supply(ScalarParam(Var("x", as_dtype("float16")))), float)


def test_inputs_for_a_gpu_need_a_framework_that_has_arrays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    param = TensorParam(Buffer("A", (Const(3, INT32),), as_dtype("float32"), Scope.GLOBAL))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ArgumentError) as caught:
        supply(param, device="cuda")
    assert (
        "profiler: 'A' of dtype float32 must be on a GPU, where neither torch nor CuPy can put it\n"
        "hint: pip install torch, or pass input_tensors=[...]"
    ) == str(caught.value)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=lambda array: ("on the GPU", array.dtype)))
    assert ("on the GPU", np.float32) == supply(param, device="cuda")


def test_a_framework_that_nobody_has_imported_is_imported_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    param = TensorParam(Buffer("A", (Const(3, INT32),), as_dtype("float32"), Scope.GLOBAL))
    cupy = SimpleNamespace(asarray=lambda array: ("on the GPU", array.dtype))
    found = {"cupy": cupy}

    def import_module(name: str) -> SimpleNamespace:
        if name not in found:
            raise ImportError(name)
        return found[name]

    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr("importlib.import_module", import_module)
    assert ("on the GPU", np.float32) == supply(param, device="cuda")
    assert isinstance(supply(param), np.ndarray)
