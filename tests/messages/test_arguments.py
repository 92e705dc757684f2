"""The whole text of every message about a call's arguments, and that a refused call touches nothing."""

from typing import Any

import numpy as np
import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import ArgumentError, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, Expr, Var, const
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Launch, Seq, Store
from tilelang.runtime.arguments import bind
from tilelang.runtime.parameters import Signature

M, K, N = (Var(name, INT32, index=True) for name in ("M", "K", "N"))


def tensor(name: str, *shape: int | Expr, dtype: str = "float32", strides: Any = None) -> TensorParam:
    def dims(values: Any) -> tuple[Expr, ...]:
        return tuple(v if isinstance(v, Expr) else Const(v, INT32) for v in values)

    steps = None if strides is None else dims(strides)
    return TensorParam(Buffer(name, dims(shape), as_dtype(dtype), Scope.GLOBAL, steps))


def scalar(name: str, dtype: str) -> ScalarParam:
    return ScalarParam(Var(name, as_dtype(dtype)))


def refused(params: list[Param], args: tuple[Any, ...], out_idx: Any = None, loc: Loc | None = None) -> str:
    """The message of a call whose last tensor is written."""
    last = [p for p in params if isinstance(p, TensorParam)][-1:]
    body = [Store(p.buffer, (Const(0, INT32),) * p.buffer.rank, const(0, p.dtype)) for p in last]
    symbols = {e: None for p in params if isinstance(p, TensorParam) for e in p.shape if isinstance(e, Var)}
    func = PrimFunc("gemm", tuple(params), Seq(tuple(body)), symbols=tuple(symbols), **({"loc": loc} if loc else {}))
    with pytest.raises(ArgumentError) as caught:
        bind(Signature.of(func, out_idx), args)
    return str(caught.value)


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


ABC = [tensor("A", M, K), tensor("B", K, N), tensor("C", M, N)]


def test_too_few_arguments() -> None:
    assert "gemm: expected 3 arguments (A, B, C), got 1" == refused([*ABC], (zeros(2, 2),))


def test_one_argument_too_few_suggests_out_idx() -> None:
    assert (
        "gemm: expected 3 arguments (A, B, C), got 2\n"
        "hint: to have the last parameter allocated and returned, compile with out_idx=[-1]"
    ) == refused([*ABC], (zeros(2, 2), zeros(2, 2)))


def test_too_many_arguments_with_outputs() -> None:
    assert (
        "gemm: expected 2 arguments (A, B), got 4\nhint: 'C' is allocated and returned because of out_idx"
    ) == refused([*ABC], (zeros(2, 2),) * 4, out_idx=-1)


def test_none_where_the_kernel_writes() -> None:
    assert (
        "gemm: 'C' is None, but the kernel reads or writes it\n"
        "hint: pass a float32 array of shape (M, N); None is for tensors that are not touched"
    ) == refused([*ABC], (None, None, None))


def test_none_for_all_that_carry_a_size() -> None:
    params = [tensor("A", M), tensor("B", M, 2), tensor("C", 2)]
    grid = Launch((Var("bx", INT32, index=True),), (M,), (128, 1, 1), Seq(()))
    store = Store(params[2].buffer, (Const(0, INT32),), const(0, params[2].dtype))
    func = PrimFunc("gemm", tuple(params), Seq((grid, store)), symbols=(M,))
    with pytest.raises(RuntimeError) as caught:
        bind(Signature.of(func), (None, None, zeros(2)))
    assert (
        "gemm: dimension 'M' needs at least one non-null buffer that has it, but A, B are all None\n"
        "hint: pass a tensor for one of them, or 'M' as a scalar parameter"
    ) == str(caught.value)


@pytest.mark.parametrize(("extent", "text"), [(M, "(M, 2), which is (0, 2) here,"), (Const(0, INT32), "(0, 2)")])
def test_an_empty_grid(extent: Expr, text: str) -> None:
    grid = (extent, Const(2, INT32))
    launch = Launch(tuple(Var(n, INT32, index=True) for n in "xy"), grid, (128, 1, 1), Seq(()))
    func = PrimFunc("gemm", (tensor("A", M),), launch, symbols=(M,))
    with pytest.raises(RuntimeError) as caught:
        bind(Signature.of(func), (zeros(0),))
    assert (
        f"gemm: the grid {text} has no blocks\n"
        "hint: do not call the kernel where there is nothing to do, or start at least one block: T.max(extent, 1)"
    ) == str(caught.value)


def test_a_list() -> None:
    assert (
        "gemm: 'A' must be a float32 array of shape (3,), got list [1.0, 2.0, 3.0]\n"
        "hint: write numpy.asarray(..., dtype='float32')"
    ) == refused([tensor("A", 3)], ([1.0, 2.0, 3.0],))


def test_a_wrong_dtype() -> None:
    assert (
        "gemm: 'A' has dtype float64, expected float32\nhint: write A = A.astype('float32') before the call, and pass that"
    ) == refused([tensor("A", 3)], (zeros(3, dtype=np.float64),))


def test_a_wrong_dtype_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert (
        "gemm: 'A' has dtype torch.float32, expected bfloat16\nhint: write A = A.to(torch.bfloat16) before the call, and pass that"
    ) == refused([tensor("A", 3, dtype="bfloat16")], (torch.zeros(3),))


