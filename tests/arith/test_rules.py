import random

import pytest

from tilelang.arith.domain import Domain
from tilelang.arith.match import Literal, fill
from tilelang.arith.rules import RULES, RULES_BY_OPERATOR, Rule, operator_of
from tilelang.arith.simplify import cost, simplify
from tilelang.dtypes import BOOL, INT32, SCALARS
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Var, const
from tilelang.ir.visit import walk_expr


def law(rule: Rule) -> str:
    return f"{RULES.index(rule)}"


def instances(rule: Rule, dtype: str) -> list[tuple[dict[Var, Expr], list[Var]]]:
    """Bindings of the pattern's wildcards to variables of a dtype (or index variables) and to literals."""
    found = []
    chooser = random.Random(RULES.index(rule))
    low, high = (-9, 9) if dtype == "index" else SCALARS[dtype].limits
    for _ in range(12):
        bindings: dict[Var, Expr] = {}
        for wildcard in (w for w in walk_expr(rule.pattern) if isinstance(w, Var)):
            if wildcard in bindings:
                continue
            if isinstance(wildcard, Literal):
                number = chooser.choice([1, 2, 3, low, high, chooser.randint(int(low), int(high))])
                bindings[wildcard] = const(number, INT32 if dtype == "index" else SCALARS[dtype])
            elif wildcard.dtype.is_bool:
                bindings[wildcard] = Var(wildcard.name, BOOL)
            elif dtype == "index":
                bindings[wildcard] = Var(wildcard.name, INT32, index=True)
            else:
                bindings[wildcard] = Var(wildcard.name, SCALARS[dtype])
        found.append((bindings, [v for v in bindings.values() if isinstance(v, Var)]))
    return found


def values(var: Var, chooser: random.Random) -> int | bool:
    if var.dtype.is_bool:
        return chooser.random() < 0.5
    low, high = (-9, 9) if var.index else var.dtype.limits
    return chooser.choice([int(low), int(high), 0, 1, chooser.randint(int(low), int(high))])


@pytest.mark.parametrize("rule", RULES, ids=law)
def test_each_row_keeps_the_value_at_every_point(rule):
    for dtype in ("index", "int8", "uint8", "int32", "uint32", "int64"):
        check(rule, dtype)


def check(rule, dtype):
    chooser = random.Random(1)
    if rule.exact and dtype != "index":
        bindings, _ = instances(rule, dtype)[0]
        assert rule.bindings(fill(rule.pattern, bindings)) is None
        return
    for bindings, variables in instances(rule, dtype):
        expr = fill(rule.pattern, bindings)
        found = rule.bindings(expr)
        if found is None:
            assert rule.when is not None or isinstance(expr, Const)
            continue
        result = fill(rule.result, found)
        for _ in range(20):
            point = {var: values(var, chooser) for var in variables}
            for exact in (False, True):
                assert evaluate(expr, point, exact=exact) == evaluate(result, point, exact=exact), (dtype, point)


@pytest.mark.parametrize("rule", RULES, ids=law)
def test_each_row_is_found_under_the_operator_of_its_pattern(rule):
    assert rule in RULES_BY_OPERATOR[operator_of(rule.pattern)]


@pytest.mark.parametrize("rule", RULES, ids=law)
def test_no_row_makes_an_expression_dearer(rule):
    bindings, _ = instances(rule, "int32")[0]
    assert cost(fill(rule.result, bindings)) <= cost(fill(rule.pattern, bindings))


def test_literals_are_not_merged_where_index_position_would_tell():
    v = Var("v", SCALARS["int8"])
    expr = v + 100 + 100
    assert simplify(expr, Domain()) is expr
