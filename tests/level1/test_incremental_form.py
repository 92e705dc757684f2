"""Incremental forms: derived where the algebra gives one, equal to the plain reduction, and refused elsewhere."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Load, Var, binary, select
from tilelang.ir.scalar import BinaryOp
from tilelang.language import abs as absolute
from tilelang.language import exp, exp2, infinity, round, sqrt
from tilelang.level1.graph import Combiner
from tilelang.level1.incremental_form import Incremental, NotIncremental, incremental_form

K = Var("k", INT32, index=True)
X = Buffer("x", (Const(64, INT32),), FLOAT32, Scope.GLOBAL)
W = Buffer("w", (Const(64, INT32),), FLOAT32, Scope.GLOBAL)
M = Buffer("m", (), FLOAT32, Scope.FRAGMENT)
L = Buffer("l", (), FLOAT32, Scope.FRAGMENT)
BEFORE = {M: Buffer("m_before", (), FLOAT32, Scope.FRAGMENT), L: Buffer("l_before", (), FLOAT32, Scope.FRAGMENT)}
x, w, m, l = Load(X, (K,), FLOAT32), Load(W, (K,), FLOAT32), Load(M, (), FLOAT32), Load(L, (), FLOAT32)
HIDDEN = -infinity("float32")


def form_of(body: Expr, combiner: Combiner = Combiner.SUM) -> Incremental | NotIncremental:
    return incremental_form(body, combiner, {K}, {M: Combiner.MAX, L: Combiner.SUM})


def values(body: Expr, arrays: dict[Buffer, object]) -> np.ndarray:
    """A body for all k, given what is read."""
    k = np.arange(64)

    def load(node: Load, indices: tuple[object, ...]) -> object:
        return np.asarray(arrays[node.buffer])[indices] if indices else np.float32(arrays[node.buffer])

    with np.errstate(all="ignore"):
        return np.broadcast_to(evaluate(body, {K: k}, load=load), k.shape)


def run_in_tiles(body: Expr, xs: np.ndarray, ws: np.ndarray, tile: int) -> float:
    """The sum of a body in a loop over tiles, in which m is the running maximum of x and l the running sum of w * w."""
    form = form_of(body)
    assert isinstance(form, Incremental)
    before, now = {M: np.finfo(np.float32).min, L: 0.0}, {}
    total = np.float32(0)
    for start in range(0, 64, tile):
        part = slice(start, start + tile)
        now = {M: max(before[M], xs[part].max()), L: before[L] + (ws[part] ** 2).sum()}
        arrays = {X: xs, W: ws, **now, **{BEFORE[array]: value for array, value in before.items()}}
        rescale = form.rescale(BEFORE)
        if rescale is not None:
            total = total * values(rescale, arrays)[0]
        total = total + values(form.body, arrays)[part].sum()
        before = now
    return float(total if form.epilogue is None else total * values(form.epilogue, {X: xs, W: ws, **now})[0])


DERIVABLE = {
    "softmax": exp(x - m),
    "softmax in powers of two": exp2(x * 1.5 - m * 1.5),
    "weighted softmax": exp(x - m) / l * w,
    "masked weights": select(K % 3 == 0, exp(x - m) * w, 0.0),
    "masked scores": exp(select(K % 3 == 0, x, HIDDEN) - m),
    "masked exponents": exp(select(K % 3 == 0, x - m, HIDDEN)),
    "normalized": x / sqrt(l) * w,
    "two exponentials": exp(x - m) + w * exp(2.0 * x - x - m),
    "inverse": w / exp(m - x),
    "exponent of a sum": exp(l * 0.001 - x),
    "squared": exp(x - m) * exp(x - m),
    "scaled after": (x * w) * (1 / l) - w / l,
    "a maximum that is at least a number": exp(x - binary(BinaryOp.MAX, m, 4.0)) * w,
    "a maximum that is at most a number": exp(x - binary(BinaryOp.MIN, m, 4.0)) * w,
    "nothing to do": x * w,
}


@pytest.mark.parametrize("body", DERIVABLE.values(), ids=DERIVABLE)
@pytest.mark.parametrize("tile", [1, 16, 64])
def test_the_loop_gives_the_plain_sum(body: Expr, tile: int) -> None:
    rng = np.random.default_rng(tile)
    xs, ws = rng.standard_normal((2, 64)).astype(np.float32) * 3
    final = {X: xs, W: ws, M: xs.max(), L: (ws**2).sum()}
    expected = values(body, final).sum(dtype=np.float64)
    np.testing.assert_allclose(run_in_tiles(body, xs, ws, tile), expected, rtol=2e-4, atol=1e-4)


def test_rows_that_begin_masked_are_exact() -> None:
    xs, ws = np.full(64, -np.inf, np.float32), np.ones(64, np.float32)
    xs[40] = 2.0
    assert 1.0 == run_in_tiles(exp(x - m), xs, ws, 16)
    xs[:] = -np.inf
    assert 0.0 == run_in_tiles(exp(x - m), xs, ws, 16)


def test_the_rescaling_of_attention_reads_as_one_writes_it() -> None:
    form = form_of(exp(x - m) / l * w)
    assert isinstance(form, Incremental)
    assert "T.exp(x[k] - m) * w[k]" == repr(form.body)
    assert "T.exp(m_before - m)" == repr(form.rescale(BEFORE))
    assert "1.0 / l" == repr(form.epilogue)


def test_maxima_commute_with_terms() -> None:
    form = form_of(x * 2.0 - m, Combiner.MAX)
    assert isinstance(form, Incremental)
    assert ("x[k] * 2.0", "-m", BinaryOp.ADD) == (repr(form.body), repr(form.epilogue), form.epilogue_op)
    assert form.rescale(BEFORE) is None


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ((x - m) * (x - m), "change by different factors"),
        (round(x / m), "not a product"),
        (exp(x * m), "not a sum"),
        (sqrt(x - m), "not a product"),
        (select(x < m, x, w), "not a product"),
        (w * exp(m - x), "overflow"),
        (exp(binary(BinaryOp.MAX, m, 4.0) - x), "overflow"),
        (exp(x - absolute(m)), "overflow"),
        (exp(x - m) + x, "change by different factors"),
    ],
)
def test_what_has_no_incremental_form_is_refused(body: Expr, reason: str) -> None:
    form = form_of(body)
    assert isinstance(form, NotIncremental)
    assert reason in form.reason


@pytest.mark.parametrize(("combiner", "body"), [(Combiner.MAX, exp(x - m)), (Combiner.PROD, x / m), (Combiner.ARGMAX, x - m)])
def test_combiners_that_do_not_commute_are_refused(combiner: Combiner, body: Expr) -> None:
    assert isinstance(form_of(body, combiner), NotIncremental)


def bodies() -> st.SearchStrategy[Expr]:
    """Random bodies over x, w, m and l, of which some are separable."""
    leaves = st.sampled_from([x, w, m, l, Const(2.0, FLOAT32), exp(x - m), exp(w - m)])
    operators = st.sampled_from([BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV])

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.builds(binary, operators, inner, inner) | st.builds(lambda a: exp(a * 0.25), inner)

    return st.recursive(leaves, grow, max_leaves=6)


@settings(max_examples=4 * settings().max_examples)
@given(bodies(), st.integers(0, 1000), st.sampled_from([7, 16, 64]))
def test_random_bodies_that_are_accepted_give_the_plain_sum(body: Expr, seed: int, tile: int) -> None:
    form = form_of(body)
    if isinstance(form, NotIncremental):
        assert expr_key(body) is not None and form.reason
        return
    rng = np.random.default_rng(seed)
    xs, ws = rng.uniform(0.5, 1.5, (2, 64)).astype(np.float32)
    final = {X: xs, W: ws, M: xs.max(), L: (ws**2).sum()}
    parts = values(body, final).astype(np.float64)
    if not np.all(np.isfinite(parts)) or np.abs(parts).max() > 1e6:
        return
    found = run_in_tiles(body, xs, ws, tile)
    np.testing.assert_allclose(found, parts.sum(), rtol=1e-3, atol=1e-3 * np.abs(parts).max() * 64)