def test_a_wrong_rank() -> None:
    assert (
        "gemm: 'A' has 1 dimension, shape (6,), expected 2 dimensions, shape (M, K)"
    ) == refused([*ABC], (zeros(6), zeros(2, 2), zeros(2, 2)))


def test_a_wrong_shape() -> None:
    assert (
        "gemm: 'A' has shape (32, 64), expected (64, 32)"
    ) == refused([tensor("A", 64, 32)], (zeros(32, 64),))


def test_a_wrong_shape_that_follows_from_others() -> None:
    params = [tensor("A", M, K), tensor("B", M * 2)]
    assert (
        "gemm: 'B' has shape (5,), expected (M * 2,), which is (6,) here"
    ) == refused(params, (zeros(3, 4), zeros(5)))


def test_contradictory_symbolic_dimensions_name_both_arguments() -> None:
    assert (
        "gemm: dimension 'K' is 32 in 'A' of shape (64, 32), but 48 in 'B' of shape (48, 16)\n"
        "hint: 'B' is declared (K, N); pass arrays that agree on 'K'"
    ) == refused([*ABC], (zeros(64, 32), zeros(48, 16), zeros(64, 16)))


def test_an_extent_that_no_size_gives() -> None:
    func = PrimFunc("gemm", (tensor("A", M * 2),), Seq(()), symbols=(M,))
    with pytest.raises(ArgumentError) as caught:
        bind(Signature.of(func), (zeros(5),))
    assert "gemm: 'A' has shape (5,), expected (M * 2,): extent 0 cannot be 5" == str(caught.value)


def test_a_transposed_array() -> None:
    assert (
        "gemm: 'A' is not contiguous: its strides are (1, 4), expected (3, 1)\n"
        "hint: write A = numpy.ascontiguousarray(A) before the call, and pass that, or declare the parameter with T.StridedTensor"
    ) == refused([tensor("A", 4, 3)], (zeros(3, 4).T,))


def test_a_transposed_tensor_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert (
        "gemm: 'A' is not contiguous: its strides are (1, 4), expected (3, 1)\n"
        "hint: write A = A.contiguous() before the call, and pass that, or declare the parameter with T.StridedTensor"
    ) == refused([tensor("A", 4, 3)], (torch.zeros(3, 4).T,))


def test_wrong_declared_strides() -> None:
    assert (
        "gemm: 'A' has strides (3, 1), expected (8, 1)\n"
        "hint: strides are in elements; an array of shape (4, 3) with other strides needs a copy"
    ) == refused([tensor("A", 4, 3, strides=(8, 1))], (zeros(4, 3),))


def test_another_device() -> None:
    torch = pytest.importorskip("torch")
    assert (
        "gemm: 'A' is on device meta, expected host memory\n"
        "hint: pass A.cpu(); the kernel runs on the CPU"
    ) == refused([tensor("A", 3)], (torch.zeros(3, device="meta"),))


def test_a_read_only_output() -> None:
    array = zeros(3)
    array.flags.writeable = False
    assert (
        "gemm: 'A' is written by the kernel, but the array given is read-only\n"
        "hint: write A = A.copy() before the call, and pass that"
    ) == refused([tensor("A", 3)], (array,))


def test_a_misaligned_array() -> None:
    array = np.zeros(13, np.int8)[1:].view(np.float32)
    assert (
        "gemm: 'A' starts at an address that is not a multiple of the size of float32\nhint: write A = A.copy() before the call, and pass that"
    ) == refused([tensor("A", 3)], (array,))


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int32", 1.5, "gemm: 'n' must be an integer (int32), got float 1.5"),
        ("int32", None, "gemm: 'n' must be an integer (int32), got None"),
        ("int8", 200, "gemm: 'n' is 200, which int8 cannot hold"),
        ("uint32", -1, "gemm: 'n' is -1, which uint32 cannot hold"),
        ("float32", "x", "gemm: 'n' must be a number (float32), got str 'x'"),
        ("bool", 0.0, "gemm: 'n' must be a bool (bool), got float 0.0"),
    ],
)
def test_wrong_scalars(dtype: str, value: Any, message: str) -> None:
    assert message == refused([scalar("n", dtype)], (value,))


def test_an_output_of_negative_extent() -> None:
    assert (
        "gemm: output 'C' would have the shape (-1,)"
    ) == refused([tensor("A", M), tensor("C", M - 4)], (zeros(3),), out_idx=-1)


def test_the_message_shows_where_the_kernel_was_defined(tmp_path: Any) -> None:
    file = tmp_path / "mine.py"
    file.write_text("@T.prim_func\ndef gemm(A):\n    ...\n")
    assert (
        "gemm: expected 1 argument (A), got 0\n"
        f" --> {file}:2:5\n"
        "2 | def gemm(A):\n"
        "  |     ^^^^"
    ) == refused([tensor("A", 3)], (), loc=Loc(str(file), 2, 4, 2, 8)).split("\nhint")[0]


def test_a_refused_call_touches_nothing() -> None:
    c = np.full((64, 16), 7, np.float32)
    refused([*ABC], (zeros(64, 32), zeros(48, 16), c))
    assert (c == 7).all()
