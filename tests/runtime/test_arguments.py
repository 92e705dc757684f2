import sys
from typing import Any

import numpy as np
import pytest

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Seq, Store
from tilelang.runtime.arguments import Devices, bind
from tilelang.runtime.arrays import ArrayView
from tilelang.runtime.parameters import Signature

M, N, LD = (Var(name, INT32, index=True) for name in ("M", "N", "LD"))


POINTER = ScalarParam(Var("p", INT64, index=True), pointer=True)


def dim(extent: int | Expr) -> Expr:
    return Const(extent, INT32) if isinstance(extent, int) else extent


def tensor(name: str, *shape: int | Expr, dtype: str = "float32", strides: Any = None) -> TensorParam:
    steps = None if strides is None else tuple(dim(s) for s in strides)
    return TensorParam(Buffer(name, tuple(dim(e) for e in shape), as_dtype(dtype), Scope.GLOBAL, steps))


def signature(*params: Param, symbols: tuple[Var, ...] = (), out_idx: Any = None) -> Signature:
    last = params[-1]
    body = []
    if isinstance(last, TensorParam):
        body.append(Store(last.buffer, (dim(0),) * last.buffer.rank, Const(0.0, FLOAT32)))
    return Signature.of(PrimFunc("kernel", params, Seq(tuple(body)), symbols=symbols), out_idx)


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_arguments_become_addresses_numbers_and_symbols() -> None:
    s = signature(tensor("a", M, N), ScalarParam(Var("x", FLOAT32)), tensor("c", N), symbols=(M, N))
    a, c = np.zeros((3, 5), np.float32), np.zeros(5, np.float32)
    assert [address(a), 2.0, address(c), 3, 5] == bind(s, (a, 2, c)).c_arguments()


def test_outputs_are_allocated_with_the_shape_that_the_inputs_give() -> None:
    s = signature(tensor("a", M, N), tensor("c", N, M + 1), symbols=(M, N), out_idx=-1)
    result = bind(s, (np.zeros((3, 5), np.float32),)).result()
    assert ((5, 4), np.float32) == (result.shape, result.dtype)


def test_several_outputs_are_returned_in_the_order_of_out_idx() -> None:
    s = signature(tensor("a", 2), tensor("b", 3), tensor("c", 4), out_idx=[2, 1])
    c, b = bind(s, (np.zeros(2, np.float32),)).result()
    assert ((4,), (3,)) == (c.shape, b.shape)


def test_outputs_may_be_passed_and_are_returned() -> None:
    s = signature(tensor("a", 2), tensor("c", 2), out_idx=-1)
    a, c = np.zeros(2, np.float32), np.zeros(2, np.float32)
    assert c is bind(s, (a, c)).result()


def test_several_outputs_are_a_list() -> None:
    s = signature(tensor("a", 2), tensor("b", 3), tensor("c", 4), out_idx=[1, 2])
    assert list is type(bind(s, (np.zeros(2, np.float32),)).result())


@pytest.mark.parametrize(("dtype", "given"), [
    ("bool", "int8"), ("bool", "uint8"), ("float8_e4m3fn", "float8_e4m3fnuz"), ("float8_e4m3fnuz", "float8_e4m3fn"),
    ("float8_e5m2", "float8_e5m2fnuz"), ("float8_e5m2fnuz", "float8_e5m2"), ("float6_e3m2fn", "uint8"),
    ("float4_e2m1_unpacked", "float4_e2m1fn"), ("float4_e2m1_unpacked", "uint8"),
])  # fmt: skip
def test_dtypes_with_the_same_bytes_are_accepted(dtype: str, given: str) -> None:
    array = np.arange(2, dtype=np.uint8).view(as_dtype(given).numpy)
    (view,) = bind(signature(tensor("a", 2, dtype=dtype)), (array,)).values
    assert isinstance(view, ArrayView)
    assert (address(array), as_dtype(dtype)) == (view.pointer, view.dtype)
    assert as_dtype(dtype).numpy == view.as_numpy().dtype


@pytest.mark.parametrize(("dtype", "given"), [("int8", "bool"), ("float8_e4m3fn", "float8_e5m2"), ("bool", "int32")])
def test_dtypes_with_other_bytes_are_refused(dtype: str, given: str) -> None:
    with pytest.raises(RuntimeError, match=f"'a' has dtype {given}, expected {dtype}"):
        bind(signature(tensor("a", 2, dtype=dtype)), (np.zeros(2, as_dtype(given).numpy),))


