import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilelang.dtypes import INT32, SCALARS, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.func import ScalarParam, TensorParam
from tilelang.profile.inputs import TensorSupplyType, get_tensor_supply, supply
from tilelang.runtime.arrays import borrow
from tilelang.runtime.kernel_param import KernelParam

N = Var("N", INT32, index=True)


def tensor(*shape: int | Expr, dtype: str = "float32") -> TensorParam:
    extents = tuple(e if isinstance(e, Expr) else Const(e, INT32) for e in shape)
    return TensorParam(Buffer("A", extents, as_dtype(dtype), Scope.GLOBAL))


def values(param: TensorParam, kind: TensorSupplyType) -> np.ndarray:
    """What is supplied; of elements that torch packs, the bytes."""
    made = supply(param, kind)
    if param.dtype.bits == 4 and "torch" in sys.modules:
        made = made.view(sys.modules["torch"].uint8)
    view = borrow(made)
    assert view is not None
    return view.as_numpy()


@pytest.mark.parametrize("kind", list(TensorSupplyType))
def test_every_dtype_is_supplied_in_every_kind(kind: TensorSupplyType) -> None:
    pytest.importorskip("torch")
    for name, dtype in SCALARS.items():
        made = values(tensor(3, 4, dtype=name), kind)
        expected = ((3, 2), np.uint8) if dtype.bits == 4 else ((3, 4), dtype.numpy)
        assert (name, *expected) == (name, made.shape, made.dtype)


# what each kind draws: a set of values, or (least, greatest, mean, deviation) of what is continuous
UNIFORM, SMALL = (-1.0, 1.0, 0.0, 3**-0.5), {-2, -1, 0, 1, 2}
DRAWS: list[tuple[str, TensorSupplyType, set[int] | tuple[float, float, float, float]]] = [
    *((dtype, TensorSupplyType.Auto, UNIFORM) for dtype in ("float16", "bfloat16", "float32", "tfloat32")),
    *((dtype, TensorSupplyType.Auto, SMALL) for dtype in ("int8", "int16", "int32", "int64", "float64")),
    *((dtype, TensorSupplyType.Auto, {0, 1, 2}) for dtype in ("uint8", "uint16", "uint32", "uint64", "uint4")),
    *((dtype, TensorSupplyType.Integer, SMALL) for dtype in ("float16", "bfloat16", "float32", "int8", "float64")),
    ("bool", TensorSupplyType.Auto, {0, 1}),
    ("uint8", TensorSupplyType.Integer, {0, 1, 2}),
    ("float32", TensorSupplyType.Uniform, UNIFORM),
    ("float16", TensorSupplyType.Uniform, UNIFORM),
    ("float64", TensorSupplyType.Normal, (-7.0, 5.0, -1.0, 1.0)),
    ("float32", TensorSupplyType.Normal, (-7.0, 5.0, -1.0, 1.0)),
    ("float32", TensorSupplyType.Randn, (-6.0, 6.0, 0.0, 1.0)),
    ("int8", TensorSupplyType.Uniform, {1}),
    ("int8", TensorSupplyType.Normal, {1}),
    ("float16", TensorSupplyType.Zero, {0}),
    ("int32", TensorSupplyType.One, {1}),
]


@pytest.mark.parametrize("without_torch", [False, True])
@pytest.mark.parametrize(("dtype", "kind", "expected"), DRAWS)
def test_the_distribution_depends_on_dtype_and_kind(
    monkeypatch: pytest.MonkeyPatch, dtype: str, kind: TensorSupplyType, expected: Any, without_torch: bool
) -> None:
    if without_torch:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    found = values(tensor(4000, dtype=dtype), kind).astype(np.float64)
    if isinstance(expected, set):
        assert expected == set(found)
    else:
        low, high, mean, deviation = expected
        assert low <= found.min()
        assert found.max() <= high
        assert abs(found.mean() - mean) < 0.1
        assert abs(found.std() - deviation) < 0.1


def test_float8_holds_converted_integers_and_float4_any_code() -> None:
    found = values(tensor(4000, dtype="float8_e4m3fn"), TensorSupplyType.Auto).astype(np.float32)
    assert (-128, 128) == (found.min(), found.max())
    assert set(found) == set(np.arange(-128, 128).astype(as_dtype("float8_e4m3fn").numpy).astype(np.float32))
    codes = values(tensor(4000, dtype="float4_e2m1fn"), TensorSupplyType.Integer).view(np.uint8)
    assert set(range(16)) == set(codes.tolist())


def test_elements_below_a_byte_are_drawn_by_bytes_where_torch_holds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    for dtype, expected in (("int4", SMALL), ("uint4", {0, 1, 2}), ("float4_e2m1fn", set(range(16)))):
        found = values(tensor(2, 2000, dtype=dtype), TensorSupplyType.Auto)
        assert ((2, 1000), expected) == (found.shape, set(found.view(np.int8).flat))
    monkeypatch.delitem(sys.modules, "torch")
    assert SMALL == set(values(tensor(2, 300, dtype="int4"), TensorSupplyType.Auto).astype(np.int64).flat)
    assert {1.0} == set(values(tensor(8, dtype="float4_e2m1fn"), TensorSupplyType.Uniform).astype(np.float32))


def test_the_seed_decides_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [np.random.seed]
    torch = sys.modules.get("torch")
    if torch is not None:
        seeds.append(torch.manual_seed)
    for seed in reversed(seeds):
        seed(3)
        first = values(tensor(10), TensorSupplyType.Auto)
        seed(3)
        assert np.array_equal(first, values(tensor(10), TensorSupplyType.Auto))
        monkeypatch.delitem(sys.modules, "torch", raising=False)


def test_a_supply_makes_tensors_from_descriptions() -> None:
    make = get_tensor_supply(TensorSupplyType.Integer)
    view = borrow(make(KernelParam("float32", [30, 4])))
    assert view is not None
    assert ((30, 4), "float32") == (view.shape, view.dtype)
    assert SMALL == set(view.as_numpy().flat)
    with pytest.raises(ValueError, match="'A' has the symbolic dimension 'N', which has no value"):
        get_tensor_supply()(KernelParam.of(tensor(N)))


def test_symbolic_dimensions_need_a_value() -> None:
    assert (8, 2) == tuple(supply(tensor(N * 2, 2), sizes={"N": 4}).shape)
    with pytest.raises(ArgumentError) as caught:
        supply(tensor(N))
    assert (
        "profiler: 'A' has the symbolic dimension 'N', which has no value\n"
        "hint: pass dynamic_symbolic_constraints={'N': 1024} to do_bench, or input_tensors=[...]"
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
        "hint: pip install torch with support for this GPU, or pass input_tensors=[...]; without a GPU, "
        "kernel.predict() estimates the time"
    ) == str(caught.value)
    gpu = SimpleNamespace(is_available=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=gpu, randint=lambda *_: np.int64(0)))
    with pytest.raises(ArgumentError, match="neither torch nor CuPy can put it"):
        supply(param, device="cuda")
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=lambda array: ("on the GPU", array.dtype)))
    assert ("on the GPU", np.float32) == supply(param, device="cuda")


def test_a_framework_is_imported_for_gpu_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
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
