import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.analysis.access_maps import AccessMap, access_map
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Expr, Load, Var, const
from tilelang.layout.digits import Mode

i, j, k = (Var(name, INT32, index=True) for name in "ijk")
DATA = Buffer("D", (const(64, INT32),), INT32, Scope.SHARED)


def mapped(indices: tuple[Expr | int, ...], shape: tuple[int, ...], extents: tuple[int, ...] = (8, 16)) -> AccessMap | None:
    exprs = tuple(const(e, INT32) if isinstance(e, int) else e for e in indices)
    domain = Domain().with_loop(k, 0, 4)
    for var, extent in zip((i, j), extents, strict=False):
        domain = domain.with_loop(var, 0, extent)
    return access_map(exprs, (i, j)[: len(extents)], extents, shape, domain, {k})


def test_variables_lead_straight_to_dimensions() -> None:
    found = mapped((i, j), (8, 16))
    assert found is not None
    assert (((Mode(8, (1, 0)),), (Mode(16, (0, 1)),)), 0) == (found.map.inputs, found.free)


def test_what_a_nest_forgets_is_idle() -> None:
    found = mapped((i,), (8,))
    assert found is not None
    assert found.map.inputs[1][0].is_broadcast


@pytest.mark.parametrize(
    ("indices", "shape", "free"),
    [
        ((i, k), (8, 4), [Mode(4, (0, 1))]),
        ((k, i, j), (4, 8, 16), [Mode(4, (1, 0, 0))]),
        ((i, j + 16), (8, 32), [Mode(2, (0, 16))]),
        ((i, j + k * 16), (8, 64), [Mode(4, (0, 16))]),
        ((i, j), (8, 64), [Mode(4, (0, 16))]),
        ((i, 2 * j + 1), (8, 32), [Mode(2, (0, 1))]),
        ((i, 4 * j + k), (8, 64), [Mode(4, (0, 1))]),
        ((i, 3), (8, 5), [Mode(5, (0, 1))]),
        ((i * 16 + j,), (256,), [Mode(2, (128,))]),
    ],
)
def test_what_threads_walk_alone_is_free(indices: tuple[Expr, ...], shape: tuple[int, ...], free: list[Mode]) -> None:
    found = mapped(indices, shape)
    assert found is not None
    assert free == [modes[0] for modes in found.map.inputs[2:]]
    assert len(free) == found.free


@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        ((i + j,), (23,)),
        ((i, j + 1), (8, 17)),
        ((i, j + k), (8, 32)),
        ((7 - i,), (8,)),
        ((i * j,), (128,)),
        ((i * k,), (64,)),
        ((Load(DATA, (i,), INT32),), (64,)),
        ((i ^ 3,), (8,)),
    ],
)
def test_what_digits_do_not_tell(indices: tuple[Expr, ...], shape: tuple[int, ...]) -> None:
    assert mapped(indices, shape) is None


@pytest.mark.parametrize(("index", "extent"), [(i * i % 8, 3), (i // 2, 5)])
def test_digits_do_not_overhang_the_nest(index: Expr, extent: int) -> None:
    assert mapped((index,), (8,), (extent,)) is None
    assert mapped((index,), (8,), (2,)) is not None


def test_variables_from_elsewhere_have_no_map() -> None:
    assert access_map((i, k), (i,), (8,), (8, 4), Domain()) is None


def test_one_element_is_touched_by_all() -> None:
    found = mapped((0,), (1,))
    assert found is not None
    assert 0 == found.free
    assert all(modes[0].is_broadcast for modes in found.map.inputs)


@given(st.sampled_from([2, 3, 4, 8]), st.sampled_from([2, 4]), st.integers(0, 3))
def test_the_map_gives_the_subscripts(divisor: int, scale: int, shift: int) -> None:
    indices = ((i * 16 + j) // divisor, j % scale + scale * (i // 2))
    found = mapped(indices, (128, 64))
    if found is None:
        return
    grid = np.indices((8, 16))
    zeros = [0] * found.free
    for axis, index in enumerate(indices):
        expected = evaluate(index, {i: grid[0], j: grid[1]}, exact=True)
        assert np.array_equal(expected, np.broadcast_to(found.map(*grid, *zeros)[axis], (8, 16)))
