from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, Load, Var, as_expr, int_const
from tilelang.ir.stmt import ParallelLoop
from tilelang.ir.visit import walk
from tilelang.language.extents import difference, match_regions, plain, product, shape_text

K = Var("K", INT32, index=True)
M = Var("M", INT32, index=True)


def test_a_slice_between_two_multiples_has_a_constant_extent() -> None:
    assert 32 == difference((K + 1) * 32, K * 32)


def test_products_of_variables_cancel_in_any_order() -> None:
    assert 0 == difference(K * M * 2, M * 2 * K)
    assert -1 == difference((K + 1) * (K - 1), K * K)


def test_names_that_are_fixed_mean_what_they_stand_for() -> None:
    """In slices, in shapes, and as bounds of loops; names of what memory holds mean only themselves."""

    @T.prim_func
    def kernel(A: T.Tensor((512, 64), "float32"), I: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=128) as bx:
            first = bx * 64
            middle = first + 32
            last = T.min(middle + 32, middle + T.max(first + 64, first + 63) - first)
            read = I[bx]
            behind = read + 8
            tile = T.alloc_shared((last - first, behind - read), "float32")
            assert (64, 8) == tile.shape
            assert (32, 64) == A[middle:last, :].shape
            assert (64, 8) == A[first:last, read:behind].shape
            assert difference(read, first) is None
            for _ in T.Parallel(last - middle):
                pass

    (loop,) = (s for s in walk(kernel.body) if isinstance(s, ParallelLoop))
    assert (32,) == tuple(map(int_const, loop.extents))


def test_negation_is_a_multiplication() -> None:
    assert 5 == difference(-K + 5, 0 - K)


def test_unrelated_variables_have_no_constant_difference() -> None:
    assert difference(K, M) is None


def test_an_expression_that_is_no_polynomial_equals_only_itself() -> None:
    assert 4 == difference(K // 8 + 4, K // 8)
    assert difference(K // 8, K // 4) is None
    assert difference(K // 8, K % 8) is None


def test_an_element_read_twice_is_one_value() -> None:
    indices = Buffer("I", (as_expr(8),), INT32, Scope.GLOBAL)
    first, second = (Load(indices, (as_expr(n),), INT32) for n in (0, 1))
    assert 32 == difference(first + 32, Load(indices, (as_expr(0),), INT32))
    assert difference(first, second) is None


def test_casts_to_64_bits_change_nothing() -> None:
    assert 1 == difference(T.cast(K, "int64") + 1, K)


@given(st.lists(st.tuples(st.sampled_from("+-*"), st.integers(-5, 5)), max_size=5), st.integers(-9, 9))
def test_a_constant_difference_is_the_one_of_every_value(steps: list[tuple[str, int]], at: int) -> None:
    def run(x: Expr | int) -> Expr | int:
        for operator, number in steps:
            x = x + number if operator == "+" else x - number if operator == "-" else x * number
        return x

    expr = run(K)
    found = difference(expr, K)
    if found is not None:
        assert found == run(at) - at
    assert 0 == difference(expr, expr)


def test_regions_match_once_units_are_dropped() -> None:
    a = Buffer("a", tuple(as_expr(n) for n in (1, 4, 8)), INT32, Scope.SHARED)
    b = Buffer("b", tuple(as_expr(n) for n in (4, 8)), INT32, Scope.SHARED)
    c = Buffer("c", tuple(as_expr(n) for n in (8, 4)), INT32, Scope.SHARED)
    whole = [Region(x, tuple(as_expr(0) for _ in x.shape), x.shape) for x in (a, b, c)]
    assert match_regions(whole[0], whole[1]) is not None
    assert match_regions(whole[0], whole[2]) is None


def test_the_smaller_extent_counts_where_one_is_symbolic() -> None:
    a = Buffer("a", (K,), INT32, Scope.GLOBAL)
    b = Buffer("b", (as_expr(8),), INT32, Scope.SHARED)
    matched = match_regions(*(Region(x, (as_expr(0),), x.shape) for x in (a, b)))
    assert matched is not None
    assert "(T.min(K, 8),)" == shape_text(matched[0].extent) == shape_text(matched[1].extent)


def test_small_helpers() -> None:
    assert 24 == int_const(product((2, 3, 4)))
    assert 1 == int_const(product(()))
    assert 7 == plain(as_expr(7))
    assert K is plain(K)
    assert "(K + 1, 3)" == shape_text((K + 1, 3))
