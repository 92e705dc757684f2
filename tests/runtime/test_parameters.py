from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32, INT32
from tilelang.errors import ArgumentError, OptionError, ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.stmt import Alloc, Atomic, AtomicOp, Seq, Stmt, Store
from tilelang.ops.copy import Copy
from tilelang.runtime.parameters import Signature, order_keywords, shape_text, solve, unknown_of, written_params

M, N = Var("M", INT32, index=True), Var("N", INT32, index=True)
ZERO = Const(0, INT32)


def dim(extent: int | Expr) -> Expr:
    return Const(extent, INT32) if isinstance(extent, int) else extent


def tensor(name: str, *shape: int | Expr) -> TensorParam:
    return TensorParam(Buffer(name, tuple(dim(e) for e in shape), FLOAT32, Scope.GLOBAL))


def kernel(params: Sequence[Param], *body: Stmt, symbols: tuple[Var, ...] = ()) -> PrimFunc:
    return PrimFunc("kernel", tuple(params), Seq(body), symbols=symbols)


def store(param: TensorParam) -> Store:
    return Store(param.buffer, (ZERO,) * param.buffer.rank, Const(1.0, FLOAT32))


def test_stores_atomics_and_tile_operators_write() -> None:
    a, b, c, d, e = (tensor(name, 8) for name in "abcde")
    whole = [Region(p.buffer, (ZERO,), p.shape) for p in (a, c)]
    func = kernel(
        (a, b, c, d, e),
        store(b),
        Copy(*whole),
        Atomic(AtomicOp.ADD, d.buffer, (ZERO,), Const(1.0, FLOAT32)),
        Atomic(AtomicOp.LOAD, e.buffer, (ZERO,), None),
    )
    assert {1, 2, 3} == written_params(func)


def test_writing_a_view_writes_what_it_views() -> None:
    a = tensor("a", 8)
    view = Buffer("v", (dim(2), dim(4)), FLOAT32, Scope.GLOBAL, view_of=a.buffer)
    assert {0} == written_params(kernel([a], Alloc(view), Store(view, (ZERO, ZERO), Const(1.0, FLOAT32))))


@pytest.mark.parametrize(
    ("out_idx", "outputs", "inputs"),
    [
        (None, (), (0, 1, 2)),
        (2, (2,), (0, 1)),
        (-1, (2,), (0, 1)),
        ([0], (0,), (1, 2)),
        ([-1, 0], (2, 0), (1,)),
        ((1, 2), (1, 2), (0,)),
        ([], (), (0, 1, 2)),
    ],
)
def test_out_idx_in_every_spelling(out_idx: object, outputs: tuple[int, ...], inputs: tuple[int, ...]) -> None:
    signature = Signature.of(kernel([tensor(name, 4) for name in "abc"]), out_idx)  # type: ignore[arg-type]
    assert (outputs, inputs) == (signature.outputs, signature.inputs)


@pytest.mark.parametrize(
    ("out_idx", "message"),
    [
        (2, "kernel: out_idx=2 names no parameter; there are 2\n"
            "hint: the parameters are 0 (a), 1 (N); -1 is the last"),
        (-3, "kernel: out_idx=-3 names no parameter; there are 2\n"
             "hint: the parameters are 0 (a), 1 (N); -1 is the last"),
        ([0, -2], "kernel: out_idx=[0, -2] names 'a' twice\nhint: write out_idx=[0]"),
        (1, "kernel: out_idx=1 is 'N', which is not a tensor"),
        ("last", "kernel: out_idx='last' is neither an integer nor a list of integers\n"
                 "hint: write out_idx=[-1] to have the last parameter allocated and returned"),
        ([True], "kernel: out_idx=[True] is neither an integer nor a list of integers\n"
                 "hint: write out_idx=[-1] to have the last parameter allocated and returned"),
    ],
)  # fmt: skip
def test_an_invalid_out_idx_is_refused(out_idx: object, message: str) -> None:
    func = kernel([tensor("a", 4), ScalarParam(N)])
    with pytest.raises(OptionError) as caught:
        Signature.of(func, out_idx)  # type: ignore[arg-type]
    assert message == str(caught.value)


def test_a_dimension_that_only_an_output_has_cannot_be_found() -> None:
    func = kernel([tensor("a", M), tensor("c", M, N)], symbols=(M, N))
    Signature.of(func)
    with pytest.raises(ProgramError) as caught:
        Signature.of(func, -1)
    assert (
        "kernel: dimension 'N' cannot be found from the arguments a\n"
        "hint: pass it as a scalar parameter `N: T.int32`, or give an input a dimension 'N' by itself"
    ) == str(caught.value)


def test_a_scalar_parameter_gives_a_dimension() -> None:
    assert (1,) == Signature.of(kernel([ScalarParam(N), tensor("c", N)]), -1).outputs


def test_a_linear_extent_gives_its_only_unknown() -> None:
    Signature.of(kernel([tensor("a", M * 2 + 1)], symbols=(M,)))
    with pytest.raises(ProgramError):
        Signature.of(kernel([tensor("a", (M + 3) // 4)], symbols=(M,)))


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-20, 20), st.integers(-3, 3))
def test_a_linear_extent_is_solved_exactly(slope: int, start: int, value: int, other: int) -> None:
    expr = M * slope + N * other + start
    if not isinstance(expr, Expr) or unknown_of(expr, {N}) is None:
        assert slope == 0
        return
    assert value == solve(expr, slope * value + other * 2 + start, M, {N: 2})
    if abs(slope) > 1:
        assert None is solve(expr, slope * value + other * 2 + start + 1, M, {N: 2})


def test_shapes_read_as_they_were_written() -> None:
    assert "(M, 4)" == shape_text((M, dim(4)))
    assert "(M,)" == shape_text((M,))
    assert "()" == shape_text(())


def test_keywords_are_put_in_order() -> None:
    s = Signature.of(kernel([tensor(name, 2) for name in "abc"], store(tensor("c", 2))), -1)
    assert (0, 1) == order_keywords(s, 1, ["b"])
    assert (1, 0) == order_keywords(s, 0, ["b", "a"])
    assert (0, 2, 1) == order_keywords(s, 1, ["c", "b"])


@pytest.mark.parametrize(
    ("count", "keyword", "message"),
    [
        (1, "x", "kernel: no parameter is named 'x'\nhint: the parameters are a, b"),
        (1, "a", "kernel: 'a' was given twice"),
        (0, "b", "kernel: 'a' was not given"),
    ],
)
def test_wrong_keywords_are_refused(count: int, keyword: str, message: str) -> None:
    s = Signature.of(kernel([tensor("a", 2), tensor("b", 2)]), None)
    with pytest.raises(ArgumentError) as caught:
        order_keywords(s, count, [keyword])
    assert message == str(caught.value)
