"""Loops that are split at masks compute the same, in the same order, and mask nothing in between."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32, INT64, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Select, Var, binary, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Bind, For, ForKind, If, ParallelLoop, Seq, Store
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.ops.fill import Fill
from tilelang.transforms.split_masks import has_masks, split_masks, without_masks

ROWS, COLUMNS = 5, 4
k, b, i, j = (Var(name, INT32, index=True) for name in "kbij")
S = Buffer("S", (const(ROWS, INT32), const(COLUMNS, INT32)), FLOAT32, Scope.FRAGMENT)
MASK = const(float("-inf"), FLOAT32)
ZERO = const(0.0, FLOAT32)
SCORE = Load(S, (i, j), FLOAT32)


def loop(stmt, start=0, stop=7, step=1):
    nest = ParallelLoop((i, j), S.shape, stmt)
    ends = (end if not isinstance(end, int) else const(end, INT32) for end in (start, stop))
    return For(k, *ends, step, ForKind.SERIAL, Seq((nest,)))


def masked(condition, kept=SCORE):
    return Store(S, (i, j), select(condition, kept, MASK))


def split(node, domain=None, is_uniform=lambda _: True):
    return split_masks(node, domain or Domain(), is_uniform)


def values(range_, stmt, env):
    """What each iteration of a loop stores, where the buffer holds ones before."""
    made = []
    rows, columns = np.ogrid[:ROWS, :COLUMNS]
    for number in range_:
        left = np.ones((ROWS, COLUMNS))
        inside = {**env, k: number, i: rows, j: columns}
        for each in walk(stmt):
            if isinstance(each, Fill):
                left[:] = each.value.value
            elif isinstance(each, If):
                (store,) = [s for s in walk(each.then_body) if isinstance(s, Store)]
                left = np.where(evaluate(each.condition, inside), store.value.value, left)
                break
            elif isinstance(each, Store):
                left = evaluate(each.value, inside, load=lambda *_, left=left: left) + np.zeros_like(left)
        made.append((number, left.tolist()))
    return made


def run(stmt, env):
    """What all iterations of loops store, in order."""
    env, made = dict(env), []
    for part in stmt.body if isinstance(stmt, Seq) else (stmt,):
        if isinstance(part, Bind):
            env[part.var] = int(evaluate(part.value, env))
        else:
            made += values(range(*(int(evaluate(end, env)) for end in (part.start, part.stop)), part.step), part, env)
    return made


def masks(node):
    """Whether a loop still masks."""
    inner = [s for s in walk(node.body)]
    return any(isinstance(s, If) for s in inner) or any(
        isinstance(e, Select) for s in inner for root in expressions(s) for e in walk_expr(root)
    )


OPS = (BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)
SMALL = st.integers(-4, 4)


@st.composite
def comparisons(draw):
    left, right = (draw(SMALL) * k + draw(SMALL) * i + draw(SMALL) * j + draw(SMALL) * b for _ in range(2))
    return binary(draw(st.sampled_from(OPS)), left + draw(st.integers(-9, 9)), right)


@st.composite
def conditions(draw):
    parts = draw(st.lists(comparisons(), min_size=1, max_size=3))
    op = draw(st.sampled_from((BinaryOp.AND, BinaryOp.OR)))
    made = parts[0]
    for part in parts[1:]:
        made = binary(op, made, part)
    return unary(UnaryOp.NOT, made) if draw(st.booleans()) else made


@given(conditions(), st.integers(-3, 3), st.integers(-3, 9), st.sampled_from([1, -1]), SMALL, st.integers(0, 3))
def test_split_loops_compute_the_same_in_the_same_order(condition, start, stop, step, block, form):
    forms = (
        masked(condition),
        masked(condition, kept=ZERO),
        Store(S, (i, j), select(condition, MASK, SCORE)),
        If(condition, Store(S, (i, j), MASK)),
    )
    node = loop(forms[form], start + b, stop - b, step)
    made = split(node)
    assert made is None or len([s for s in made.body if isinstance(s, For)]) <= 3
    if made is not None:
        assert sum(not masks(s) for s in made.body if isinstance(s, For)) == 1
        assert run(made, {b: block}) == run(node, {b: block})


@given(st.integers(0, 6), st.booleans())
def test_only_blocks_on_the_diagonal_are_masked(block, descending):
    last = (b + 1) * ROWS // COLUMNS + 1  # the first block of keys that no query sees
    at = last - 1 - k if descending else k
    made = split(loop(masked(b * ROWS + i >= at * COLUMNS + j), 0, last))
    (free,) = [s for s in made.body if isinstance(s, For) and not masks(s)]
    env = {b: block}
    for bind in (s for s in made.body if isinstance(s, Bind)):
        env[bind.var] = int(evaluate(bind.value, env))
    found = range(int(evaluate(free.start, env)), int(evaluate(free.stop, env)))
    blocks = range(int(evaluate(last, env)))
    keys = {n: (len(blocks) - 1 - n if descending else n) for n in blocks}
    assert [n for n in blocks if keys[n] * COLUMNS + COLUMNS - 1 <= block * ROWS] == list(found)
    assert len([s for s in made.body if isinstance(s, For)]) == 2


def test_a_window_splits_at_both_sides():
    row, column = b * ROWS + i, k * COLUMNS + j
    made = split(loop(masked(binary(BinaryOp.AND, row >= column, column > row - 40)), b, b + 20))
    assert [True, False, True] == [masks(s) for s in made.body if isinstance(s, For)]


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
@pytest.mark.parametrize("rows", [-9, 0, 13, 99])
def test_loops_that_end_at_data_split_at_exact_indices(dtype, rows):
    end, n = Var("end", as_dtype(dtype)), Var("n", INT64, index=True)
    made = split(loop(masked(k * COLUMNS + j < n), 0, end))
    bounds = [s for s in made.body if isinstance(s, Bind)]
    assert bounds and all(s.var.dtype == s.value.dtype for s in bounds)
    env = {end: np.array(7, dtype)[()], n: rows}
    assert run(made, env) == run(loop(masked(k * COLUMNS + j < n), 0, 7), env)


def test_the_last_tile_of_keys_is_masked_and_no_other():
    made = split(loop(masked(k * COLUMNS + j < 27), 0, 7))
    assert [(0, 6, False), (6, 7, True)] == [(int(s.start), int(s.stop), masks(s)) for s in made.body]


def test_tiles_that_are_never_ragged_are_not_masked():
    made = split(loop(masked(k * COLUMNS + j < 28), 0, 7))
    assert [False] == [masks(s) for s in made.body]


@pytest.mark.parametrize("first", [True, False])
def test_one_side_of_a_disjunction_is_enough(first):
    numbers = Buffer("numbers", (const(100, INT32),), INT32, Scope.GLOBAL)
    same = Load(numbers, (b * ROWS + i,), INT32) == Load(numbers, (k * COLUMNS + j,), INT32)
    sides = (k >= b, same) if first else (same, k >= b)
    made = split(loop(masked(binary(BinaryOp.OR, *sides))))
    assert [True, False] == [masks(s) for s in made.body if isinstance(s, For)]
    (bind,) = [s for s in made.body if isinstance(s, Bind)]
    assert 3 == evaluate(bind.value, {b: 3})
    assert split(loop(masked(binary(BinaryOp.AND, *sides)))) is None


@pytest.mark.parametrize("shift", [0, 1, -2])
@pytest.mark.parametrize("limit", [-(2**31), 3, 2**31 - 1])
def test_a_limit_that_is_data(shift, limit):
    count = Var("count", INT32)
    node = loop(masked(k + shift >= count), 0, b)
    made = split(node)
    assert [True, False] == [masks(s) for s in made.body if isinstance(s, For)]
    assert run(made, {b: 6, count: limit}) == run(node, {b: 6, count: limit})
    assert split(loop(masked(k * COLUMNS + j >= count), 0, b)) is None


def test_a_mask_before_a_gemm_becomes_a_clear():
    made = split(loop(masked(k * COLUMNS + j < 27, kept=ZERO)))
    (fill,) = made.body[0].body.body
    assert isinstance(fill, Fill)
    assert fill.value.value == 0


@pytest.mark.parametrize(
    "condition",
    [
        k * COLUMNS + j != 3,  # neither end
        (k * COLUMNS + j) * k < 27,  # not linear
        (k + j) // 2 < 2,
        i < b,  # nothing to do with the loop
        Load(Buffer("n", (), INT32, Scope.VAR), (), INT32) > k + j,  # may change
    ],
)
def test_other_conditions_stay(condition):
    assert split(loop(masked(condition))) is None


def test_split_points_that_differ_from_thread_to_thread_are_refused():
    node = loop(masked(k * COLUMNS + j < b))
    assert split(node) is not None
    assert split(node, is_uniform=lambda _: False) is None


def test_what_is_left_of_statements_where_nothing_is_masked():
    masking, unknown = masked(binary(BinaryOp.LE, k, b)), masked(binary(BinaryOp.LE, i, j))
    for store, left in ((masking, None), (unknown, unknown)):
        node = loop(store)
        (nest,) = node.body.body
        found = without_masks(node, Domain(), lambda _: True)(nest)
        assert found is left if left is None else found is nest


def test_a_loop_has_masks_where_one_depends_on_uniform_values():
    node = loop(masked(k * COLUMNS + j < b))
    assert has_masks(node, Domain(), lambda _: True)
    assert not has_masks(node, Domain(), lambda _: False)
    assert not has_masks(loop(Store(S, (i, j), ZERO)), Domain(), lambda _: True)