def test_a_tensor_that_is_not_touched_may_be_none() -> None:
    s = signature(tensor("a", M, N), tensor("bias", N, 4), tensor("c", M), symbols=(M, N))
    c = np.zeros(3, np.float32)
    bound = bind(s, (None, None, c))
    assert [0, 0, address(c), 3, 0] == bound.c_arguments()
    absent = bound.values[0]
    assert isinstance(absent, ArrayView)
    assert (3, 0) == absent.as_numpy().shape


def test_a_tensor_that_is_given_is_checked_although_it_is_not_touched() -> None:
    s = signature(tensor("a", 3), tensor("c", 2))
    with pytest.raises(RuntimeError, match="'a' has shape"):
        bind(s, (np.zeros(4, np.float32), np.zeros(2, np.float32)))


def test_a_call_without_outputs_returns_nothing() -> None:
    assert None is bind(signature(tensor("c", 2)), (np.zeros(2, np.float32),)).result()


def test_a_dimension_is_solved_from_a_linear_extent() -> None:
    s = signature(tensor("a", M * 4), tensor("c", M), symbols=(M,), out_idx=-1)
    assert (3,) == bind(s, (np.zeros(12, np.float32),)).result().shape


def test_strides_are_bound_where_they_are_declared() -> None:
    s = signature(tensor("a", M, 4, strides=(LD, 1)), symbols=(M, LD))
    base = np.zeros((6, 10), np.float32)
    assert [address(base), 6, 10] == bind(s, (base[:, :4],)).c_arguments()
    reverse = base[::-1, :4]
    assert [address(reverse), 6, -10] == bind(s, (reverse,)).c_arguments()


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (4, 1)])
def test_extents_of_zero_and_one_have_no_strides_to_check(shape: tuple[int, int]) -> None:
    s = signature(tensor("c", M, N), symbols=(M, N))
    base = np.zeros((8, 8), np.float32)[: shape[0], : shape[1]]
    if shape == (4, 1):
        base = np.zeros((1, 4), np.float32).T
    assert shape == bind(s, (base,)).values[0].shape  # type: ignore[union-attr]


def test_an_empty_array_has_no_strides_to_check() -> None:
    s = signature(tensor("c", 5, N, strides=(3, 1)), symbols=(N,))
    assert (5, 0) == bind(s, (np.zeros((5, 0), np.float32),)).values[0].shape  # type: ignore[union-attr]


def test_a_tensor_of_rank_zero_is_bound() -> None:
    view = bind(signature(tensor("c")), (np.zeros((), np.float32),)).values[0]
    assert isinstance(view, ArrayView)
    assert () == view.shape


def test_vector_dtypes_have_their_lanes_as_last_extent() -> None:
    s = signature(tensor("a", 3, dtype="float16x2"), tensor("c", 3))
    bind(s, (np.zeros((3, 2), np.float16), np.zeros(3, np.float32)))
    with pytest.raises(ArgumentError, match="expected 2 as the last extent, the lanes of float16x2"):
        bind(s, (np.zeros((3, 4), np.float16), np.zeros(3, np.float32)))


def test_tfloat32_is_stored_as_float32() -> None:
    bind(signature(tensor("c", 3, dtype="tfloat32")), (np.zeros(3, np.float32),))


def test_scalars_are_bound_by_their_dtypes() -> None:
    assert [3.0, 1] == bind(signature(ScalarParam(Var("x", FLOAT32)), ScalarParam(Var("b", BOOL))), (3, True)).c_arguments()


def test_a_pointer_is_an_address_or_an_array() -> None:
    s = signature(POINTER)
    array = np.zeros(3)
    assert [4096] == bind(s, (4096,)).c_arguments()
    assert [address(array)] == bind(s, (array,)).c_arguments()


@pytest.mark.parametrize("given", [None, 1.5, -1, "p", np.float64(1)])
def test_invalid_pointers_are_refused(given: object) -> None:
    with pytest.raises(RuntimeError, match="'p' must be an address or an array in host memory, got "):
        bind(signature(POINTER), (given,))


def test_an_array_may_be_read_only_where_it_is_only_read() -> None:
    s = signature(tensor("a", 2), tensor("c", 2))
    a = np.zeros(2, np.float32)
    a.flags.writeable = False
    bind(s, (a, np.zeros(2, np.float32)))


