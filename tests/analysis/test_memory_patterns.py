import pytest

from tilelang.analysis.accesses import accesses
from tilelang.analysis.memory_patterns import MemoryPattern, best_vector, contiguous_variable, patterns
from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Load, Var, as_expr, const
from tilelang.ir.stmt import Store

i, j, k, n = (Var(name, INT32, index=True) for name in "ijkn")
DOMAIN = Domain().with_loop(i, 0, 64).with_loop(j, 0, 64).with_range(k, 0, None).with_range(n, 0, None)


def tensor(*shape: Expr | int, dtype: str = "float32", **facts: int) -> Buffer:
    return Buffer("A", tuple(as_expr(e) for e in shape), DType(dtype), Scope.GLOBAL, **facts)


def read(buffer: Buffer, *at: Expr | int) -> MemoryPattern:
    """The pattern of reading an element."""
    target = Buffer("x", (), buffer.dtype, Scope.VAR)
    load = Load(buffer, tuple(as_expr(e) for e in at), buffer.dtype)
    (found,) = patterns(accesses(Store(target, (), load)).all, (i, j), DOMAIN)
    return found


@pytest.mark.parametrize(
    ("buffer", "at", "width"),
    [
        (tensor(64, 64), (i, j), 4),
        (tensor(64, 64, dtype="float16"), (i, j), 8),
        (tensor(64, 64, dtype="int8"), (i, j), 16),
        (tensor(64, 64, dtype="float64"), (i, j), 2),
        (tensor(64, 66), (i, j), 2),
        (tensor(64, 66), (i * 2, j), 4),
        (tensor(64, 33), (i, j), 1),
        (tensor(64, 128), (i, j + 6), 2),
        (tensor(64, 128), (i, k * 64 + j), 4),
        (tensor(64, n), (i, j), 1),
        (tensor(64, n * 8), (i, j), 4),
        (tensor(64, n), (0, j), 4),
        (tensor(64, 64, alignment_bytes=4), (i, j), 1),
        (tensor(4096), (i * 64 + j,), 4),
        (tensor(4096), (i * 63 + j,), 1),
    ],
)
def test_how_wide_an_access_may_be(buffer: Buffer, at: tuple[Expr, ...], width: int) -> None:
    assert {j: width} == read(buffer, *at).widths


@pytest.mark.parametrize("at", [(j, i), (i, j * 2), (i, 63 - j), (i + j, j), (i, j // 2)])
def test_accesses_that_are_not_contiguous(at: tuple[Expr, ...]) -> None:
    assert j not in read(tensor(128, 128), *at).widths


def test_strides_of_a_tensor_count() -> None:
    shape = (as_expr(64), as_expr(64))
    rows = Buffer("A", shape, FLOAT32, Scope.GLOBAL, strides=(as_expr(72), as_expr(1)))
    columns = Buffer("A", shape, FLOAT32, Scope.GLOBAL, strides=(as_expr(1), as_expr(64)))
    assert {j: 4} == read(rows, i, j).widths
    assert {} == read(columns, i, j).widths


def test_an_access_that_does_not_move_is_still() -> None:
    assert frozenset({j}) == read(tensor(64), i).invariant
    assert {i: 4} == read(tensor(64), i).widths


@pytest.mark.parametrize(
    ("at", "run"),
    [
        ((i, j // 16), 16),
        ((i, (k * 32 + j) // 16), 16),
        ((i, (k * 8 + j) // 16), 8),
        ((i, (k + j) // 16), 1),
        ((j // 8, j // 2), 2),
        ((i, j // 8 * 3 + 1), 8),
        ((i, j % 8), 1),
        ((i, 2 * j // 16), 1),
    ],
)
def test_how_long_an_access_stays_where_it_is(at: tuple[Expr, ...], run: int) -> None:
    pattern = read(tensor(128, 128), *at)
    assert ({j: run} if run > 1 else {}) == pattern.runs
    assert 2.0 / min(4, run) == pattern.cost(j, 4) if run > 1 else j not in pattern.invariant


def test_what_is_apart_within_a_sector_is_near() -> None:
    assert {j: 16} == read(tensor(128, 512), i, j * 4 + 1).sector_strides
    assert {j: 4} == read(tensor(128, 512), i, j).sector_strides
    assert {} == read(tensor(128, 512), i, j * 8).sector_strides
    assert {} == read(tensor(128, 512), i, 63 - j).sector_strides
    assert {j: 6, i: 2} == read(tensor(512, dtype="float16"), j * 3 + i).sector_strides
    pattern = read(tensor(128, 512), i, j * 4)
    assert (5.0, 9.0) == (pattern.cost(j, 1), pattern.cost(j, 2))


def test_the_best_vector_is_that_of_the_dearest_accesses() -> None:
    wide, narrow = read(tensor(64, 64), i, j), read(tensor(64, 64, dtype="float16"), i, j)
    odd = read(tensor(64, 65), i, j + 1)
    assert 4 == best_vector([wide], j, 64)
    assert 8 == best_vector([narrow, narrow], j, 64)
    assert 4 == best_vector([narrow, wide], j, 64)
    assert 2 == best_vector([wide], j, 2)
    assert 1 == best_vector([wide, odd, odd, odd], j, 64)
    assert 1 == best_vector([], j, 64)


def test_the_fastest_variable_has_most_traffic() -> None:
    across, along = read(tensor(64, 64), j, i), read(tensor(64, 64), i, j)
    assert j is contiguous_variable([along, along, across], (i, j))
    assert i is contiguous_variable([along, across, across], (i, j))
    assert j is contiguous_variable([along, across], (i, j))
    assert contiguous_variable([read(tensor(64, 64), 0, const(0, INT32))], (i, j)) is None


def test_what_iterations_share_does_not_decide_which_variable_is_fastest() -> None:
    index, along = read(tensor(64), i), read(tensor(64, 64), i, j)
    assert j is contiguous_variable([index, index, along], (i, j))
    assert i is contiguous_variable([index, index], (i, j))
