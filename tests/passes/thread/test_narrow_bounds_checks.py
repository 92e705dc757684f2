"""Pairs of tests of a sum of data become one of 32 bits, with the same outcome."""

from hypothesis import given
from hypothesis import strategies as st
from programs import index_var

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, INT64, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Binary, Select, Var, as_expr, cast, conjunction, const, select
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, For, ForKind, If, Launch, Seq, Store
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.thread.narrow_bounds_checks import PASS, narrowed

UINT32 = SCALARS["uint32"]
FIRST, COUNT, PAGE = Var("first", INT32), Var("count", INT32), Var("page", SCALARS["int16"])
K, LANE, M = map(index_var, ("k", "lane", "M"))
DOMAIN = Domain().with_range(K, 0, 2**20).with_range(LANE, 0, 255).with_range(M, 0, 2**31 - 1)
EDGES = st.sampled_from([-(2**31), -1, 0, 1, 255, 2**31 - 256, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)


def index(start=FIRST, pitch=1024):
    return cast(start, INT64) + cast(K * pitch, INT64) + cast(LANE, INT64)


def within(at, extent=M):
    return conjunction([at >= 0, at < cast(extent, INT64)])


def is_narrow(test):
    return isinstance(test, Binary) and test.op is BinaryOp.LT and test.a.dtype == UINT32


@given(EDGES, st.integers(0, 2**20), st.integers(0, 255), st.integers(0, 2**31 - 1))
def test_outcomes_stay_the_same_although_sums_pass_32_bits(first, k, lane, extent):
    test = within(index())
    env = {FIRST: first, K: k, LANE: lane, M: extent}
    made = narrowed(test, DOMAIN)
    assert is_narrow(made)
    for near in (first, extent - lane - k * 1024, 2**31 - 1 - lane):  # such as hit the ends
        if -(2**31) <= near < 2**31:
            assert bool(evaluate(test, {**env, FIRST: near})) == bool(evaluate(made, {**env, FIRST: near}))


@given(st.integers(-(2**15), 2**15 - 1), st.integers(0, 255), st.integers(0, 2**31 - 1))
def test_differences_and_products_keep_their_outcomes_too(page, lane, extent):
    at = cast(PAGE, INT64) * const(60000, INT64) - cast(LANE * 2, INT64)
    test = conjunction([as_expr(PAGE > 3), *(at >= 0, at < cast(M, INT64))])
    env = {PAGE: page, LANE: lane, M: extent}
    made = narrowed(test, DOMAIN)
    assert made is not test
    assert bool(evaluate(test, env)) == bool(evaluate(made, env))


def test_tests_stay_wide_where_rests_could_deceive():
    for test in (
        within(index(pitch=4096)),  # beyond 2**32
        within(cast(FIRST, INT64) - cast(K * 4096, INT64)),  # so far below 0 that its rest looks like an index
        within(index(), extent=index_var("unbounded")),
        index() >= 0,
        conjunction([index() >= 0, index(COUNT) < cast(M, INT64)]),  # not of the same sum
        conjunction([index() >= 1, index() < cast(M, INT64)]),
        conjunction([K >= 0, K < M]),  # index arithmetic, whose width is chosen when it is printed
    ):
        assert test is narrowed(test, DOMAIN)


def test_the_pass_knows_loops_names_and_sizes():
    tensor = Buffer("A", (M,), INT32, Scope.GLOBAL)
    trips = Var("n", INT32)
    store = If(within(index(pitch=256)), Store(tensor, (K,), const(1, INT32)))
    choice = Store(tensor, (K,), select(within(index(pitch=256)), const(1, INT32), const(2, INT32)))
    body = [
        Bind(trips, Binary(BinaryOp.FLOORDIV, COUNT, const(256, INT32), INT32)),
        For(K, as_expr(0), trips, 1, ForKind.SERIAL, Seq((store, choice))),
    ]
    launch = Launch((index_var("bx"),), (as_expr(4),), (128, 1, 1), Seq(tuple(body)), thread=LANE)
    func = PrimFunc("f", (TensorParam(tensor),), launch, symbols=(M,))
    made = PASS.run(func, PassContext())
    (branch,) = (s for s in walk(made.body) if isinstance(s, If))
    (picked,) = (s for s in walk(made.body) if isinstance(s, Store) and isinstance(s.value, Select))
    assert is_narrow(branch.condition)
    assert is_narrow(picked.value.condition)