def test_packed_outputs_need_rows_of_whole_bytes() -> None:
    s = signature(tensor("a", 2, 4, dtype="int4"), tensor("c", 2, 3, dtype="int4"), out_idx=-1)
    with pytest.raises(ArgumentError) as caught:
        bind(s, (np.zeros((2, 2), np.int8),))
    assert "kernel: output 'c' of shape (2, 3) cannot be allocated: a row of int4 is no whole number of bytes" == (
        caught.value.message
    )
    assert "let the last extent be even" == caught.value.hint


def test_torch_tensors_are_bound() -> None:
    torch = pytest.importorskip("torch")
    s = signature(tensor("a", M, dtype="bfloat16"), tensor("c", M), symbols=(M,), out_idx=-1)
    result = bind(s, (torch.zeros(3, dtype=torch.bfloat16),)).result()
    assert (torch.float32, (3,)) == (result.dtype, tuple(result.shape))


def test_an_array_is_no_scalar() -> None:
    with pytest.raises(ArgumentError, match=r"'x' must be an integer \(int32\), got ndarray array\(\[1, 2\]\)"):
        bind(signature(ScalarParam(Var("x", as_dtype("int32")))), (np.array([1, 2]),))


def test_a_bool_parameter_is_no_other_number() -> None:
    with pytest.raises(ArgumentError, match="'x' is 2, which bool cannot hold"):
        bind(signature(ScalarParam(Var("x", BOOL))), (2,))


# -- on devices ----------------------------------------------------------------------------------------------
class OnDevice:
    def __init__(self, *shape: int, pointer: int = 4096) -> None:
        self.__cuda_array_interface__ = {"typestr": "<f4", "shape": shape, "data": (pointer, False), "version": 3}
        self.ndim = len(shape)


DEVICES = Devices("sm_90a", lambda pointer: pointer // 4096 - 1, lambda: 7)


def test_arrays_determine_the_device() -> None:
    s = signature(tensor("A", 4), tensor("B", 4))
    bound = bind(s, [OnDevice(4, pointer=8192), OnDevice(4, pointer=8192)], DEVICES)
    assert 1 == bound.device
    assert [8192, 8192] == bound.c_arguments()


def test_without_an_array_the_current_device_is_used() -> None:
    s = signature(ScalarParam(Var("n", INT32)), tensor("A", 0))
    assert 7 == bind(s, [3, OnDevice(0, pointer=0)], DEVICES).device


def test_an_output_that_cannot_be_allocated_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ArgumentError) as caught:
        bind(signature(tensor("A", 4), tensor("B", 4), out_idx=-1), [OnDevice(4)], DEVICES)
    assert (
        "kernel: output 'B' of dtype float32 cannot be allocated on a device: neither torch nor CuPy has been imported, "
        "or it has no such dtype\nhint: pass 'B' as an argument"
    ) == str(caught.value)


def test_a_pointer_may_be_an_array_on_the_device() -> None:
    s = signature(POINTER, tensor("A", 4))
    assert [4112, 4096] == bind(s, [OnDevice(1, pointer=4112), OnDevice(4)], DEVICES).c_arguments()
    with pytest.raises(ArgumentError, match="'p' is in host memory, expected memory of a CUDA device"):
        bind(s, [np.zeros(3), OnDevice(4)], DEVICES)
    with pytest.raises(ArgumentError, match="'A' is on device cuda:0, but 'p' is on cuda:1"):
        bind(s, [OnDevice(1, pointer=8192), OnDevice(4)], DEVICES)


def test_tensors_on_the_devices_of_another_vendor_are_refused() -> None:
    devices = Devices("gfx942", lambda pointer: 0, lambda: 0, "rocm", "HIP")
    with pytest.raises(ArgumentError) as caught:
        bind(signature(tensor("A", 4)), [OnDevice(4)], devices)
    assert "kernel: 'A' is on device cuda, expected memory of a HIP device" == caught.value.message
    assert "compile for that device with target='auto'; the kernel was compiled for gfx942" == caught.value.hint
    with pytest.raises(ArgumentError) as caught:
        bind(signature(tensor("A", 4)), [np.zeros(4, np.float32)], devices)
    assert "kernel: 'A' is in host memory, expected memory of a HIP device" == caught.value.message
